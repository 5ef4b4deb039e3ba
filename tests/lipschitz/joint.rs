//! The bound of a whole network at once: never below what is found, at the value of the semidefinite
//! program, and with certificates that refuse what they do not prove.

use crate::support::{cases, matrix, weights};
use emmy::Tensor;
use emmy::init;
use emmy::lipschitz::joint::{Certificate, Network, Neurons};
use emmy::ndarray::{Array1, Array2, array};

/// Slopes of ReLU, LeakyReLU, GELU (roughly), all slopes up to 1 in size, and slopes away from 0.
const RANGES: [[f64; 2]; 5] = [
    [0.0, 1.0],
    [0.1, 1.0],
    [-0.129, 1.13],
    [-1.0, 1.0],
    [0.5, 2.0],
];

/// ‖A‖₂ by power iteration: a value from below.
fn norm(a: &Array2<f64>) -> f64 {
    let mut x = Array1::from_shape_fn(a.ncols(), |i| 1.0 + 0.1 * i as f64);
    for _ in 0..100 {
        let y = a.t().dot(&a.dot(&x));
        x = &y / y.dot(&y).sqrt().max(1e-300);
    }
    let y = a.dot(&x);
    y.dot(&y).sqrt()
}

/// The Jacobian W_l D … D W₁ for slopes that a search climbs by: one neuron after another takes the end of
/// its range that makes the norm larger. No bound for all slopes may be below it.
fn steepest(weights: &[Array2<f64>], [low, high]: [f64; 2], seed: u64) -> f64 {
    let mut slopes: Vec<Array1<f64>> = weights[..weights.len() - 1]
        .iter()
        .enumerate()
        .map(|(k, w)| {
            let draws: Tensor<f64> = init::normal(
                &[w.nrows()],
                1.0,
                &mut init::rng(7000 + 10 * seed + k as u64),
            );
            draws
                .iter()
                .map(|x| if *x > 0.0 { high } else { low })
                .collect()
        })
        .collect();
    let value = |slopes: &[Array1<f64>]| {
        let layers = weights[1..].iter().zip(slopes);
        norm(&layers.fold(weights[0].clone(), |j, (w, d)| {
            w.dot(&(&j * &d.view().insert_axis(emmy::ndarray::Axis(1))))
        }))
    };
    let mut best = value(&slopes);
    loop {
        let before = best;
        for k in 0..slopes.len() {
            for i in 0..slopes[k].len() {
                let own = slopes[k][i];
                slopes[k][i] = low + high - own;
                match value(&slopes) {
                    better if better > best => best = better,
                    _ => slopes[k][i] = own,
                }
            }
        }
        if best <= before * (1.0 + 1e-9) {
            return best;
        }
    }
}

#[test]
fn the_bound_is_between_the_steepest_piece_and_the_product_of_norms() {
    let shapes: [&[usize]; 5] = [
        &[3, 5, 1],
        &[4, 6, 6, 3],
        &[2, 8, 4, 8, 2],
        &[6, 3, 3, 3, 3, 1],
        &[9, 2, 7, 1],
    ];
    for seed in cases(25) {
        let case = seed as usize;
        let (widths, slopes) = (shapes[case % 5], RANGES[case / 5 % 5]);
        let weights = weights(widths, seed);
        let certificate = Network::chain(weights.clone(), slopes)
            .unwrap()
            .certify()
            .unwrap();
        let starts = (0..16).map(|k| steepest(&weights, slopes, 16 * seed + k));
        let found = starts.fold(0.0, f64::max);
        let sharpest = slopes.map(f64::abs).into_iter().fold(0.0, f64::max);
        let product: f64 = weights.iter().map(norm).product();
        let product = product * sharpest.powi(weights.len() as i32 - 1);
        let l = certificate.lipschitz;
        assert!(
            found <= l && l <= product * 1.000_01,
            "{widths:?} {slopes:?}: {found} ≤ {l} ≤ {product}"
        );
        assert!(
            found > 0.6 * l,
            "{widths:?} {slopes:?}: {l} is far above {found}"
        );
    }
}

/// With one output and one hidden layer the value is Shor's relaxation, at most √(π/2) times the largest
/// norm of all patterns (Nesterov 1998), which a small layer lets us enumerate.
#[test]
fn one_layer_is_within_nesterovs_factor_of_all_patterns() {
    for slopes in RANGES {
        for seed in cases(6) {
            let weights = weights(&[3, 8, 1], 40 + seed);
            let norm_of = |pattern: usize| {
                let slope = |i: usize| slopes[pattern >> i & 1];
                let diagonal = Array2::from_diag(&Array1::from_shape_fn(8, slope));
                norm(&weights[1].dot(&diagonal).dot(&weights[0]))
            };
            let largest = (0..256).map(norm_of).fold(0.0, f64::max);
            let net = Network::chain(weights.clone(), slopes).unwrap();
            let l = net.certify().unwrap().lipschitz;
            assert!(
                largest <= l && l <= 1.253_32 * largest,
                "{slopes:?}: {largest} {l}"
            );
        }
    }
}

#[test]
fn residual_blocks_are_bounded_with_their_sum() {
    // x + W₂ relu(W₁ x), as one map of the input and the neurons.
    for seed in cases(8) {
        let [w1, w2] = [matrix(6, 4, 300 + seed), matrix(4, 6, 400 + seed)];
        let layers = vec![Neurons {
            reads: vec![(0, w1.clone())],
            slopes: vec![[0.0, 1.0]; 6],
        }];
        let output = vec![(0, Array2::eye(4)), (1, w2.clone())];
        let net = Network::new(4, layers, output).unwrap();
        let certificate = net.certify().unwrap();
        net.verify(&certificate).unwrap();
        let jacobian = |pattern: usize| {
            let open = |i: usize| (pattern >> i & 1) as f64;
            Array2::eye(4)
                + w2.dot(&Array2::from_diag(&Array1::from_shape_fn(6, open)))
                    .dot(&w1)
        };
        let largest = (0..64)
            .map(|pattern| norm(&jacobian(pattern)))
            .fold(0.0, f64::max);
        let branch = Network::chain(vec![w1, w2], [0.0, 1.0])
            .unwrap()
            .certify()
            .unwrap()
            .lipschitz;
        let l = certificate.lipschitz;
        assert!(largest <= l && l <= 1.0 + branch, "{largest} {l} {branch}");
        assert!(l < 1.2 * largest, "{largest} {l}");
    }
}

/// A chain whose second layer also reads the input, against the same network with the input carried through
/// the first layer by pairs of ReLUs: relu(x) − relu(−x) = x is one of its pieces only, so the second bound
/// is larger.
#[test]
fn a_layer_may_read_all_blocks_before_it() {
    let [w1, w2, skip, w3] = [
        matrix(5, 3, 1),
        matrix(4, 5, 2),
        matrix(4, 3, 3),
        matrix(2, 4, 4),
    ];
    let relu = |n: usize| vec![[0.0, 1.0]; n];
    let first = Neurons {
        reads: vec![(0, w1.clone())],
        slopes: relu(5),
    };
    let second = Neurons {
        reads: vec![(1, w2.clone()), (0, skip.clone())],
        slopes: relu(4),
    };
    let net = Network::new(3, vec![first, second], vec![(2, w3.clone())]).unwrap();
    let direct = net.certify().unwrap().lipschitz;
    let eye = Array2::<f64>::eye(3);
    let wide1 = emmy::ndarray::concatenate![emmy::ndarray::Axis(0), w1, eye, -&eye];
    let wide2 = emmy::ndarray::concatenate![emmy::ndarray::Axis(1), w2, skip, -&skip];
    let wide = Network::chain(vec![wide1, wide2, w3], [0.0, 1.0])
        .unwrap()
        .certify()
        .unwrap()
        .lipschitz;
    assert!(
        direct <= wide * 1.000_01 && wide > 1.01 * direct,
        "{direct} {wide}"
    );
}

#[test]
fn scales_of_neurons_do_not_change_the_bound() {
    let weights = weights(&[4, 5, 5, 2], 9);
    let l = |w: Vec<Array2<f64>>| {
        Network::chain(w, [0.0, 1.0])
            .unwrap()
            .certify()
            .unwrap()
            .lipschitz
    };
    let plain = l(weights.clone());
    for size in [1e-12, 1e12] {
        let mut scaled = weights.clone();
        scaled[0] *= size;
        scaled[1] /= size;
        let ratio = l(scaled) / plain;
        assert!((ratio - 1.0).abs() < 2e-5, "{size}: {ratio}");
    }
}

#[test]
fn a_certificate_of_something_else_is_refused() {
    let net = Network::chain(weights(&[4, 6, 5, 2], 3), [0.0, 1.0]).unwrap();
    let good = net.certify().unwrap();
    let read = Certificate::from_json(&good.to_json()).unwrap();
    assert_eq!(read, good);
    net.verify(&read).unwrap();

    let refused = |certificate: &Certificate, why: &str| {
        let error = net.verify(certificate).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    };
    let mut small = good.clone();
    small.lipschitz *= 1.0 - 1e-9;
    refused(&small, "the multipliers prove");
    for (layer, neuron) in [(0, 2), (1, 4)] {
        for factor in [0.5, 2.0] {
            let mut other = good.clone();
            other.multipliers[layer][neuron] *= factor;
            refused(&other, "the multipliers prove");
        }
    }
    let mut negative = good.clone();
    negative.multipliers[0][0] = -1.0;
    refused(&negative, "above 0");
    let mut short = good.clone();
    short.multipliers[1].pop();
    refused(&short, "one per neuron");
    let mut steeper = good.clone();
    steeper.slopes[0][0] = [0.0, 0.9];
    refused(&steeper, "slopes");
    let mut norm = good.clone();
    norm.norm = 1;
    refused(&norm, "norm");
    let mut changed = weights(&[4, 6, 5, 2], 3);
    changed[1][[0, 0]] = changed[1][[0, 0]].next_up();
    let error = Network::chain(changed, [0.0, 1.0])
        .unwrap()
        .verify(&good)
        .unwrap_err();
    assert!(error.to_string().contains("digest"), "{error}");
    assert!(Certificate::from_json("{\"norm\": 2}").is_err());
}

/// The proof is of the matrix, not of the search: for every L above the reached one these multipliers prove
/// L, and for none below.
#[test]
fn the_proof_ends_where_the_matrix_ceases_to_be_definite() {
    let net = Network::chain(weights(&[5, 7, 6, 3], 17), [-0.2, 1.0]).unwrap();
    let good = net.certify().unwrap();
    let with = |factor: f64| Certificate {
        lipschitz: good.lipschitz * factor,
        ..good.clone()
    };
    for factor in [1.0, 1.000_001, 1.1, 10.0] {
        net.verify(&with(factor)).unwrap();
    }
    for factor in [1.0 - 1e-8, 0.999, 0.5, 1e-3] {
        assert!(net.verify(&with(factor)).is_err(), "{factor}");
    }
}

#[test]
fn what_has_no_bound_says_why() {
    let message = |net: emmy::Result<Network>| net.unwrap_err().to_string();
    let w = || array![[1.0, 2.0]];
    assert!(message(Network::chain(vec![w()], [0.0, 1.0])).contains("two matrices or more"));
    assert!(message(Network::chain(vec![w(), w()], [0.0, 1.0])).contains("[1, 1], found [1, 2]"));
    assert!(message(Network::chain(vec![w(), array![[f64::NAN]]], [0.0, 1.0])).contains("NaN"));
    assert!(message(Network::chain(vec![w(), array![[1.0]]], [1.0, 0.5])).contains("slopes l ≤ u"));
    let zero = Network::chain(vec![w(), array![[0.0]]], [0.0, 1.0]).unwrap();
    assert!(zero.certify().unwrap_err().to_string().contains("constant"));
}

#[test]
fn margins_and_single_outputs_are_networks_of_their_own() {
    let weights = weights(&[4, 6, 5, 3], 23);
    let net = Network::chain(weights, [0.0, 1.0]).unwrap();
    let l = |net: &Network| net.certify().unwrap().lipschitz;
    let all = l(&net);
    let single: Vec<f64> = (0..3).map(|row| l(&net.one_output(row))).collect();
    let sum: f64 = single.iter().map(|x| x * x).sum();
    assert!(single.iter().all(|x| *x <= all * 1.000_01) && all <= sum.sqrt() * 1.000_01);
    let margin = l(&net.margin(0, 2));
    assert!(margin <= std::f64::consts::SQRT_2 * all * 1.000_01 && margin <= single[0] + single[2]);
}

/// Neurons with one slope are linear maps: the bound is that of the network in which they are multiplied out.
#[test]
fn neurons_with_one_slope_are_multiplied_out() {
    for seed in cases(6) {
        let [w1, w2, w3] = <[_; 3]>::try_from(weights(&[5, 6, 6, 2], 60 + seed)).unwrap();
        let s = [0.0, 1.0, -0.7][seed as usize % 3];
        let certified = |slopes: [Vec<[f64; 2]>; 2]| {
            let maps = [w1.clone(), w2.clone()].into_iter().enumerate();
            let layers = maps.zip(slopes).map(|((k, w), slopes)| Neurons {
                reads: vec![(k, w)],
                slopes,
            });
            let net = Network::new(5, layers.collect(), vec![(2, w3.clone())]).unwrap();
            let certificate = net.certify().unwrap();
            net.verify(&certificate).unwrap();
            certificate.lipschitz
        };
        let near = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 6e-5, "{seed}: {a} {b}");

        // All neurons of the second layer, then of both.
        let product = w3.dot(&w2) * if s == 0.0 { 0.5 } else { s };
        let second = [s, 0.5][usize::from(s == 0.0)];
        let chain = Network::chain(vec![w1.clone(), product], [0.0, 1.0]).unwrap();
        let own = certified([vec![[0.0, 1.0]; 6], vec![[second; 2]; 6]]);
        near(own, chain.certify().unwrap().lipschitz);
        let all = certified([vec![[1.0; 2]; 6], vec![[second; 2]; 6]]);
        near(all, norm(&(w3.dot(&w2).dot(&w1) * second)));

        // Two of the first layer: a layer of the others, whose values and the input the second layer reads.
        let mut mixed = vec![[0.0, 1.0]; 6];
        (mixed[1], mixed[4]) = ([s; 2], [1.0; 2]);
        let rest = [0, 2, 3, 5];
        let mut past = Array2::zeros((6, 5));
        past.row_mut(1).assign(&(&w1.row(1) * s));
        past.row_mut(4).assign(&w1.row(4));
        let first = Neurons {
            reads: vec![(0, w1.select(emmy::ndarray::Axis(0), &rest))],
            slopes: vec![[0.0, 1.0]; 4],
        };
        let second = Neurons {
            reads: vec![
                (1, w2.select(emmy::ndarray::Axis(1), &rest)),
                (0, w2.dot(&past)),
            ],
            slopes: vec![[0.0, 1.0]; 6],
        };
        let by_hand = Network::new(5, vec![first, second], vec![(2, w3.clone())]).unwrap();
        let own = certified([mixed, vec![[0.0, 1.0]; 6]]);
        near(own, by_hand.certify().unwrap().lipschitz);
    }
}

/// What is too small for a number is not 0: the constants are 10⁻⁸⁰ and 6.5 · 10¹⁵⁹.
#[test]
fn products_that_vanish_are_no_proof() {
    let check = |weights: &[f64], slopes: [f64; 2], multiplier: f64, claimed: f64| {
        let (last, hidden) = weights.split_last().unwrap();
        let layer = |(k, &w): (usize, &f64)| Neurons {
            reads: vec![(k, array![[w]])],
            slopes: vec![slopes],
        };
        let layers = hidden.iter().enumerate().map(layer).collect();
        let output = vec![(hidden.len(), array![[*last]])];
        let net = Network::new(1, layers, output).unwrap();
        let false_one = Certificate {
            norm: 2,
            lipschitz: claimed,
            slopes: vec![vec![slopes]; hidden.len()],
            multipliers: vec![vec![multiplier]; hidden.len()],
            weights: net.digest(),
        };
        assert!(net.verify(&false_one).is_err());
    };
    check(&[9e59, 9e59], [-1e-200, 1e-200], 1e300, 2e-90);
    let deep = [9e59, 9e59, 9e59, 9e59, 9e59, 1.1e-60];
    check(
        &deep,
        [0.0, 1e-16],
        f64::MIN_POSITIVE,
        1.4748588722936858e94,
    );
}
