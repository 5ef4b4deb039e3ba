//! Why a deep graph attention network does not train, and what a conservation law does about it.
//!
//! Multiply the incoming weights of a neuron by λ and its outgoing ones by 1/λ: the network stays the same.
//! So c = ‖incoming‖² − (attention)² − ‖outgoing‖² of each neuron is nearly constant during a training.
//! With the usual weights c is far from 0, and ten layers hardly move. With balanced weights, c = 0, they
//! learn (Mustafa, Bojchevski and Burkholz, "Are GATs Out of Balance?", NeurIPS 2023).
//!
//! `cargo run --example balance [LAYERS [EPOCHS]]`; the tables and figures of the paper are those
//! of `cargo run --release -p papers -- balance`.

use emmy::data;
use emmy::init::Initialization;
use emmy::kernels::par;
use emmy::nn::{Activation, Conv, GraphNet, GraphNetConfig, Traced};
use emmy::optim::Algorithm;
use emmy::train::{LawMonitor, NodeClassification, TrainConfig, Trainer, each_epoch};
use emmy::{Error, Result};
use std::thread;

const HELP: &str =
    "balance [LAYERS [EPOCHS]]: trains graph attention with the usual weights and balanced

  LAYERS   [default: 10]
  EPOCHS   of gradient descent [default: 500]";

/// What a training came to.
struct Outcome {
    accuracy: f64,
    losses: [f64; 2],
    delta: f64,
}

fn main() -> Result<()> {
    let mut numbers = [10, 500];
    for (k, argument) in std::env::args_os().skip(1).enumerate() {
        let argument = argument.to_string_lossy();
        if ["--help", "-h"].contains(&&*argument) {
            println!("{HELP}");
            return Ok(());
        }
        let rule = "LAYERS and EPOCHS, at most two numbers above 0";
        let wrong = || Error::invalid("arguments", rule, &*argument);
        let number = argument.parse().ok().filter(|n| *n > 0);
        *numbers.get_mut(k).ok_or_else(wrong)? = number.ok_or_else(wrong)?;
    }
    let [layers, epochs] = numbers;
    eprintln!("{layers} layers, {epochs} epochs");
    let inits = ["xavier", "bal-o"];
    // Each training has a thread.
    let outcomes = thread::scope(|scope| {
        let start =
            |init| scope.spawn(move || par::with_threads(1, || train(init, layers, epochs)));
        inits.map(start).map(|run| run.join().expect("no panic"))
    });
    println!("initialisation  test accuracy  loss at the start, at the end  largest relative δ");
    for (init, outcome) in inits.into_iter().zip(outcomes) {
        let Outcome {
            accuracy,
            losses: [first, last],
            delta,
        } = outcome?;
        let percent = 100.0 * accuracy;
        println!("{init:<14}  {percent:>11.1} %  {first:>17.3}  {last:>10.3}  {delta:>18.0e}");
    }
    Ok(())
}

/// Trains `layers` layers of GATv2 by gradient descent on a generated graph like Cora.
fn train(init: &str, layers: usize, epochs: usize) -> Result<Outcome> {
    let set = data::cora_like(0);
    let config = GraphNetConfig {
        layers,
        hidden: 64,
        activation: Activation::Relu,
        dropout: 0.0,
        ..GraphNetConfig::gcn(set.feature_count(), set.classes)
    };
    let config = config.of(Conv::gatv2(true)).heads(1, 1).biased(false);
    let mut net = GraphNet::<f32>::new(config, 0)?;
    init.parse::<Initialization>()?.apply(&mut net, 0)?;

    let laws = LawMonitor::new(net.laws());
    let (x, neighbours) = (set.normalized_features(), config.neighbourhood(&set.graph));
    let task = NodeClassification::new(&set.labels, set.split(0)?, |net: &GraphNet<f32>, pass| {
        net.forward(pass, pass.tape().sparse(&x), &neighbours)
    })?;
    let training = TrainConfig {
        algorithm: Algorithm::SGD,
        lr: 0.05,
        epochs,
        ..TrainConfig::default()
    };
    let mut trainer = Trainer::new(net, training)?;
    let told = each_epoch(|trainer: &Trainer<f32, GraphNet<f32>>, _| {
        let history = trainer.history();
        if history.epochs().is_multiple_of(100) {
            let loss = history.training_loss(history.epochs());
            eprintln!("{init}: epoch {}, loss {loss:.3}", history.epochs());
        }
        Ok(())
    });
    trainer.fit_observed(&task, (&laws, told))?;
    let history = trainer.history();
    let best = history.best();
    Ok(Outcome {
        accuracy: best.map_or(f64::NAN, |best| best.metrics["test_acc"]),
        losses: [1, epochs].map(|epoch| history.training_loss(epoch)),
        delta: laws.max_delta(),
    })
}
