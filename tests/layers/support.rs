//! What tests of layers share: inputs, a training, a file.

use emmy::nn::{GraphNet, GraphNetConfig, Pass};
use emmy::optim::{Algorithm, Optimizer};
use emmy::store::{self, weights};
use emmy::{Tape, Tensor, data, init, train};

pub const INPUTS: usize = 5;

/// Standard normal features.
pub fn features(nodes: usize, seed: u64) -> Tensor<f64> {
    init::normal(&[nodes, INPUTS], 1.0, &mut init::rng(seed))
}

/// Trains a network of graph layers on the karate club by sixty steps of Adam, to a fifth of its first loss.
pub fn train_on_karate(net: &mut GraphNet<f64>) {
    let set = data::karate();
    let neighbours = net.config.neighbourhood(&set.graph);
    let mut optimizer = Optimizer::new(Algorithm::ADAM);
    let mut losses = Vec::new();
    for step in 0..60 {
        let found = train::step(net, &mut optimizer, 0.02, step, |net, pass| {
            let x = pass.tape().sparse(&set.raw_features());
            net.forward(pass, x, &neighbours)
                .cross_entropy(&set.labels, None)
        });
        losses.push(found.unwrap());
    }
    assert!(losses[59] < 0.2 * losses[0], "{losses:?}");
}

/// The outputs on the karate club.
pub fn logits(net: &GraphNet<f64>) -> Tensor<f64> {
    let karate = data::karate();
    let tape = Tape::new();
    let x = tape.sparse(&karate.raw_features());
    let neighbours = net.config.neighbourhood(&karate.graph);
    net.forward(&Pass::eval(&tape, net), x, &neighbours).value()
}

/// A network comes whole out of a file, and its configuration alone out of a checkpoint.
pub fn is_saved_and_loaded(net: &GraphNet<f64>) {
    let config = net.config;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("net.safetensors");
    weights::save(&path, net, &config).unwrap();
    let loaded = weights::load(&path, |config| GraphNet::<f64>::new(config, 0)).unwrap();
    assert_eq!(loaded.config, config);
    assert_eq!(logits(&loaded), logits(net));
    assert_eq!(logits(&net.clone()), logits(net));

    let path = folder.path().join("config.ckpt");
    store::save::<f64>(&path, &config).unwrap();
    assert_eq!(store::load::<f64, GraphNetConfig>(&path).unwrap(), config);
}
