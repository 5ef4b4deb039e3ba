//! A score of a user's own along the edges of a graph: the cosine of the two ends, as an operation and inside
//! a layer of a `GraphNet`. The chapter on attention shows the first part of this file.

use emmy::ops::attention::{EdgeAttention, EdgeOperands, EdgeScore};
use emmy::{Real, Var};

/// f(k, q) = k q: the score of an edge is the product of its two rows, column by column.
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

/// Means of the rows of z by their cosines: with a = 1, Σ_c k_c q_c of rows of length 1. A row of zeros has
/// the cosine 0.
fn cosine<'t, F: Real>(edges: &EdgeAttention, z: Var<'t, F>, a: Var<'t, F>) -> Var<'t, F> {
    let unit = z / z.norm(&[2], true).add_scalar(F::of(1e-12));
    let x = EdgeOperands::new(unit, unit, z);
    edges.attend(Product, EdgeOperands { a: Some(a), ..x })
}

// The tests.

use emmy::autodiff::{check_grads, vjp};
use emmy::init::Rng;
use emmy::kernels::par;
use emmy::nn::{
    Conv, ConvOptions, GraphContext, GraphConv, GraphNet, GraphNetConfig, Input, Layer, Linear,
    Pass, Site,
};
use emmy::ops::attention::{LeakySum, ScaledProduct};
use emmy::optim::{Algorithm, Optimizer};
use emmy::sparse::Pattern;
use emmy::{Tape, Tensor, data, init, train};
use std::sync::Arc;

fn edges(n: usize, pairs: &[(usize, usize)]) -> EdgeAttention {
    EdgeAttention {
        pattern: Pattern::from_pairs(n, n, pairs).unwrap(),
        dropout: None,
    }
}

fn draw<F: Real>(shape: &[usize], seed: u64) -> Tensor<F> {
    init::normal(shape, 1.0, &mut init::rng(seed))
}

/// The same by loops from the formula.
fn naive(edges: &Pattern, z: &Tensor<f64>, a: &Tensor<f64>) -> Tensor<f64> {
    let (heads, width) = (z.shape()[1], z.shape()[2]);
    let norm = |i: usize, h: usize| {
        let squares = (0..width).map(|c| z[[i, h, c]].powi(2));
        squares.sum::<f64>().sqrt() + 1e-12
    };
    let mut y = Tensor::zeros(z.shape());
    for i in 0..edges.rows() {
        let sources: Vec<usize> = (edges.row(i).map(|e| edges.indices()[e] as usize)).collect();
        for h in 0..heads {
            let score = |&j: &usize| {
                let terms = (0..width).map(|c| a[[h, c]] * z[[j, h, c]] * z[[i, h, c]]);
                (terms.sum::<f64>() / norm(i, h) / norm(j, h)).exp()
            };
            let total: f64 = sources.iter().map(score).sum();
            for j in &sources {
                for c in 0..width {
                    y[[i, h, c]] += score(j) / total * z[[*j, h, c]];
                }
            }
        }
    }
    y
}

/// A graph with an isolated node, a node that hears only itself, one without edges, and an empty one.
fn graphs() -> [EdgeAttention; 4] {
    let pairs = [(0, 1), (0, 2), (1, 0), (1, 1), (1, 3), (2, 0), (3, 3)];
    [
        edges(5, &pairs),
        edges(1, &[(0, 0)]),
        edges(3, &[]),
        edges(0, &[]),
    ]
}

#[test]
fn the_chapter_shows_this_file() {
    let (shown, _) = include_str!("own_score.rs")
        .split_once("// The tests.")
        .unwrap();
    let (_, code) = shown.split_once("\n\n").unwrap();
    let chapter = include_str!("../../docs/attention.md");
    let listing = format!("```rust\n{}\n```\n", code.trim_end());
    assert!(chapter.contains(&listing), "{listing}");
    assert!(code.lines().count() < 45);
}

#[test]
fn the_value_is_that_of_the_loops() {
    for edges in graphs() {
        for (heads, width) in [(1, 4), (2, 8), (3, 17), (8, 1)] {
            let z = draw(&[edges.pattern.rows(), heads, width], 1);
            let a = draw(&[heads, width], 2);
            let tape = Tape::<f64>::new();
            let y = cosine(&edges, tape.var(z.clone()), tape.var(a.clone()));
            let expected = naive(&edges.pattern, &z, &a);
            let close = y
                .value()
                .iter()
                .zip(&expected)
                .all(|(a, b)| (a - b).abs() < 1e-12);
            assert!(
                close,
                "{heads} heads of {width}: {} and {expected}",
                y.value()
            );
        }
    }
}

#[test]
fn first_and_second_derivatives_are_differences() {
    // In the other graphs no target has two sources, so a has no part in the output.
    let [edges, ..] = graphs();
    for dropout in [None, Some((0.4, 3))] {
        let pattern = Arc::clone(&edges.pattern);
        let edges = EdgeAttention { pattern, dropout };
        let args = [draw(&[5, 2, 3], 1), draw(&[2, 3], 2)];
        check_grads(|x| cosine(&edges, x[0], x[1]), &args).unwrap();
    }
}

/// f(k, q) = k q, with a factor that is wrong in the pull, or in the composition.
#[derive(Clone, Copy)]
struct Wrong {
    pull: f64,
    compose: f64,
}

impl EdgeScore<f64> for Wrong {
    fn name(&self) -> &'static str {
        "wrong"
    }

    fn value(&self, k: f64, q: f64) -> f64 {
        k * q
    }

    fn pull(&self, g: f64, k: f64, q: f64) -> [f64; 3] {
        [g * k * q, g * q * self.pull, g * k]
    }

    fn compose<'t>(&self, k: Var<'t, f64>, q: Var<'t, f64>) -> Var<'t, f64> {
        k * q * self.compose
    }
}

#[test]
fn a_score_whose_parts_do_not_fit_is_found() {
    let [edges, ..] = graphs();
    let args = [1, 2, 3].map(|seed| draw(&[5, 2, 3], seed));
    let check = |pull, compose| {
        check_grads(
            |x| edges.attend(Wrong { pull, compose }, EdgeOperands::new(x[0], x[1], x[2])),
            &args,
        )
    };
    check(1.0, 1.0).unwrap();
    assert!(check(1.001, 1.0).is_err());
    assert!(check(1.0, 1.001).is_err());
}

#[test]
fn bits_do_not_depend_on_threads() {
    let graph = emmy::graph::generators::random_graph(2000, 9000, 1);
    let edges = EdgeAttention {
        pattern: Arc::clone(graph.pattern()),
        dropout: Some((0.5, 7)),
    };
    let run = |threads| {
        par::with_threads(threads, || {
            let tape = Tape::<f32>::new();
            let (z, a) = (
                tape.var(draw(&[2000, 2, 24], 1)),
                tape.var(draw(&[2, 24], 2)),
            );
            let y = cosine(&edges, z, a);
            let g = vjp(y, &[z, a], &y.value());
            let bits = |x: &Tensor<f32>| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            [bits(&y.value()), bits(&g[0]), bits(&g[1])]
        })
    };
    assert_eq!(run(1), run(4));
}

/// y_i = Σ_j α_ij (W x_j + b) with the cosines of W x + b, one head.
#[derive(Debug, Clone)]
struct CosineConv<F: Real> {
    map: Linear<F>,
    scale: Tensor<F>,
}
emmy::module!(CosineConv: map, scale = Gain);

impl<F: Real> Layer<F> for CosineConv<F> {}

impl<F: Real> GraphConv<F> for CosineConv<F> {
    fn on<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        x: Input<'t, F>,
        around: GraphContext<'_, 't, F>,
    ) -> Var<'t, F> {
        let edges = EdgeAttention {
            pattern: Arc::clone(around.neighbours.pattern()),
            dropout: None,
        };
        pass.call(self, &[x.var()], || {
            let z = self.map.forward(pass, x).unsqueeze(1);
            cosine(&edges, z, pass.param(&self.scale)).squeeze(1)
        })
    }
}

#[derive(Debug)]
struct CosineOptions;

impl ConvOptions for CosineOptions {
    type Layer<F: Real> = CosineConv<F>;

    fn build<F: Real>(&self, at: Site, rng: &mut Rng) -> CosineConv<F> {
        CosineConv {
            map: Linear::new(at.input, at.width, true, rng),
            scale: Tensor::from_elem(vec![1, at.width], F::of(4.0)),
        }
    }
}

#[test]
fn a_layer_with_it_learns_inside_a_network() {
    let set = data::karate();
    let conv = Conv::register("cosine", CosineOptions).unwrap();
    let config = GraphNetConfig::gcn(set.feature_count(), set.classes)
        .of(conv)
        .without_dropout();
    let mut net = GraphNet::<f64>::new(config, 1).unwrap();
    let neighbours = config.neighbourhood(&set.graph);
    let mut optimizer = Optimizer::new(Algorithm::ADAM);
    let losses: Vec<f64> = (0..60)
        .map(|step| {
            let found = train::step(&mut net, &mut optimizer, 0.02, step, |net, pass| {
                let x = pass.tape().sparse(&set.raw_features());
                net.forward(pass, x, &neighbours)
                    .cross_entropy(&set.labels, None)
            });
            found.unwrap()
        })
        .collect();
    assert!(losses[59] < 0.3 * losses[0], "{losses:?}");
}

/// The derivative of an attention with shared rows relies on what a score says of its symmetry.
#[test]
fn scores_that_are_called_symmetric_are() {
    fn check(score: impl EdgeScore<f64>) {
        assert!(score.symmetric());
        let numbers: Vec<f64> = draw(&[2, 50], 3).into_iter().collect();
        let apart = numbers.chunks_exact(2).map(|ends| [ends[0], ends[1]]);
        let alike = numbers.iter().map(|&x| [x, x]);
        // With k = −q the sum of LeakyReLU has its kink.
        let opposite = numbers.iter().map(|&x| [x, -x]);
        for [k, q] in apart.chain(alike).chain(opposite) {
            let [value, of_k, of_q] = score.pull(0.7, k, q);
            let swapped = score.pull(0.7, q, k);
            for (a, b) in [value, of_q, of_k].into_iter().zip(swapped) {
                assert!((a - b).abs() < 1e-15, "{} of {k} and {q}", score.name());
            }
            let difference = score.value(k, q) - score.value(q, k);
            assert!(difference.abs() < 1e-15, "{} of {k} and {q}", score.name());
        }
    }
    check(LeakySum { slope: 0.2 });
    check(ScaledProduct { scale: 0.3 });
    assert!(!EdgeScore::<f64>::symmetric(&Product), "as provided");
}
