//! "Lipschitz Normalization for Self-Attention Layers" (Dasoulas, Scaman and Virmaux, ICML 2021): its
//! statements, as printed and with the constants that are sharper.
//!
//! As in the paper, X is d × n, its columns are the inputs; Att(X) = X softmax(g(X))ᵀ with g(X) m × n. On the
//! tape x is the transposed, n × d.

use super::support::{cases, near, tokens};
use emmy::autodiff::jacobian;
use emmy::graph::{Duplicates, SelfLoops};
use emmy::lipschitz::{Domain, Lp, bound, jacobian_norm};
use emmy::ndarray::{Array2, Ix2};
use emmy::nn::{
    AttentionConfig, AttentionOptions, GatConv, LipschitzNorm, MultiHeadAttention, Pass, Trace,
    TransformerConv, TransformerOptions,
};
use emmy::ops::attention::Mask;
use emmy::{Graph, Tape, Tensor, Var, init};
use std::sync::Arc;

const CASES: u64 = 60;

fn matrix(x: Tensor<f64>) -> Array2<f64> {
    x.into_owned().into_dimensionality::<Ix2>().unwrap()
}

fn frobenius(x: &Tensor<f64>) -> f64 {
    x.mapv(|x| x * x).sum().sqrt()
}

/// ‖x‖_(∞,2), the largest 2-norm of a row.
fn largest_row(x: &Tensor<f64>) -> f64 {
    x.rows()
        .into_iter()
        .map(|r| r.dot(&r).sqrt())
        .fold(0.0, f64::max)
}

/// n, m, d and sizes of the case.
fn case(seed: u64) -> (usize, usize, usize, f64) {
    let k = seed as usize;
    (
        1 + k % 5,
        1 + k % 3,
        1 + k / 5 % 4,
        [0.2, 1.0, 5.0][k / 7 % 3],
    )
}

/// Eq. (10): ‖S‖_F = √((m + Σ_i χ²(S_i, U_n)) / n), χ² that from the uniform distribution. Lemma 2: between
/// √(m/n) and √m. Lemma 3: |g_ij| ≤ α gives ‖S‖_F ≤ e^α √(m/n), and cosh α √(m/n) too, which is attained.
#[test]
fn the_size_of_a_softmax() {
    for seed in cases(CASES) {
        let (n, m, _, size) = case(seed);
        let g = init::uniform::<f64>(&[m, n], size, &mut init::rng(seed));
        let tape = Tape::new();
        let s = tape.constant(g).softmax(-1).value();
        let (nf, mf) = (n as f64, m as f64);
        let chi: f64 = s.mapv(|s| nf * (s - 1.0 / nf).powi(2)).sum();
        near(frobenius(&s), ((mf + chi) / nf).sqrt(), 1e-12);
        let least = (mf / nf).sqrt();
        let rounded = 1.0 + 1e-12;
        assert!(frobenius(&s) >= least / rounded && frobenius(&s) <= mf.sqrt() * rounded);
        assert!(frobenius(&s) <= size.cosh() * least * rounded);
        assert!(size.cosh() <= size.exp());
    }
    // Attained: a share of 1/(1 + e^2α) of the scores is α, the others −α.
    let (n, k) = (1000, 119);
    let alpha = 0.5 * ((n - k) as f64 / k as f64).ln();
    let g = Tensor::from_shape_fn(vec![1, n], |i| if i[1] < k { alpha } else { -alpha });
    let s = Tape::new().constant(g).softmax(-1).value();
    near(frobenius(&s), alpha.cosh() / (n as f64).sqrt(), 1e-9);
}

/// Att with linear scores g = QᵀX, divided by c.
fn linear<'t>(x: Var<'t, f64>, q: Var<'t, f64>, c: Var<'t, f64>) -> Var<'t, f64> {
    (q.matmul(x.t()) / c).softmax(-1).matmul(x)
}

fn norm(y: Var<'_, f64>, x: Var<'_, f64>) -> f64 {
    jacobian_norm(y, x, Lp::Two).0.lower.get()
}

/// Lemma 1, Eq. (9): ‖D Att‖ ≤ ‖softmax(g)‖_F + √2 ‖Xᵀ‖_(∞,2) ‖Dg‖_{F,(2,∞)}; it holds with 1 in place of √2.
/// The last norm is known for linear scores (‖Q‖₂), and for one row of scores (the longest gradient).
#[test]
fn the_derivative_of_attention() {
    for seed in cases(CASES) {
        let (n, m, d, size) = case(seed);
        let tape = Tape::new();
        let x = tape.var((tokens(n, d, seed) * size).into_shared());
        let q = tape.constant(tokens(m, d, seed + 1000));
        let holds = |y: Var<'_, f64>, scores: &Tensor<f64>, slope: f64| {
            let s = tape.constant(scores.clone()).softmax(-1).value();
            let (found, rest) = (norm(y, x), largest_row(&x.value()) * slope);
            assert!(
                found <= (frobenius(&s) + rest) * (1.0 + 1e-9),
                "seed {seed}"
            );
            assert!(frobenius(&s) + rest <= frobenius(&s) + 2f64.sqrt() * rest);
        };
        let slope = Lp::Two.matrix(matrix(q.value()).view()).get();
        let one = tape.constant(emmy::tensor::scalar(1.0));
        holds(linear(x, q, one), &q.matmul(x.t()).value(), slope);
        // Quadratic scores of the first input with all: g_j = x_0 · A x_j.
        let a = tape.constant(tokens(d, d, seed + 2000));
        let scores = x.slice(0, 0..1).matmul(a).matmul(x.t());
        let j = jacobian(scores, x);
        let rows = j.into_shape_with_order((n, n * d)).unwrap();
        let longest = rows
            .rows()
            .into_iter()
            .map(|r| r.dot(&r).sqrt())
            .fold(0.0, f64::max);
        holds(scores.softmax(-1).matmul(x), &scores.value(), longest);
    }
}

/// Eq. (17) and Corollary 1: linear scores over c = ‖Q‖_F max ‖x_i‖ give a constant of at most e √(m/n) + √8,
/// and a smaller one. Eq. (15), Theorems 2 and 3: with c = max{‖g‖_(2,∞), ‖Xᵀ‖_(∞,2) ‖Q‖₂} and a factor α, of
/// e^α √(m/n) + α √8. Scores that are not linear are in `scores`.
#[test]
fn normalised_scores_have_a_constant() {
    for seed in cases(CASES) {
        let (n, m, d, size) = case(seed);
        let tape = Tape::new();
        let x = tape.var((tokens(n, d, seed) * size).into_shared());
        let q = tape
            .constant((tokens(m, d, seed + 1) * [0.1, 1.0, 30.0][seed as usize % 3]).into_shared());
        let ratio = (m as f64 / n as f64).sqrt();
        let slope = Lp::Two.matrix(matrix(q.value()).view()).get();
        let slope = tape.constant(emmy::tensor::scalar(slope));
        for alpha in [0.25_f64, 1.0, 2.0] {
            let by = LipschitzNorm { alpha };
            let printed = alpha.exp() * ratio + alpha * 8f64.sqrt();
            let both = [by.attend_linear(q, x), by.attend(q.matmul(x.t()), x, slope)];
            let sharp = [by.constant_of_linear(n, m), by.constant_of_scores(n, m)];
            for (y, sharp) in both.into_iter().zip(sharp) {
                let (found, sharp) = (norm(y, x), sharp.unwrap().get());
                assert!(
                    found <= sharp * (1.0 + 1e-9) && sharp <= printed,
                    "seed {seed}: {found}, {sharp}, {printed}"
                );
                let read = bound(y, x, Lp::Two, Domain::Everywhere).unwrap().upper();
                assert_eq!(read.get(), sharp);
            }
        }
    }
    assert_eq!(LipschitzNorm::DOT.constant_of_scores(0, 1), None);
}

/// Eq. (19) and Corollary 2: over c = max{uv, uw, vw} attention as a function of (Q, K, V) has a constant of
/// at most e^√3 √(m/n) + 2√6, and of a smaller number.
#[test]
fn transformer_scores_have_a_constant() {
    for seed in cases(CASES) {
        let (n, m, d, size) = case(seed);
        let tape = Tape::new();
        // One variable for all three.
        let all = tape.var((tokens(m + 2 * n, d, seed) * size).into_shared());
        let part = |from: usize, to: usize| all.slice(0, from..to).reshape(&[to - from, 1, d]);
        let (q, k, v) = (part(0, m), part(m, m + n), part(m + n, m + 2 * n));
        use emmy::nn::ScoreNormalizer;
        let t = LipschitzNorm::DOT.temperature(q, k, v);
        let compared = emmy::ops::attention::Qkv {
            t: Some(t),
            ..emmy::ops::attention::Qkv::new(q, k, v)
        };
        let y = emmy::ops::attention::DenseAttention::new(d, Mask::none()).attend(compared);
        let found = norm(y, all);
        let sharp = LipschitzNorm::DOT.constant(n, m).unwrap().get();
        let ratio = (m as f64 / n as f64).sqrt();
        let spread = (m as f64 + 1f64.sinh().powi(2)) / n as f64;
        let s = spread.min(m as f64).sqrt();
        let expected = (s * s + 5.5 + 2f64.sqrt()).max((s + 1.0).powi(2) + 4.5);
        near(sharp, expected.sqrt(), 1e-12);
        assert!(
            found <= sharp * (1.0 + 1e-9),
            "seed {seed}: {found} above {sharp}"
        );
        assert!(sharp <= 3f64.sqrt().exp() * ratio + 2.0 * 6f64.sqrt());
    }
}

fn normalised(width: usize, heads: usize, seed: u64) -> MultiHeadAttention<f64> {
    let config = AttentionConfig {
        bias: false,
        ..AttentionConfig::new(width, heads)
    };
    let mut f = MultiHeadAttention::new(config, &mut init::rng(seed)).unwrap();
    f.normalizer = Some(Arc::new(LipschitzNorm::DOT));
    f
}

/// Theorem 1 and Eq. (21): L(MultAtt) ≤ L(Att) ‖W_O‖ √(Σ ‖W_k‖²) over the heads and their maps, 11 in place
/// of L(Att) at m = n; the bound that is read off the model is no larger. Eq. (22): along layers the product.
#[test]
fn heads_and_layers_compose() {
    for seed in cases(12) {
        let (n, width, heads) = (2 + seed as usize % 4, 4, 1 + seed as usize % 2);
        let layers: Vec<_> = (0..2)
            .map(|k| normalised(width, heads, 2 * seed + k))
            .collect();
        let x = tokens(n, width, seed).into_shared();
        let through = |pass: &Pass<'_, '_, f64>, count: usize| {
            let mut y = pass.tape().var(x.clone());
            let start = y;
            for layer in &layers[..count] {
                y = layer.forward(pass, y, &Mask::none());
            }
            let upper = bound(y, start, Lp::Two, Domain::Everywhere)
                .unwrap()
                .upper()
                .get();
            (upper, norm(y, start))
        };
        let printed = |layer: &MultiHeadAttention<f64>| {
            let d = width / heads;
            let maps = [&layer.query, layer.keys(), &layer.value];
            let squares = maps.iter().flat_map(|map| {
                let w = matrix(map.weight.clone());
                (0..heads).map(move |h| {
                    let part = w
                        .slice(emmy::ndarray::s![h * d..(h + 1) * d, ..])
                        .to_owned();
                    Lp::Two.matrix(part.view()).get().powi(2)
                })
            });
            let output = Lp::Two
                .matrix(matrix(layer.output.weight.clone()).view())
                .get();
            11.0 * output * squares.sum::<f64>().sqrt()
        };
        let tape = Tape::new();
        let pass = Pass::train(&tape, &layers, 0);
        let (one, found) = through(&pass, 1);
        assert!(
            found <= one && one <= printed(&layers[0]),
            "seed {seed}: {found}, {one}"
        );
        let (two, found) = through(&pass, 2);
        assert!(found <= two && two <= printed(&layers[0]) * printed(&layers[1]));
    }
}

/// If all of 30 queries see one key, V ↦ y has the constant √30, more than the number that holds without a
/// mask. So a layer with a mask declares none.
#[test]
fn a_mask_takes_the_constant_away() {
    let (n, layer) = (30, normalised(2, 1, 5));
    let x = tokens(n, 2, 0).into_shared();
    let one = Tensor::from_shape_fn(vec![n, n], |i| i[1] == 0);
    for (mask, known) in [
        (Mask::none(), true),
        (Mask::causal(), false),
        (Mask::allowed(one), false),
    ] {
        let trace = Trace::at(&layer, &x, |pass, x| layer.forward(pass, x, &mask));
        assert_eq!(trace.lipschitz(Lp::Two).is_ok(), known, "{mask:?}");
    }
    let constant = LipschitzNorm::DOT.constant(n, n).unwrap().get();
    assert!(constant < 30f64.sqrt(), "{constant}");
}

fn graph(seed: u64, loops: bool) -> Graph {
    let mut edges = Vec::new();
    for i in 0..6u32 {
        for j in 0..6u32 {
            let on = (seed >> ((7 * i + 3 * j) % 31)) & 1 == 1 || (i + 1) % 6 == j;
            if i != j && on {
                edges.push((i, j));
            }
        }
    }
    let graph = Graph::new(6, &edges, Duplicates::Reject, SelfLoops::Reject).unwrap();
    if loops {
        graph.with_self_loops()
    } else {
        graph
    }
}

/// GAT and the graph transformer under LipschitzNorm: the bound read off the layer holds, and the scores of
/// GAT are at most ¼.
#[test]
fn on_graphs_per_neighbourhood() {
    for seed in cases(20) {
        let graph = graph(seed.wrapping_mul(0x9e37_79b9), seed % 2 == 0);
        let edges = graph.pattern();
        let rng = &mut init::rng(seed);
        let gat = GatConv::<f64>::new(
            3,
            2,
            AttentionOptions {
                heads: 2,
                score_norm: Some(LipschitzNorm::GAT),
                ..AttentionOptions::DEFAULT
            },
            rng,
        );
        let x = (tokens(6, 3, seed) * [0.1, 1.0, 10.0][seed as usize % 3]).into_shared();
        let trace = Trace::at(&gat, &x, |pass, x| gat.forward(pass, x, edges));
        let interval = trace.lipschitz(Lp::Two).unwrap();
        assert!(
            interval.lower.get() > 0.0 && !interval.is_contradicted(1e-9),
            "seed {seed}: {interval}"
        );
        let options = TransformerOptions {
            heads: 2,
            score_norm: Some(LipschitzNorm::DOT),
            ..TransformerOptions::DEFAULT
        };
        let conv = TransformerConv::<f64>::new(3, 2, None, options, rng);
        let trace = Trace::at(&conv, &x, |pass, x| conv.forward(pass, x, edges, None));
        let interval = trace.lipschitz(Lp::Two).unwrap();
        assert!(
            interval.lower.get() > 0.0 && !interval.is_contradicted(1e-9),
            "seed {seed}: {interval}"
        );
        // Without the norm there is no such bound.
        let plain = GatConv::<f64>::new(3, 2, AttentionOptions::DEFAULT, rng);
        let trace = Trace::at(&plain, &x, |pass, x| plain.forward(pass, x, edges));
        assert!(trace.lipschitz(Lp::Two).is_err());
    }
}

/// Dropout, or missing features, make whole neighbourhoods zero: their divisors are 0, and their gradients
/// are numbers.
#[test]
fn neighbourhoods_of_zeros_have_gradients() {
    let edges = Arc::clone(graph(3, true).pattern());
    let n = edges.rows();
    let rng = &mut init::rng(7);
    let options = AttentionOptions {
        heads: 2,
        score_norm: Some(LipschitzNorm::GAT),
        ..AttentionOptions::DEFAULT
    };
    let layer = GatConv::<f32>::new(3, 2, options, rng);
    let tape = Tape::new();
    let pass = Pass::train(&tape, &layer, 0);
    let x = tape.var(Tensor::zeros(vec![n, 3]));
    let loss = layer.forward(&pass, x, &edges).sum_all();
    let all = pass.gradients(loss);
    assert!(all.iter().flatten().all(|g| g.is_finite()));
    let again = layer.forward(&pass, x, &edges).sum_all();
    let g = emmy::autodiff::grad(again, &[x]);
    assert!(g[0].iter().all(|g| g.is_finite()));
    let layer = TransformerConv::<f32>::new(
        3,
        2,
        None,
        TransformerOptions {
            score_norm: Some(LipschitzNorm::DOT),
            ..TransformerOptions::DEFAULT
        },
        rng,
    );
    let tape = Tape::new();
    let pass = Pass::train(&tape, &layer, 0);
    let x = tape.constant(Tensor::zeros(vec![n, 3]));
    let loss = layer.forward(&pass, x, &edges, None).sum_all();
    assert!(pass.gradients(loss).iter().flatten().all(|g| g.is_finite()));
}

/// Scores of GAT are at most ¼ in size under the norm, so after the LeakyReLU they are in [−0.05, 0.25]: no
/// coefficient of a neighbourhood is more than e^0.3 = 1.35 times another. So attention is nearly a mean.
#[test]
fn normalised_gat_is_nearly_a_mean() {
    let mut widest = 1.0_f64;
    for seed in cases(20) {
        let graph = graph(seed, true);
        let edges = graph.pattern();
        let options = AttentionOptions {
            score_norm: Some(LipschitzNorm::GAT),
            ..AttentionOptions::DEFAULT
        };
        let layer = GatConv::<f64>::new(3, 2, options, &mut init::rng(seed));
        let tape = Tape::new();
        let pass = Pass::eval(&tape, &layer);
        let x = tape.constant((tokens(6, 3, seed) * 100.0).into_shared());
        let alpha = layer
            .forward_with_attention(&pass, x, edges)
            .1
            .values
            .value();
        for i in 0..6 {
            let row = edges.row(i).map(|e| alpha[[e, 0]]);
            let (least, largest) =
                row.fold((f64::INFINITY, 0.0_f64), |(a, b), x| (a.min(x), b.max(x)));
            widest = widest.max(largest / least);
        }
    }
    let most = 0.3_f64.exp();
    assert!(widest <= most * (1.0 + 1e-9) && widest > 1.1, "{widest}");
    // Attained: a target of 0 with the sources 1 and −1, a_s = 1, a_t = 0.
    let graph = Graph::new(3, &[(0, 2), (1, 2)], Duplicates::Reject, SelfLoops::Reject).unwrap();
    let options = AttentionOptions {
        score_norm: Some(LipschitzNorm::GAT),
        ..AttentionOptions::DEFAULT
    };
    let mut layer = GatConv::<f64>::new(1, 1, options, &mut init::rng(0));
    layer.weight.fill(1.0);
    layer.att_source.fill(1.0);
    layer.att_target.fill(0.0);
    let tape = Tape::new();
    let x = tape.constant(emmy::tensor::tensor(&[3, 1], vec![1.0, -1.0, 0.0]));
    let pass = Pass::eval(&tape, &layer);
    let alpha = layer.forward_with_attention(&pass, x, graph.pattern()).1;
    let row = graph.pattern().row(2);
    let of = |e: usize| alpha.values.value()[[e, 0]];
    near(of(row.start) / of(row.start + 1), most, 1e-9);
}
