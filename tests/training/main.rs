//! The training loop.

mod passes;
mod rules;
mod troubles;

use emmy::autodiff::grad;
use emmy::data::{self, Dataset, Split};
use emmy::nn::{Conv, GraphNet, GraphNetConfig, Linear, Module, Pass};
use emmy::optim::{Decay, Method, Plateau, Schedule};
use emmy::sparse::Csr;
use emmy::train::{Record, Select, Task, TrainConfig, Trainer, metrics};
use emmy::{Tape, Tensor, Var};

struct Setting {
    set: Dataset,
    config: GraphNetConfig,
    x: Csr<f64>,
    adjacency: Csr<f64>,
}

fn setting(dropout: f64) -> Setting {
    let set = data::karate();
    let config = GraphNetConfig {
        conv: Conv::Gatv2 { shared: true },
        dropout,
        attention_dropout: dropout,
        heads: 2,
        hidden: 4,
        ..GraphNetConfig::gcn(set.feature_count(), set.classes)
    };
    Setting {
        x: set.raw_features(),
        adjacency: config.adjacency(&set.graph),
        config,
        set,
    }
}

impl Setting {
    fn net(&self) -> GraphNet<f64> {
        GraphNet::new(self.config, 1).unwrap()
    }

    fn task(&self) -> Task<'_> {
        Task {
            labels: &self.set.labels,
            split: &self.set.splits[0],
        }
    }

    fn forward<'t>(&self, net: &GraphNet<f64>, pass: &Pass<'t, f64>) -> Var<'t, f64> {
        net.forward(pass, pass.tape().sparse(&self.x), &self.adjacency)
    }

    fn fit(&self, config: TrainConfig) -> Trainer<f64, GraphNet<f64>> {
        let mut trainer = Trainer::new(self.net(), config).unwrap();
        trainer
            .fit(
                &self.task(),
                |net, pass| self.forward(net, pass),
                |_, _| Ok(()),
            )
            .unwrap();
        trainer
    }
}

fn parameters(model: &impl Module<f64>) -> Vec<Tensor<f64>> {
    model
        .parameters()
        .into_iter()
        .map(|(_, p)| p.clone())
        .collect()
}

/// NaN is not equal to itself; its bits are.
fn bits(model: &impl Module<f64>) -> Vec<u64> {
    parameters(model)
        .iter()
        .flatten()
        .map(|x| x.to_bits())
        .collect()
}

fn untimed(records: &[Record]) -> Vec<Record> {
    let timeless = |r: &Record| Record {
        ms: 0.0,
        ..r.clone()
    };
    records.iter().map(timeless).collect()
}
