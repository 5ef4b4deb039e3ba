//! Networks on a tape are bounded as a whole.

use crate::cases::cases;
use emmy::autodiff::grad;
use emmy::init::{self, Rng};
use emmy::lipschitz::joint::{Network, Neurons};
use emmy::lipschitz::{Domain, Lp, bound, local};
use emmy::ndarray::{Array2, linalg::kron};
use emmy::sparse::Csr;
use emmy::{Tape, Tensor, Var, graph};

fn matrix(x: &Tensor<f64>) -> Array2<f64> {
    x.to_owned().into_dimensionality().unwrap()
}

fn draw(shape: &[usize], rng: &mut Rng) -> Tensor<f64> {
    init::normal(shape, 1.0, rng)
}

/// The bound of f in the 2-norm, and the norm of its Jacobian at the point.
fn interval(x: &Tensor<f64>, f: impl for<'t> Fn(Var<'t, f64>) -> Var<'t, f64>) -> [f64; 2] {
    let tape = Tape::new();
    let x = tape.var(x.clone());
    let y = f(x);
    let upper = bound(y, x, Lp::Two, Domain::Everywhere).unwrap().upper();
    [local(y, x, 200, 0).get(), upper.get()]
}

#[test]
fn a_chain_of_layers_has_the_bound_of_its_network() {
    for seed in cases(5) {
        let rng = &mut init::rng(seed);
        let widths = [4, 7, 6, 5, 3];
        let weights: Vec<_> = (widths.windows(2))
            .map(|w| draw(&[w[1], w[0]], rng))
            .collect();
        let x = draw(&[6, 4], rng);
        let [found, proven] = interval(&x, |x| {
            let tape = x.tape();
            let constant = |w: &Tensor<f64>| tape.constant(w.clone());
            let mut h = x.linear(constant(&weights[0])) + constant(&draw(&[7], &mut init::rng(1)));
            for w in &weights[1..] {
                h = h.relu().linear(constant(w));
            }
            h
        });
        let network = Network::chain(weights.iter().map(matrix).collect(), [0.0, 1.0]).unwrap();
        let expected = network.certify().unwrap().lipschitz;
        assert!(
            (proven / expected - 1.0).abs() < 1e-12,
            "{proven} and {expected}"
        );
        let product: f64 = weights
            .iter()
            .map(|w| Lp::Two.matrix(matrix(w).view()).get())
            .product();
        assert!(
            found <= proven && proven < 0.9 * product,
            "{found}, {proven}, {product}"
        );
    }
}

/// The multipliers of one row prove the bound of all rows: the network of all nodes at once, whose
/// multipliers are free, has a bound that is as large at most, and close to it.
#[test]
fn a_propagation_over_a_graph_counts_with_its_norm() {
    for (k, slope) in [0.0, 0.2, -0.3].into_iter().enumerate() {
        for seed in cases(3) {
            let rng = &mut init::rng(10 * seed + k as u64);
            let graph = graph::generators::random_graph(4, 4, seed);
            let mean = seed % 2 == 1;
            let csr: Csr<f64> = if mean {
                graph.mean_norm()
            } else {
                graph.gcn_norm()
            };
            // Norms that are not 1.
            let values = csr.values.iter().map(|x| 1.5 * x).collect();
            let csr = Csr::new(csr.pattern.clone(), values);
            let weights = [draw(&[4, 3], rng), draw(&[4, 4], rng), draw(&[2, 4], rng)];
            let [found, proven] = interval(&draw(&[4, 3], rng), |x| {
                let s = x.tape().sparse(&csr);
                let [a, b, c] = weights.each_ref().map(|w| x.tape().constant(w.clone()));
                let h = s.matmul(x.linear(a)).leaky_relu(slope);
                let h = s.matmul(h.linear(b)).leaky_relu(slope);
                s.matmul(h).linear(c)
            });
            let s = matrix(&csr.to_dense());
            let nodes = weights.iter().map(|w| kron(&s, &matrix(w)));
            let nodes = Network::chain(nodes.collect(), [slope.min(1.0), 1.0]).unwrap();
            let free = nodes.certify().unwrap().lipschitz;
            let product: f64 = weights
                .iter()
                .map(|w| Lp::Two.matrix(matrix(w).view()).get())
                .product();
            let product = product * Lp::Two.matrix(s.view()).get().powi(3);
            assert!(found <= proven, "{slope}, {seed}: {found} above {proven}");
            assert!(
                free <= proven * (1.0 + 1e-4),
                "{slope}, {seed}: {free} above {proven}"
            );
            assert!(
                proven <= product,
                "{slope}, {seed}: {proven} above {product}"
            );
        }
    }
}

#[test]
fn a_residual_connection_is_part_of_the_network() {
    for seed in cases(5) {
        let rng = &mut init::rng(seed);
        let (a, b) = (draw(&[5, 3], rng), draw(&[3, 5], rng));
        let [found, proven] = interval(&draw(&[2, 3], rng), |x| {
            let weights = [&a, &b].map(|w| x.tape().constant(w.clone()));
            let h = x + x.linear(weights[0]).relu().linear(weights[1]);
            h + h.linear(weights[0]).relu().linear(weights[1])
        });
        // Multiplied out, the second block reads the input and the neurons of the first.
        let (a, b) = (matrix(&a), matrix(&b));
        let relu = |reads| Neurons {
            reads,
            slopes: vec![[0.0, 1.0]; 5],
        };
        let layers = vec![
            relu(vec![(0, a.clone())]),
            relu(vec![(0, a.clone()), (1, a.dot(&b))]),
        ];
        let output = vec![(0, Array2::eye(3)), (1, b.clone()), (2, b)];
        let network = Network::new(3, layers, output).unwrap();
        let expected = network.certify().unwrap().lipschitz;
        assert!(
            found <= proven && (proven / expected - 1.0).abs() < 5e-5,
            "{found}, {proven}, {expected}"
        );
    }
}

/// With a residual connection the sign of an eigenvalue of the propagation counts: here −1 is one.
#[test]
fn a_residual_connection_beside_a_propagation_is_not_taken_for_a_chain() {
    for seed in cases(10) {
        let rng = &mut init::rng(seed);
        let csr: Csr<f64> = graph::generators::path(4).symmetric_norm();
        let weights = [draw(&[3, 2], rng), draw(&[2, 3], rng)];
        let [_, proven] = interval(&draw(&[4, 2], rng), |x| {
            let s = x.tape().sparse(&csr);
            let [a, b] = weights.each_ref().map(|w| x.tape().constant(w.clone()));
            x + s.matmul(x.linear(a)).relu().linear(b)
        });
        let s = matrix(&csr.to_dense());
        let neurons = Neurons {
            reads: vec![(0, kron(&s, &matrix(&weights[0])))],
            slopes: vec![[0.0, 1.0]; 12],
        };
        let output = vec![
            (0, Array2::eye(8)),
            (1, kron(&Array2::eye(4), &matrix(&weights[1]))),
        ];
        let nodes = Network::new(8, vec![neurons], output).unwrap();
        let free = nodes.certify().unwrap().lipschitz;
        assert!(
            free <= proven * (1.0 + 1e-4),
            "{seed}: {free} above {proven}"
        );
    }
}

fn three_layers<'t>(x: Var<'t, f64>, weights: &[Tensor<f64>; 3]) -> Var<'t, f64> {
    let [a, b, c] = weights.each_ref().map(|w| x.tape().constant(w.clone()));
    x.linear(a).relu().linear(b).relu().linear(c)
}

/// What is before the network counts with its own constant, and what is behind it too.
#[test]
fn a_network_is_a_part_of_what_is_read() {
    let rng = &mut init::rng(3);
    let weights = [draw(&[6, 4], rng), draw(&[6, 6], rng), draw(&[3, 6], rng)];
    let x = draw(&[2, 4], rng);
    let [_, alone] = interval(&x, |x| three_layers(x, &weights));
    let [found, between] = interval(&x, |x| {
        three_layers(x.layer_norm(None, None, 1.0), &weights).softmax(-1)
    });
    assert!(found <= between);
    assert!(
        (between / (0.5 * alone) - 1.0).abs() < 1e-9,
        "{between} and {alone}"
    );
    let tape = Tape::new();
    let v = tape.var(x);
    for p in [Lp::One, Lp::Inf] {
        assert!(
            bound(three_layers(v, &weights), v, p, Domain::Everywhere)
                .unwrap()
                .upper()
                .is_finite()
        );
    }
}

/// The derivative of the bound in the weights is that of the certified number: of a chain, and of a network
/// in which two matrices follow one another behind a residual connection.
#[test]
fn the_bound_can_be_differentiated() {
    for residual in [false, true] {
        compare_with_differences(residual);
    }
}

fn compare_with_differences(residual: bool) {
    let rng = &mut init::rng(5);
    let shapes = [[5, 3], [3, 5], [4, 3], [2, 4]];
    let weights: Vec<_> = shapes.iter().map(|shape| draw(shape, rng)).collect();
    let level = |weights: &[Tensor<f64>]| -> (f64, f64, Vec<Tensor<f64>>) {
        let tape = Tape::new();
        let x = tape.var(draw(&[2, 3], &mut init::rng(0)));
        let w: Vec<_> = weights.iter().map(|w| tape.var(w.clone())).collect();
        let h = x.linear(w[0]).leaky_relu(-0.2).scale(0.7).linear(w[1]);
        let h = if residual { x + h } else { h.relu() };
        let y = h.linear(w[2]).relu().linear(w[3]);
        let bound = bound(y, x, Lp::Two, Domain::Everywhere).unwrap();
        let value = bound.var().unwrap();
        (bound.upper().get(), value.item(), grad(value, &w))
    };
    let (upper, value, gradients) = level(&weights);
    assert!((value / upper - 1.0).abs() < 1e-4, "{value} and {upper}");
    for (k, gradient) in gradients.iter().enumerate() {
        let direction = draw(&shapes[k], rng);
        let moved = |by: f64| {
            let mut weights = weights.clone();
            weights[k] = (&weights[k] + &(&direction * by)).into_shared();
            level(&weights).0
        };
        let expected = (moved(3e-3) - moved(-3e-3)) / 6e-3;
        let found = (gradient * &direction).sum();
        assert!(
            (found - expected).abs() < 0.02 * upper && expected.abs() > 5e-3 * upper,
            "weight {k}: {found}, by differences {expected}, of {upper}"
        );
    }
}
