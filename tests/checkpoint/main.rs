//! Checkpoints: a run that is stopped and resumed ends with the bits of an uninterrupted run, and
//! only a complete checkpoint of the same run is accepted. Weights: files that PyTorch reads and writes.

#[path = "../cases/mod.rs"]
mod cases;
mod damage;
#[cfg(unix)]
mod kills;
#[path = "../fixtures/mod.rs"]
mod reference;
mod resuming;
mod saving;
mod values;
mod weights;

use emmy::data::{self, Dataset};
use emmy::nn::{Activation, GraphNet, GraphNetConfig, Module, Traced};
use emmy::optim::{Algorithm, Optimizer, Plateau, Sgd};
use emmy::store::{self, Place};
use emmy::train::{LawMonitor, NodeClassification, TrainConfig, TrainState, Trainer};
use emmy::{Error, Real};
use proptest::prelude::*;
use std::path::Path;
use tempfile::TempDir;

type Run<F> = Trainer<F, GraphNet<F>>;

fn config(set: &Dataset) -> GraphNetConfig {
    GraphNetConfig {
        hidden: 3,
        dropout: 0.3,
        ..GraphNetConfig::gat(set.feature_count(), set.classes).heads(2, 1)
    }
}

fn trainer<F: Real>(set: &Dataset, train: TrainConfig) -> Run<F> {
    let net = GraphNet::new(config(set), train.seed).unwrap();
    Trainer::new(net, train).unwrap().described("gat on karate")
}

fn fit<F: Real>(set: &Dataset, trainer: &mut Run<F>) {
    let (x, neighbours) = (set.raw_features(), config(set).neighbourhood(&set.graph));
    let task = NodeClassification::new(&set.labels, &set.splits[0], |net: &GraphNet<F>, pass| {
        net.forward(pass, pass.tape().sparse(&x), &neighbours)
    });
    trainer.fit(&task.unwrap(), |_, _| Ok(())).unwrap();
}

fn bits<F: Real>(trainer: &Run<F>) -> Vec<u64> {
    let best = trainer.best_model();
    let all = trainer.model().tensors().into_iter().chain(best.tensors());
    all.flat_map(|p| p.iter().map(|x| x.as_f64().to_bits()).collect::<Vec<_>>())
        .collect()
}

/// A checkpoint of a short run.
fn checkpoint(path: &Path) -> TrainState<f32> {
    let set = data::karate();
    let mut trainer = trainer(
        &set,
        TrainConfig {
            epochs: 3,
            ..TrainConfig::default()
        },
    );
    fit(&set, &mut trainer);
    store::save::<f32>(path, &trainer.state()).unwrap();
    trainer.state()
}

fn load(path: &Path) -> emmy::Result<TrainState<f32>> {
    store::load::<f32, _>(path)
}
