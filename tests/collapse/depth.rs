//! The effect of depth: products of propagations, and pure attention, which collapses doubly exponentially
//! (Dong, Cordonnier and Loukas, "Attention is Not All You Need", ICML 2021).

use super::support::{cases, eigenvalues, largest, matrix, near, rows, tensor};
use emmy::autodiff::jacobian;
use emmy::collapse::{
    Spectrum, dirichlet_energy, normalised_dirichlet_energy, rank_one_norm, rank_one_residual,
    value, variance,
};
use emmy::graph::generators::{karate_club, random_graph};
use emmy::linalg;
use emmy::ndarray::{Array2, s};
use emmy::ops::attention::{DenseAttention, Mask, Qkv};
use emmy::{Graph, Tape, Var};

fn propagation(graph: &Graph) -> Array2<f64> {
    matrix(&graph.gcn_norm::<f64>().to_dense())
}

fn spectral(x: &Array2<f64>) -> f64 {
    linalg::svd(x.view()).1[0]
}

/// One linear GCN layer: the squared singular values of its derivative are λ_i(Ã)² μ_j(WWᵀ).
#[test]
fn the_spectrum_of_a_linear_gcn_layer() {
    for seed in cases(12) {
        let (n, d) = (5 + seed as usize % 3, 3);
        let graph = random_graph(n, n + 1, seed);
        let w = rows(d, d, 1.0, seed);
        let tape = Tape::new();
        let x = tape.var(tensor(&rows(n, d, 1.0, seed + 1)));
        let y = tape
            .sparse(&graph.gcn_norm())
            .matmul(x)
            .linear(tape.constant(tensor(&w)));
        let j = jacobian(y, x)
            .into_shape_with_order((n * d, n * d))
            .unwrap();
        let found = linalg::svd(j.view()).1;
        let (lambda, mu) = (
            eigenvalues(&propagation(&graph)),
            eigenvalues(&w.dot(&w.t())),
        );
        let products = lambda
            .iter()
            .flat_map(|l| mu.iter().map(move |m| l * l * m));
        let mut products: Vec<f64> = products.collect();
        products.sort_by(|a, b| b.total_cmp(a));
        for (s, expected) in found.iter().zip(&products) {
            assert!(
                (s * s - expected).abs() < 1e-10 * products[0],
                "{} {expected}",
                s * s
            );
        }
    }
}

/// m layers with ReLU: ‖∂h_v/∂x_u‖ ≤ ∏‖W_l‖ (Ãᵐ)_vu. Beyond m edges nothing arrives.
#[test]
fn a_node_hears_little_of_far_nodes() {
    let (mut nearest, mut silent) = (0.0_f64, 0);
    for seed in cases(6) {
        let (n, d, m) = (9, 3, 1 + seed as usize % 4);
        let graph = random_graph(n, 10, seed);
        let tape = Tape::new();
        let x = tape.var(tensor(&rows(n, d, 1.0, seed)));
        let a = tape.sparse(&graph.gcn_norm());
        let (mut h, mut size, mut power) = (x, 1.0, Array2::eye(n));
        for l in 0..m {
            let w = rows(d, d, 1.0, 100 * seed + l as u64);
            size *= spectral(&w);
            power = power.dot(&propagation(&graph));
            h = a.matmul(h).linear(tape.constant(tensor(&w))).relu();
        }
        let j = jacobian(h, x)
            .into_shape_with_order((n * d, n * d))
            .unwrap();
        for v in 0..n {
            for u in 0..n {
                let block = j
                    .slice(s![v * d..(v + 1) * d, u * d..(u + 1) * d])
                    .to_owned();
                let (found, bound) = (spectral(&block), size * power[[v, u]]);
                assert!(found <= bound * (1.0 + 1e-10), "{found} above {bound}");
                if bound > 0.0 {
                    nearest = nearest.max(found / bound);
                } else {
                    silent += 1;
                }
            }
        }
    }
    assert!(nearest > 0.5 && silent > 20, "{nearest} {silent}");
}

/// Propagation by Ã alone: each step multiplies the energy with degrees by at most λ², where λ is the second
/// largest size of an eigenvalue. One dimension is left, √d_i in every feature. So constant rows are not the
/// limit, and the energy without degrees stays.
#[test]
fn repeated_propagation_leaves_one_dimension() {
    let graph = karate_club();
    let (looped, a) = (graph.with_self_loops(), propagation(&graph));
    let mut sizes: Vec<f64> = eigenvalues(&a).iter().map(|l| l.abs()).collect();
    sizes.sort_by(|a, b| b.total_cmp(a));
    near(sizes[0], 1.0, 1e-12);
    let energy = |x: &Array2<f64>| value(&tensor(x), |x| normalised_dirichlet_energy(x, &looped));
    let mut x = rows(34, 4, 1.0, 0);
    let mut before = energy(&x);
    for _ in 0..120 {
        x = a.dot(&x);
        let after = energy(&x);
        assert!(after <= sizes[1].powi(2) * before * (1.0 + 1e-6) + 1e-28);
        before = after;
    }
    assert!(before < 1e-11, "{before}");
    assert!(Spectrum::of(&tensor(&x)).effective_rank() < 1.0 + 1e-4);
    let degrees = looped.in_degrees();
    let scaled = Array2::from_shape_fn((34, 4), |(i, k)| x[[i, k]] / (degrees[i] as f64).sqrt());
    assert!(value(&tensor(&scaled), variance) < 1e-11 && value(&tensor(&x), variance) > 1e-3);
    assert!(value(&tensor(&x), |x| dirichlet_energy(x, &graph)) > 1e-3);
}

/// A head with scores x A xᵀ and values x V.
struct Head {
    a: Array2<f64>,
    v: Array2<f64>,
}

impl Head {
    fn new(d: usize, seed: u64) -> Self {
        let size = (d as f64).sqrt().recip();
        Self {
            a: rows(d, d, size, seed),
            v: rows(d, d, size, seed + 1),
        }
    }

    fn forward<'t>(&self, x: Var<'t, f64>) -> Var<'t, f64> {
        let (tape, d) = (x.tape(), x.shape()[1]);
        let heads = |x: Var<'t, f64>| x.unsqueeze(1);
        let q = x.matmul(tape.constant(tensor(&self.a)));
        let v = x.matmul(tape.constant(tensor(&self.v)));
        let mut attention = DenseAttention::new(d, Mask::none());
        attention.scale = 1.0;
        attention
            .attend(Qkv::new(heads(q), heads(x), heads(v)))
            .squeeze(1)
    }

    /// 4 ‖A‖₁ ‖V‖.
    fn factor(&self) -> f64 {
        let one = linalg::one_norm(self.a.view()).get();
        4.0 * one * value(&tensor(&self.v), rank_one_norm)
    }
}

fn residual(x: Var<'_, f64>) -> f64 {
    value(&x.value(), rank_one_residual)
}

/// Dong et al., for one head: the residual after a layer is at most 4‖A‖₁‖V‖ times its cube before. So it is
/// gone within five layers, to the last digits of the mean row, and the effective rank falls to 1.
#[test]
fn pure_attention_collapses_doubly_exponentially() {
    let (mut seen, mut all) = (0, 0);
    for seed in cases(20) {
        let (n, d) = (4 + seed as usize % 5, 4);
        let tape = Tape::new();
        let offset = rows(1, d, 0.3, seed + 9);
        let mut x = tape.constant(tensor(&(rows(n, d, 0.05, seed) + &offset)));
        let start = residual(x);
        let mut logarithms = vec![start.ln()];
        for layer in 0..5 {
            let head = Head::new(d, 10 * seed + 2 * layer);
            let before = residual(x);
            x = head.forward(x);
            let after = residual(x);
            let floor = 1e-14 * largest(&matrix(&x.value()));
            assert!(
                after <= head.factor() * before.powi(3) + floor,
                "case {seed}, layer {layer}"
            );
            if after > floor {
                logarithms.push(after.ln());
            }
        }
        assert!(residual(x) < 1e-13 * start, "{}", residual(x));
        assert!(Spectrum::of(&x.value()).effective_rank() < 1.0 + 1e-9);
        // Faster than any exponential: each layer gains more digits than the one before.
        let gains: Vec<f64> = logarithms.windows(2).map(|w| w[0] - w[1]).collect();
        assert!(gains.windows(2).all(|g| g[1] > 1.5 * g[0]), "{gains:?}");
        (seen, all) = (seen + u32::from(gains.len() > 1), all + 1);
    }
    assert!(2 * seen > all, "{seen} of {all}");
}

/// With skip connections the residual does not fall, through as many layers.
#[test]
fn skip_connections_arrest_it() {
    for seed in cases(20) {
        let (n, d) = (4 + seed as usize % 5, 4);
        let tape = Tape::new();
        let mut x = tape.constant(tensor(&rows(n, d, 0.05, seed)));
        let start = residual(x);
        for layer in 0..12 {
            x = x + Head::new(d, 100 * seed + 2 * layer).forward(x);
            assert!(
                residual(x) > 0.5 * start,
                "case {seed}, layer {layer}: {}",
                residual(x)
            );
        }
        assert!(Spectrum::of(&x.value()).effective_rank() > 1.0 + 1e-3);
    }
}
