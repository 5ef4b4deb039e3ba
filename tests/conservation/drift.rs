//! The drift of the degree of balance in a hundred steps: exactly known for plain descent, not for
//! the other rules.

use crate::handmade::Normed;
use crate::support::*;
use emmy::nn::{Activation, Conv, GraphNet, GraphNetConfig, Traced};
use emmy::optim::{Algorithm, Optimizer};
use emmy::symmetry::Law;

const STEPS: usize = 100;
const LR: f64 = 0.1;

/// The measurements of a hundred steps.
#[derive(Debug)]
struct Run {
    /// The largest difference between c and the drift formula.
    off: f64,
    /// The largest difference between c and its start.
    moved: f64,
    /// The largest relative δ of any step.
    delta: f64,
    /// The loss before and after.
    losses: (f64, f64),
}

fn run(
    net: &mut impl Network<f64>,
    laws: &[Law],
    problem: &Problem,
    method: Algorithm,
    decay: f64,
) -> Run {
    let balances = |net: &dyn Fn(&Law) -> Vec<f64>| laws.iter().map(net).collect::<Vec<_>>();
    let start = balances(&|law| law.balance(&net.tensors()).expect("no rotation"));
    let mut predicted = start.clone();
    let mut optimizer = Optimizer::new(method).weight_decay(decay);
    let (mut delta, first) = (0.0_f64, point(net, problem).0);
    for _ in 0..STEPS {
        let (_, gradients) = point(net, problem);
        delta = worse(delta, worst(laws, net, &gradients));
        for (law, c) in laws.iter().zip(&mut predicted) {
            *c = law.drift(c, &gradients, LR, decay).expect("no rotation");
        }
        optimizer.step(net.tensors_mut(), &gradients, LR);
    }
    let end = balances(&|law| law.balance(&net.tensors()).expect("no rotation"));
    let apart = |a: &[Vec<f64>], b: &[Vec<f64>]| {
        let pairs = a.iter().flatten().zip(b.iter().flatten());
        pairs.fold(0.0, |m: f64, (a, b)| m.max((a - b).abs()))
    };
    Run {
        off: apart(&end, &predicted),
        moved: apart(&end, &start),
        delta,
        losses: (first, point(net, problem).0),
    }
}

fn net(conv: Conv, activation: Activation, bias: bool) -> GraphNet<f64> {
    let config = GraphNetConfig {
        hidden: 3,
        layers: 3,
        dropout: 0.0,
        activation,
        ..GraphNetConfig::gcn(4, 3)
    }
    .of(conv)
    .heads(2, 1)
    .attending(|a| a.residual = bias)
    .biased(bias);
    graph_net(config, 2)
}

const LEAKY: Activation = Activation::LeakyRelu { slope: 0.2 };

#[test]
fn of_plain_descent_is_exact_for_neurons() {
    for conv in CONVS {
        for (bias, decay) in [(false, 0.0), (true, 0.0), (true, 5e-2)] {
            let problem = example(4, Loss::CrossEntropy, 3);
            let net = net(conv, LEAKY, bias);
            let found = run(
                &mut net.clone(),
                &net.laws(),
                &problem,
                Algorithm::SGD,
                decay,
            );
            assert!(found.off <= 1e-9, "{conv:?}, {decay}: {found:?}");
            assert!(found.delta <= 1e-10, "{conv:?}, {decay}: {found:?}");
            // The test is not trivial: c moves, and the loss falls.
            let least = if decay > 0.0 { 0.1 } else { 1e-4 };
            assert!(found.moved > least, "{conv:?}, {decay}: {found:?}");
            assert!(found.losses.1 < 0.9 * found.losses.0, "{found:?}");
        }
    }
}

#[test]
fn of_plain_descent_is_exact_for_spaces_of_neurons() {
    for conv in [Conv::GCN, Conv::GAT] {
        for decay in [0.0, 5e-2] {
            let problem = example(4, Loss::CrossEntropy, 3);
            let net = net(conv, Activation::Identity, true);
            let found = run(
                &mut net.clone(),
                &net.laws(),
                &problem,
                Algorithm::SGD,
                decay,
            );
            assert!(found.off <= 1e-9, "{conv:?}, {decay}: {found:?}");
            assert!(found.moved > 1e-4, "{conv:?}, {decay}: {found:?}");
        }
    }
}

#[test]
fn of_plain_descent_is_exact_for_sums_over_classes() {
    for decay in [0.0, 5e-2] {
        let problem = example(4, Loss::CrossEntropy, 3);
        let net = net(Conv::GCN, LEAKY, true);
        let laws = net.softmax_laws();
        let found = run(&mut net.clone(), &laws, &problem, Algorithm::SGD, decay);
        assert!(found.off <= 1e-9, "{decay}: {found:?}");
        // Without decay sums over classes do not move at all.
        assert_eq!(found.moved > 1e-12, decay > 0.0, "{decay}: {found:?}");
    }
}

/// ‖w⁺‖² = (1 − ηλ)² ‖w‖² + η² ‖G‖²: a weight before a normalisation only grows.
#[test]
fn of_plain_descent_is_exact_for_the_size_of_a_matrix() {
    for decay in [0.0, 5e-2] {
        let problem = example(4, Loss::CrossEntropy, 3);
        let mut net = Normed::new(4, 5, 4);
        let law = net.law();
        let norm = |net: &Normed<f64>| law.balance(&[&net.weight]).unwrap()[0];
        let before = norm(&net);
        assert_eq!(before, net.weight.iter().map(|w| w * w).sum::<f64>());
        let found = run(
            &mut net,
            std::slice::from_ref(&law),
            &problem,
            Algorithm::SGD,
            decay,
        );
        assert!(found.off <= 1e-9, "{decay}: {found:?}");
        assert!(found.moved > 1e-4, "{decay}: {found:?}");
        assert_eq!(norm(&net) > before, decay == 0.0, "{decay}: {found:?}");
    }
}

#[test]
fn of_other_optimisers_is_not_that_and_their_steps_keep_the_law() {
    let momentum = Algorithm::Sgd {
        momentum: 0.9,
        nesterov: false,
    };
    for method in [momentum, Algorithm::ADAM, Algorithm::ADAMW] {
        for (activation, conv) in [(LEAKY, CONVS[2]), (Activation::Identity, CONVS[0])] {
            let problem = example(4, Loss::CrossEntropy, 3);
            let net = net(conv, activation, true);
            let found = run(&mut net.clone(), &net.laws(), &problem, method, 0.0);
            assert!(found.delta <= 1e-10, "{method:?}: {found:?}");
            assert!(found.off > 1e-3, "{method:?}: {found:?}");
        }
    }
}
