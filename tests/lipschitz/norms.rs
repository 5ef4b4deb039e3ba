//! The joint bound for p = 1 and p = ∞: against all patterns of slopes and all signs of inputs.

use crate::support::{cases, matrix, near, weights};
use emmy::lipschitz::Lp;
use emmy::lipschitz::joint::{Network, Neurons};
use emmy::ndarray::{Array1, Array2, Axis, array};

const NORMS: [Lp; 2] = [Lp::One, Lp::Inf];

/// The largest norm of `jacobian` over all patterns of slopes that are at an end of their range. It is
/// convex in each slope, so no other pattern has a larger one.
fn of_all_patterns(
    neurons: usize,
    slopes: [f64; 2],
    p: Lp,
    jacobian: impl Fn(&[f64]) -> Array2<f64>,
) -> f64 {
    let pattern = |bits: u32| -> Vec<f64> {
        let ends = (0..neurons).map(|i| slopes[(bits >> i & 1) as usize]);
        ends.collect()
    };
    let norms = (0..1 << neurons).map(|bits| p.matrix(jacobian(&pattern(bits)).view()).get());
    norms.fold(0.0, f64::max)
}

/// W_l D … D W₁.
fn of_chain(weights: &[Array2<f64>], slopes: &[f64]) -> Array2<f64> {
    let mut rest = slopes.iter();
    weights[1..].iter().fold(weights[0].clone(), |j, w| {
        let own: Array1<f64> = rest.by_ref().take(j.nrows()).copied().collect();
        w.dot(&(&j * &own.insert_axis(Axis(1))))
    })
}

/// For one layer the bound is at most Grothendieck's constant times the largest norm of all patterns; with
/// slopes between −c and c, or in deeper networks, it is above the largest one, and not above the product of
/// norms.
#[test]
fn the_bound_is_between_the_steepest_pattern_and_what_is_known_of_it() {
    let shapes: [&[usize]; 5] = [
        &[4, 6, 1],
        &[5, 5, 3],
        &[1, 6, 4],
        &[3, 4, 4, 2],
        &[2, 3, 3, 3, 1],
    ];
    let ranges = [[0.0, 1.0], [0.1, 1.0], [-1.0, 1.0], [0.5, 2.0]];
    for seed in cases(20) {
        let (widths, slopes) = (shapes[seed as usize % 5], ranges[seed as usize / 5 % 4]);
        let weights = weights(widths, seed);
        let net = Network::chain(weights.clone(), slopes).unwrap();
        let neurons = widths[1..widths.len() - 1].iter().sum();
        for p in NORMS {
            let found = of_all_patterns(neurons, slopes, p, |s| of_chain(&weights, s));
            let proven = net.lipschitz_in(p).unwrap().get();
            assert!(
                found <= proven,
                "{widths:?} {slopes:?}, p = {p}: {found} found, {proven} proven"
            );
            let product: f64 = weights.iter().map(|w| p.matrix(w.view()).get()).product();
            let steepest = slopes[1].powi(weights.len() as i32 - 1);
            assert!(
                proven <= product * steepest * 1.0001,
                "{widths:?} {slopes:?}, p = {p}: {proven} proven, {product} is the product"
            );
            if weights.len() == 2 {
                assert!(
                    proven <= 1.7823 * found * 1.0001,
                    "{widths:?} {slopes:?}, p = {p}: {found} found, {proven} proven"
                );
            }
        }
    }
}

/// Where all weights are positive, all neurons are on in the steepest pattern, and the bound is exact.
#[test]
fn with_positive_weights_the_bound_is_exact() {
    for seed in cases(4) {
        let weights: Vec<_> = weights(&[4, 5, 5, 2], seed)
            .into_iter()
            .map(|w| w.mapv(f64::abs))
            .collect();
        let product = of_chain(&weights, &[1.0; 10]);
        let net = Network::chain(weights, [0.0, 1.0]).unwrap();
        for p in NORMS {
            let exact = p.matrix(product.view()).get();
            near(net.lipschitz_in(p).unwrap().get(), exact, 1e-4);
        }
    }
}

/// y = C₀ x + C₂ σ(A₁ σ(A₀ x) + A x), and a network in which nothing reads a layer.
#[test]
fn residual_connections() {
    for seed in cases(6) {
        let m = |rows, columns, k| matrix(rows, columns, 50 * seed + k);
        let (a0, a1, a, c0, c2) = (m(3, 2, 0), m(4, 3, 1), m(4, 2, 2), m(2, 2, 3), m(2, 4, 4));
        let layer = |reads: Vec<(usize, Array2<f64>)>| Neurons {
            slopes: vec![[0.0, 1.0]; reads[0].1.nrows()],
            reads,
        };
        let layers = vec![
            layer(vec![(0, a0.clone())]),
            layer(vec![(1, a1.clone()), (0, a.clone())]),
            layer(vec![(1, m(2, 3, 5))]),
        ];
        let output = vec![(0, c0.clone()), (2, c2.clone())];
        let net = Network::new(2, layers, output).unwrap();
        let jacobian = |s: &[f64]| {
            let first = &a0 * &Array1::from(s[..3].to_vec()).insert_axis(Axis(1));
            let second = &a1.dot(&first) + &a;
            let second = &second * &Array1::from(s[3..].to_vec()).insert_axis(Axis(1));
            &c0 + &c2.dot(&second)
        };
        for p in NORMS {
            let found = of_all_patterns(7, [0.0, 1.0], p, jacobian);
            let proven = net.lipschitz_in(p).unwrap().get();
            assert!(
                found <= proven && proven <= 1.7823 * found,
                "p = {p}: {found} found, {proven} proven"
            );
        }
    }
}

#[test]
fn outputs_of_zero_and_the_norm_for_p_2() {
    let net = Network::chain(
        vec![
            array![[1.0, 2.0], [0.0, -1.0]],
            array![[0.0, 0.0], [1.0, 1.0]],
        ],
        [0.0, 1.0],
    )
    .unwrap();
    assert_eq!(net.lipschitz_in(Lp::Two).unwrap(), net.lipschitz().unwrap());
    // The second output alone: relu(x₁ + 2 x₂) + relu(−x₂).
    near(net.lipschitz_in(Lp::Inf).unwrap().get(), 3.0, 0.35);
    near(net.lipschitz_in(Lp::One).unwrap().get(), 2.0, 1e-4);
}
