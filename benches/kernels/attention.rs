//! Attention over edges and between all tokens, fused, against the compositions.

use crate::{D, Kernel, N, PAIRS, drop_tensor, normal};
use emmy::autodiff::vjp;
use emmy::graph::generators::random_graph;
use emmy::kernels::attention::half_scores;
use emmy::nn::{ContraConfig, Pass};
use emmy::ops::attention::{
    DenseAttention, EdgeAttention, EdgeOperands, EdgeScore, LeakySum, Mask, Qkv,
};
use emmy::{Real, Tape, Var};
use std::hint::black_box;
use std::sync::Arc;

/// f(k, q) = k q: a score of one's own. On rows of length 1 it is their cosine.
#[derive(Clone, Copy)]
struct Product;

impl<F: Real> EdgeScore<F> for Product {
    fn name(&self) -> &'static str {
        "product"
    }

    #[inline(always)]
    fn value(&self, k: F, q: F) -> F {
        k * q
    }

    #[inline(always)]
    fn pull(&self, g: F, k: F, q: F) -> [F; 3] {
        [g * k * q, g * q, g * k]
    }

    fn compose<'t>(&self, k: Var<'t, F>, q: Var<'t, F>) -> Var<'t, F> {
        k * q
    }
}

/// An attention of the values z with vectors a and b and a temperature, fused or composed.
type Attend =
    for<'t> fn(&EdgeAttention, bool, [Var<'t, f32>; 3], Option<Var<'t, f32>>) -> Var<'t, f32>;

/// The kinds of attention along edges that are timed.
const ALONG_EDGES: [(&str, Attend); 5] = [
    ("GAT", |edges, fused, [z, a, b], t| {
        along(
            edges,
            fused,
            LEAKY,
            EdgeOperands {
                t,
                ..EdgeOperands::gat(z, a, b)
            },
        )
    }),
    ("GATv2", |edges, fused, [z, a, _], t| {
        along(
            edges,
            fused,
            LEAKY,
            EdgeOperands {
                t,
                ..EdgeOperands::gatv2(z, z, a)
            },
        )
    }),
    ("own score", |edges, fused, [z, a, _], t| {
        along(
            edges,
            fused,
            Product,
            EdgeOperands {
                t,
                ..EdgeOperands::gatv2(z, z, a)
            },
        )
    }),
    ("cosine", |edges, fused, [z, _, _], t| {
        let unit = z / z.norm(&[2], true);
        along(
            edges,
            fused,
            Product,
            EdgeOperands {
                t,
                ..EdgeOperands::new(unit, unit, z)
            },
        )
    }),
    // Against the composition with a sampled product.
    ("dot products", |edges, fused, [z, a, b], t| {
        let q = t.map_or(z, |t| z * t.unsqueeze(2)) * a;
        let k = z * b;
        match fused {
            true => edges.dot(q, k, z, None),
            false => edges.combine(edges.dot_coefficients(q, k, None), z, None),
        }
    }),
];

const LEAKY: LeakySum<f32> = LeakySum { slope: 0.2 };

fn along<'t>(
    edges: &EdgeAttention,
    fused: bool,
    score: impl EdgeScore<f32>,
    x: EdgeOperands<Var<'t, f32>>,
) -> Var<'t, f32> {
    match fused {
        true => edges.attend(score, x),
        false => edges.combine(edges.coefficients(score, x), x.v, None),
    }
}

pub fn kernels() -> Vec<Kernel> {
    let pattern = Arc::clone(random_graph(N, PAIRS, 1).with_self_loops().pattern());
    let edges = pattern.nnz() as f64;
    let mut all = Vec::new();
    for (heads, width) in [(1, 64), (8, 8)] {
        let row = 4.0 * D as f64;
        let pass = edges * (4.0 + 4.0 * heads as f64 + row) + N as f64 * row;
        for (name, attend) in ALONG_EDGES {
            let attention = EdgeAttention {
                pattern: Arc::clone(&pattern),
                dropout: None,
            };
            let z = normal(&[N, heads, width], 1);
            let (a, b) = (normal(&[heads, width], 2), normal(&[heads, width], 3));
            let (gy, t) = (normal(&[N, heads, width], 4), normal(&[N, heads], 5));
            let step = move |fused: bool, tempered: bool, backward: bool| {
                let tape = Tape::new();
                let operands = [&z, &a, &b].map(|x| tape.var(x.clone()));
                let t = tempered.then(|| tape.var(t.clone()));
                let y = attend(&attention, fused, operands, t);
                if backward {
                    let wanted: Vec<_> = operands.into_iter().chain(t).collect();
                    vjp(y, &wanted, &gy).into_iter().for_each(drop_tensor);
                }
            };
            for (what, backward, passes) in
                [("forward", false, 1.0), ("forward and backward", true, 3.0)]
            {
                for (with, tempered) in [("", false), (" with temperature", true)] {
                    let (run, plain) = (step.clone(), step.clone());
                    let title = format!("{name}{with} {heads} × {width}, {what}");
                    all.push(
                        Kernel::new(title, 0.0, passes * pass, move || {
                            run(true, tempered, backward)
                        })
                        .against(move || plain(false, tempered, backward)),
                    );
                }
            }
        }
    }
    all.extend(dense());
    all.extend(contra());
    let (z, a) = (normal(&[N, D], 10), normal(&[D], 11));
    all.push(Kernel::new(
        "halves of GAT scores, 8 × 8",
        0.0,
        (4 * N * (D + 2 * 8)) as f64,
        move || {
            let a = a.as_slice().unwrap();
            black_box(half_scores(z.shape()[0], z.as_slice().unwrap(), [a, a], 8));
        },
    ));
    all
}

/// ContraNorm of the nodes of Cora, Eq. (9), against the composition; and its linear form.
fn contra() -> Vec<Kernel> {
    let width = 64;
    let mut all = Vec::new();
    for (name, nodes, config) in [
        ("ContraNorm", 2708, ContraConfig::new(0.5)),
        ("ContraNorm-v2", 2708, ContraConfig::v2(0.5)),
        ("ContraNorm-v2", 100_000, ContraConfig::v2(0.5)),
        ("ContraNorm-v2", 1_000_000, ContraConfig::v2(0.5)),
    ] {
        let linear = config == ContraConfig::v2(0.5);
        // With larger numbers a row would attend to itself alone.
        let (x, gy) = (normal(&[nodes, width], 1) * 0.3, normal(&[nodes, width], 2));
        let (x, gy) = (x.into_shared(), gy);
        // Per pair of rows 3/2 products of this width forward and 7/2 backward; per row 2 and 4 of d × d.
        let pairs = 2.0 * (width * nodes * nodes) as f64;
        let rows = 2.0 * (width * width * nodes) as f64;
        let bytes = (4 * nodes * width) as f64;
        for (what, backward, flops, times) in [
            ("forward", false, [1.5 * pairs, 2.0 * rows], 4.0),
            (
                "forward and backward",
                true,
                [5.0 * pairs, 6.0 * rows],
                12.0,
            ),
        ] {
            let operands = [x.clone(), gy.clone()];
            let step = move |fused: bool| {
                let [x, gy] = &operands;
                let norm = config.build::<f32>(width);
                let tape = Tape::new();
                let pass = Pass::train(&tape, &norm, 0);
                let x = tape.var(x.clone());
                let y = match fused {
                    true => norm.forward(&pass, x),
                    false => {
                        let y = x - 0.5 * x.matmul(x.t()).softmax(-1).matmul(x);
                        y.layer_norm(None, None, 1e-5)
                    }
                };
                if backward {
                    vjp(y, &[x], gy).into_iter().for_each(drop_tensor);
                }
            };
            let (run, plain) = (step.clone(), step);
            let title = format!("{name} {nodes} × {width}, {what}");
            let flops = flops[usize::from(linear)];
            let kernel = Kernel::new(title, flops, times * bytes, move || run(true));
            all.push(match linear {
                true => kernel,
                false => kernel.against(move || plain(false)),
            });
        }
    }
    all
}

/// Attention between all tokens, 8 heads of width 64; a baseline where the scores of all pairs fit in memory.
fn dense() -> Vec<Kernel> {
    let (heads, width) = (8, 64);
    let mut all = Vec::new();
    for tokens in [1024, 4096, 16_384] {
        let shape = [tokens, heads, width];
        let inputs = [1, 2, 3].map(|seed| normal(&shape, seed));
        let gy = normal(&shape, 4);
        let step = move |fused: bool, backward: bool| {
            let tape = Tape::new();
            let [q, k, v] = inputs.each_ref().map(|x| tape.var(x.clone()));
            let y = match fused {
                true => DenseAttention::new(width, Mask::none()).attend(Qkv::new(q, k, v)),
                false => {
                    let [q, k, v] = [q, k, v].map(|z| z.transpose(0, 1));
                    let scores = q.matmul(k.t()) / (width as f32).sqrt();
                    scores.softmax(-1).matmul(v).transpose(0, 1)
                }
            };
            if backward {
                let adjoints = vjp(y, &[q, k, v], &gy);
                adjoints.into_iter().for_each(drop_tensor);
            }
        };
        // Two products forward, five more backward.
        let product = 2.0 * (heads * width * tokens * tokens) as f64;
        for (what, backward, products) in
            [("forward", false, 2.0), ("forward and backward", true, 7.0)]
        {
            let (run, plain) = (step.clone(), step.clone());
            let title = format!("dense attention {tokens}, {heads} × {width}, {what}");
            let bytes = (4 * 4 * tokens * heads * width) as f64;
            let kernel = Kernel::new(title, products * product, bytes, move || {
                run(true, backward)
            });
            all.push(match tokens {
                ..=4096 => kernel.against(move || plain(false, backward)),
                _ => kernel,
            });
        }
    }
    all
}
