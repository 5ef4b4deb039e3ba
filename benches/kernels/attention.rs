//! Attention over edges, fused, against the composition it stands for.

use crate::{D, Kernel, N, PAIRS, drop_tensor, normal};
use emmy::Tape;
use emmy::autodiff::vjp;
use emmy::graph::generators::random_graph;
use emmy::kernels::attention::half_scores;
use emmy::ops::attention::EdgeAttention;
use std::hint::black_box;
use std::sync::Arc;

pub fn kernels() -> Vec<Kernel> {
    let pattern = Arc::clone(random_graph(N, PAIRS, 1).with_self_loops().pattern());
    let edges = pattern.nnz() as f64;
    let mut all = Vec::new();
    for (heads, width) in [(1, 64), (8, 8)] {
        let row = 4.0 * D as f64;
        let pass = edges * (4.0 + 4.0 * heads as f64 + row) + N as f64 * row;
        for version in [1, 2] {
            let attention = EdgeAttention::<f32> {
                pattern: Arc::clone(&pattern),
                slope: 0.2,
                dropout: None,
            };
            let z = normal(&[N, heads, width], 1);
            let (a, b) = (normal(&[heads, width], 2), normal(&[heads, width], 3));
            let (gy, t) = (normal(&[N, heads, width], 4), normal(&[N, heads], 5));
            let step = move |fused: bool, tempered: bool, backward: bool| {
                let tape = Tape::new();
                let (z, a, b) = (
                    tape.var(z.clone()),
                    tape.var(a.clone()),
                    tape.var(b.clone()),
                );
                let t = tempered.then(|| tape.var(t.clone()));
                let y = match (version, fused) {
                    (1, true) => attention.gat(z, a, b, t),
                    (_, true) => attention.gatv2(z, z, a, t),
                    (1, false) => {
                        let alpha = attention.gat_coefficients(z, a, b, t);
                        emmy::ops::sparse::spmm(&attention.pattern, alpha, z)
                    }
                    (_, false) => {
                        let alpha = attention.gatv2_coefficients(z, z, a, t);
                        emmy::ops::sparse::spmm(&attention.pattern, alpha, z)
                    }
                };
                if backward {
                    let mut operands = vec![z, a];
                    operands.extend((version == 1).then_some(b));
                    operands.extend(t);
                    vjp(y, &operands, &gy).into_iter().for_each(drop_tensor);
                }
            };
            let name = if version == 1 { "GAT" } else { "GATv2" };
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
    let (z, a) = (normal(&[N, D], 10), normal(&[D], 11));
    all.push(Kernel::new(
        "halves of GAT scores, 8 × 8",
        0.0,
        (4 * N * (D + 2 * 8)) as f64,
        move || {
            let a = a.as_slice().unwrap();
            black_box(half_scores(z.as_slice().unwrap(), [a, a], 8));
        },
    ));
    all
}
