//! Looks-linear weights: blocks of the paper, orthogonal, and a network that computes the same as a
//! linear one.

use super::networks::*;
use emmy::graph::Neighbourhood;
use emmy::init::{Initialization, TargetInit, WeightInit};
use emmy::nn::{Activation, Conv, GraphNetConfig, Module, Pass, Traced, entries_mut};
use emmy::{Tape, Tensor, data, init};
use ndarray::{Array2, concatenate, s};

/// [[x, −x], [−x, x]] or a part of it.
fn mirrored(d: &Array2<f64>, rows: bool, columns: bool) -> Array2<f64> {
    let along = |axis, d: &Array2<f64>| concatenate![ndarray::Axis(axis), *d, -d];
    let d = if columns { along(1, d) } else { d.clone() };
    if rows { along(0, &d) } else { d }
}

/// D of each of three weights, after a check of their structure.
fn blocks(weights: [Array2<f64>; 3]) -> [Array2<f64>; 3] {
    let [w1, w2, w3] = weights;
    let (m1, m2, n2) = (w1.nrows() / 2, w2.nrows() / 2, w2.ncols() / 2);
    let d1 = w1.slice(s![..m1, ..]).to_owned();
    let d2 = w2.slice(s![..m2, ..n2]).to_owned();
    let d3 = w3.slice(s![.., ..w3.ncols() / 2]).to_owned();
    assert_eq!(w1, mirrored(&d1, true, false));
    assert_eq!(w2, mirrored(&d2, true, true));
    assert_eq!(w3, mirrored(&d3, false, true));
    [d1, d2, d3]
}

#[track_caller]
fn orthonormal(d: &Array2<f64>) {
    let gram = if d.nrows() >= d.ncols() {
        d.t().dot(d)
    } else {
        d.dot(&d.t())
    };
    approx::assert_abs_diff_eq!(gram, Array2::eye(gram.nrows()), epsilon = 1e-13);
}

#[test]
fn blocks_of_an_mlp_are_orthonormal_and_multiply_to_the_network() {
    let mut net = mlp::<f64>(&[5, 8, 6, 3], Activation::Relu, false);
    Initialization::LL_ORTHO.apply(&mut net, 4).unwrap();
    let weights = [0, 1, 2].map(|l| matrix(&net, &format!("layers.{l}.weight")));
    let [d1, d2, d3] = blocks(weights);
    [&d1, &d2, &d3].into_iter().for_each(orthonormal);

    let x: Tensor<f64> = init::normal(&[7, 5], 1.0, &mut init::rng(1));
    let tape = Tape::new();
    let y = net.forward(&Pass::eval(&tape, &net), tape.constant(x.clone()));
    let x = x.into_dimensionality::<ndarray::Ix2>().unwrap();
    let expected = x.dot(&d1.t()).dot(&d2.t()).dot(&d3.t()).into_dyn();
    approx::assert_abs_diff_eq!(y.value(), expected.to_shared(), epsilon = 1e-13);
}

#[test]
fn heads_side_by_side_are_one_layer_and_averaged_heads_have_a_block_each() {
    // Two heads of three neurons: pairs are (j, j + 3), each in both heads.
    let mut net = graph_net::<f64>(config(SEPARATE, 3, 3, 2).heads(2, 2));
    Initialization::LL_ORTHO.apply(&mut net, 4).unwrap();
    for side in ["source", "target"] {
        let weight = |l: usize| matrix(&net, &format!("layers.{l}.{side}.weight"));
        let last = weight(2);
        for head in [s![..3, ..], s![3.., ..]] {
            let blocks = blocks([weight(0), weight(1), last.slice(head).to_owned()]);
            blocks.iter().for_each(orthonormal);
        }
    }
    // Four averaged heads of two neurons: in a hidden layer each has pairs of its own.
    let mut net = Averaged::<f64>::new(&[5, 2, 2, 3], 4, true);
    Initialization::LL_ORTHO.apply(&mut net, 4).unwrap();
    let weight = |l: usize| matrix(&net, &format!("layers.{l}.source.weight"));
    for h in 0..4 {
        let head = |l: usize, n: usize| weight(l).slice(s![h * n..(h + 1) * n, ..]).to_owned();
        let blocks = blocks([head(0, 2), head(1, 2), head(2, 3)]);
        blocks.iter().for_each(orthonormal);
    }
}

#[test]
fn xavier_blocks_have_the_fans_of_the_block() {
    let mut net = mlp::<f64>(&[40, 200, 200, 20], Activation::Relu, false);
    let scheme = Initialization {
        base: WeightInit::LooksLinearXavier,
        ..Initialization::XAVIER_ZERO
    };
    scheme.apply(&mut net, 4).unwrap();
    let weights = [0, 1, 2].map(|l| matrix(&net, &format!("layers.{l}.weight")));
    for (d, fans) in blocks(weights).iter().zip([140.0, 200.0, 120.0_f64]) {
        // At least 2000 draws: a deviation of the deviation of 1.6 %.
        assert!(
            (d.std(0.0) / (2.0 / fans).sqrt() - 1.0).abs() < 0.06,
            "{fans}"
        );
    }
}

#[test]
fn identities_stand_in_hidden_layers() {
    let eye = Array2::<f64>::eye(6);
    let half = mirrored(&Array2::eye(3), true, true);
    for (scheme, expected, beta) in [
        (Initialization::IDENTITY, &eye, None),
        (Initialization::IDENTITY_BAL, &eye, Some(1.0)),
        (Initialization::LL_IDENTITY, &half, None),
        (Initialization::LL_IDENTITY_BAL, &half, Some(2.0)),
    ] {
        for conv in [SHARED, SEPARATE] {
            let mut net = graph_net::<f64>(config(conv, 4, 3, 2));
            scheme.apply(&mut net, 0).unwrap();
            let weight = |l: usize| matrix(&net, &format!("layers.{l}.source.weight"));
            for l in [1, 2] {
                approx::assert_abs_diff_eq!(weight(l), expected, epsilon = 1e-14);
            }
            // The first and the last are Xavier's, or scaled from them.
            let (first, last) = (weight(0), weight(3));
            let norms = (first.rows().into_iter()).chain(last.columns());
            let norms: Vec<f64> = norms.map(|x| x.dot(&x)).collect();
            match beta {
                None => assert!(norms.iter().any(|n| (n - norms[0]).abs() > 0.1)),
                // With separate weights, the outgoing columns have β each on average.
                Some(beta) if conv == SHARED => {
                    approx::assert_relative_eq!(norms[..], vec![beta; 12][..], epsilon = 1e-12);
                }
                Some(beta) => {
                    approx::assert_relative_eq!(norms[..6], vec![beta; 6][..], epsilon = 1e-12);
                }
            }
            assert!(first.iter().all(|&x| x != 0.0) && last.iter().all(|&x| x != 0.0));
        }
    }
}

/// The karate club with dense features.
fn club() -> (Tensor<f64>, Neighbourhood<f64>) {
    let karate = data::karate();
    let x = init::normal(&[karate.labels.len(), INPUTS], 1.0, &mut init::rng(9));
    (x, config(SHARED, 2, 2, 1).neighbourhood(&karate.graph))
}

/// Largest difference of two outputs relative to the size of the first.
fn difference(a: &Tensor<f64>, b: &Tensor<f64>) -> f64 {
    let size = a.iter().fold(0.0, |m: f64, x| m.max(x.abs()));
    assert!(size > 1e-6, "the output is {size}");
    a.iter()
        .zip(b)
        .fold(0.0, |m: f64, (a, b)| m.max((a - b).abs()))
        / size
}

/// Halves every weight but the first: without the ReLU a pair holds (u, −u), whose difference is 2u.
fn halve(model: &mut impl Module<f64>) {
    for p in entries_mut(model) {
        if !p.name.starts_with("layers.0.") {
            *p.tensor = p.tensor.mapv(|x| x / 2.0).into_shared();
        }
    }
}

/// The output of a graph network with its activation, and of the same network without activation and with
/// halved weights.
fn both(config: GraphNetConfig, scheme: Initialization) -> [Tensor<f64>; 2] {
    let (x, adjacency) = club();
    let mut net = graph_net::<f64>(config);
    scheme.apply(&mut net, 3).unwrap();
    let mut linear = net.clone();
    linear.config.activation = Activation::Identity;
    halve(&mut linear);
    [net, linear].map(|net| {
        let tape = Tape::new();
        let y = net.forward(
            &Pass::eval(&tape, &net),
            tape.constant(x.clone()),
            &adjacency,
        );
        y.value()
    })
}

#[test]
fn a_looks_linear_network_computes_what_its_linear_counterpart_does() {
    let looks_linear = [
        Initialization::LL_ORTHO,
        Initialization::BAL_O,
        Initialization {
            base: WeightInit::LooksLinearXavier,
            ..Initialization::BAL_O
        },
        Initialization {
            target: TargetInit::Zero,
            ..Initialization::BAL_O
        },
    ];
    for conv in [Conv::GCN, Conv::GAT, SHARED, SEPARATE] {
        for (layers, hidden, heads) in [(2, 4, 1), (3, 3, 2), (6, 2, 3)] {
            let network = config(
                conv,
                layers,
                if conv == Conv::GCN { 4 } else { hidden },
                heads,
            );
            for scheme in looks_linear {
                let [relu, linear] = both(network, scheme);
                let d = difference(&relu, &linear);
                assert!(d < 1e-12, "{network:?}, {scheme:?}: {d}");
            }
            // This fails for Xavier, and for odd widths, where a neuron has no partner.
            let [relu, linear] = both(network, Initialization::BAL_X);
            assert!(difference(&relu, &linear) > 1e-2);
            let [relu, linear] = both(config(conv, layers, 5, 1), Initialization::BAL_O);
            assert!(difference(&relu, &linear) > 1e-3);
        }
    }
}

/// Looks-linear weights are meant for ReLU. Near 0 ELU is the identity on both sides: a pair holds (u,
/// −u), of which the next layer takes the difference, 2u.
#[test]
fn behind_elu_a_small_signal_doubles_in_every_layer() {
    const SMALL: f64 = 1e-8;
    let (x, adjacency) = club();
    for layers in [2, 5, 10] {
        let [relu, elu] = [Activation::Relu, Activation::Elu].map(|activation| {
            let mut net = graph_net::<f64>(GraphNetConfig {
                activation,
                ..config(SHARED, layers, 4, 1)
            });
            Initialization::BAL_O.apply(&mut net, 3).unwrap();
            let tape = Tape::new();
            let x = tape.constant((&x * SMALL).into_shared());
            let y = net.forward(&Pass::eval(&tape, &net), x, &adjacency);
            (y.value().to_owned() / SMALL).into_shared()
        });
        let doubled = (relu * 2.0_f64.powi(layers as i32 - 1)).into_shared();
        let d = difference(&elu, &doubled);
        assert!(d < 1e-4, "{layers} layers: {d}");
    }
}

#[test]
fn so_does_one_whose_heads_are_averaged() {
    let (x, adjacency) = club();
    let mut net = Averaged::<f64>::new(&[INPUTS, 4, 4, CLASSES], 2, true);
    Initialization::BAL_O.apply(&mut net, 3).unwrap();
    let mut linear = net.clone();
    linear.activation = Activation::Identity;
    halve(&mut linear);
    let [relu, linear] = [net, linear].map(|net| {
        let tape = Tape::new();
        let y = net.forward(
            &Pass::eval(&tape, &net),
            tape.constant(x.clone()),
            adjacency.symmetric_norm(),
        );
        y.value()
    });
    assert!(difference(&relu, &linear) < 1e-12);
}

/// The growth ‖y‖ / ‖x‖ of a small signal through an MLP.
fn growth(scheme: Initialization, layers: usize, activation: Activation) -> f64 {
    let mut widths = vec![32; layers + 1];
    (widths[0], widths[layers]) = (16, 16);
    let mut net = mlp::<f64>(&widths, activation, false);
    scheme.apply(&mut net, 5).unwrap();
    // Small enough that ELU is the identity to eight digits after thirty doublings.
    let x: Tensor<f64> = init::normal(&[6, 16], 1e-18, &mut init::rng(2));
    let tape = Tape::new();
    let y = net.forward(&Pass::eval(&tape, &net), tape.constant(x.clone()));
    let norm = |x: &Tensor<f64>| x.iter().map(|x| x * x).sum::<f64>().sqrt();
    norm(&y.value()) / norm(&x)
}

#[test]
fn without_a_relu_every_layer_doubles_the_signal() {
    for layers in [2, 3, 10, 30] {
        for (activation, expected) in [
            (Activation::Relu, 1.0),
            (Activation::Elu, 2_f64.powi(layers as i32 - 1)),
            (Activation::Identity, 2_f64.powi(layers as i32 - 1)),
        ] {
            // D is orthogonal and square: it keeps lengths.
            let found = growth(Initialization::LL_ORTHO, layers, activation);
            approx::assert_relative_eq!(found, expected, max_relative = 1e-8);
        }
        // Balanced, the same factor between ELU and ReLU: scales do not depend on the activation.
        let of = |activation| growth(Initialization::BAL_O, layers, activation);
        let ratio = of(Activation::Elu) / of(Activation::Relu);
        approx::assert_relative_eq!(ratio, 2_f64.powi(layers as i32 - 1), max_relative = 1e-8);
    }
    // Xavier weights have no pairs: there is no such factor.
    let of = |activation| growth(Initialization::XAVIER, 10, activation);
    assert!(of(Activation::Elu) / of(Activation::Relu) < 0.5 * 2_f64.powi(9));
}

#[test]
fn schemes_made_for_relu_are_those_that_are_balanced_or_looks_linear() {
    let named = Initialization::NAMED.into_iter();
    let others = named.filter(|(_, scheme)| !scheme.is_for_relu());
    let others: Vec<&str> = others.map(|(name, _)| name).collect();
    assert_eq!(others, ["xavier", "xavier-zero", "identity"]);
}

#[test]
fn the_law_of_a_pair_is_that_of_both() {
    // Balancing keeps pairs: rows and columns of partners have equal norms.
    let mut net = graph_net::<f64>(config(SHARED, 3, 4, 2));
    Initialization::BAL_O.apply(&mut net, 4).unwrap();
    let weights = [0, 1, 2].map(|l| matrix(&net, &format!("layers.{l}.source.weight")));
    let worst = (weights
        .iter()
        .zip([(true, false), (true, true), (false, true)]))
    .map(|(w, (rows, columns))| {
        let (m, n) = w.dim();
        let d = w.slice(s![
            ..if rows { m / 2 } else { m },
            ..if columns { n / 2 } else { n }
        ]);
        (w - &mirrored(&d.to_owned(), rows, columns))
            .iter()
            .fold(0.0, |m: f64, x| m.max(x.abs()))
    })
    .fold(0.0, f64::max);
    assert!(worst < 1e-14 && net.laws().len() == 4, "{worst}");
}
