//! Whole trainings: a law holds at every step of every optimiser.

use crate::support::*;
use emmy::data;
use emmy::nn::{Activation, Conv, GraphNet, GraphNetConfig, Module, Pass, Traced};
use emmy::optim::{Algorithm, Optimizer, Sgd};
use emmy::symmetry::{Law, Symmetry};
use emmy::{Real, Tape};

const EPOCHS: usize = 100;

/// The largest relative δ of all epochs.
struct Run {
    /// For the laws of neurons.
    neurons: f64,
    /// For the sums over classes, and those of biases.
    classes: f64,
    /// The loss before and after.
    losses: (f64, f64),
}

/// Trains a network on the karate club from its own initialisation.
fn train<F: Real>(config: GraphNetConfig, method: Algorithm, lr: f64) -> Run {
    let karate = data::karate();
    let mut net = GraphNet::<F>::new(config, 1).expect("a valid configuration");
    let (x, adjacency) = (karate.raw_features(), config.neighbourhood(&karate.graph));
    let (mut sums, laws): (Vec<Law>, Vec<Law>) =
        (net.laws().into_iter()).partition(|law| law.symmetry == Symmetry::Translation);
    sums.extend(net.softmax_laws());
    // Most members are trained on.
    let mask: Vec<bool> = (0..karate.nodes()).map(|i| i % 5 != 0).collect();
    let mut optimizer = Optimizer::new(method).weight_decay(5e-4);
    let (mut neurons, mut classes, mut losses) = (0.0_f64, 0.0_f64, Vec::new());
    for epoch in 0..EPOCHS {
        let tape = Tape::new();
        let pass = Pass::train(&tape, &net, epoch as u64);
        let y = net.forward(&pass, tape.sparse(&x), &adjacency);
        let loss = y.cross_entropy(&karate.labels, Some(&mask));
        losses.push(loss.item().as_f64());
        let gradients = pass.gradients(loss);
        // No floor is needed here.
        let plain = laws
            .iter()
            .map(|law| measure(law, &net, &gradients).worst());
        neurons = plain.fold(neurons, worse);
        classes = worse(classes, worst(&sums, &net, &gradients));
        optimizer.step(net.tensors_mut(), &gradients, lr);
    }
    Run {
        neurons,
        classes,
        losses: (losses[0], losses[EPOCHS - 1]),
    }
}

fn check<F: Real>(config: GraphNetConfig, method: Algorithm, lr: f64) {
    let run = train::<F>(config, method, lr);
    let what = format!("{:?}, {method:?}, {}", config.conv, F::NAME);
    assert!(run.neurons <= tolerance::<F>(), "{what}: {}", run.neurons);
    assert!(run.classes <= tolerance::<F>(), "{what}: {}", run.classes);
    let (first, last) = run.losses;
    assert!(
        last < 0.95 * first,
        "{what}: a loss of {first}, then {last}"
    );
}

fn config(conv: Conv, dropout: f64) -> GraphNetConfig {
    GraphNetConfig {
        layers: 5,
        hidden: 8,
        dropout,
        activation: Activation::Relu,
        ..GraphNetConfig::gcn(34, 2)
    }
    .of(conv)
    .heads(2, 2)
    .attending(|a| {
        a.dropout = dropout;
        a.residual = true;
    })
}

#[test]
fn laws_hold_in_every_epoch() {
    let momentum = Algorithm::Sgd(Sgd {
        momentum: 0.9,
        nesterov: true,
    });
    for conv in CONVS {
        for (method, lr) in [
            (Algorithm::SGD, 0.1),
            (momentum, 0.02),
            (Algorithm::ADAM, 0.01),
        ] {
            check::<f64>(config(conv, 0.0), method, lr);
        }
        check::<f32>(config(conv, 0.0), Algorithm::ADAM, 0.01);
    }
}

#[test]
fn laws_hold_in_every_epoch_with_dropout() {
    for conv in CONVS {
        check::<f64>(config(conv, 0.3), Algorithm::ADAM, 0.01);
        check::<f32>(config(conv, 0.3), Algorithm::ADAM, 0.01);
    }
}
