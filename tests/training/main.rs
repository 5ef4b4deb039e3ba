//! The training loop.

mod observers;
mod passes;
mod recording;
mod rules;
mod troubles;
mod watching;

use emmy::autodiff::grad;
use emmy::data::{self, Dataset, Split};
use emmy::nn::{Conv, GraphNet, GraphNetConfig, Linear, Module, Pass, Stack};
use emmy::optim::{Decay, Method, Plateau, Schedule};
use emmy::sparse::Csr;
use emmy::train::{Observer, Point, Record, Select, Task, TrainConfig, Trainer, metrics};
use emmy::{Tape, Tensor, Var};

type Net = GraphNet<f64>;

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
    fn net(&self) -> Net {
        GraphNet::new(self.config, 1).unwrap()
    }

    fn task(&self) -> Task<'_> {
        Task {
            labels: &self.set.labels,
            split: &self.set.splits[0],
        }
    }

    fn forward<'t>(&self, net: &Net, pass: &Pass<'t, f64>) -> Var<'t, f64> {
        net.forward(pass, pass.tape().sparse(&self.x), &self.adjacency)
    }

    fn trainer(&self, config: TrainConfig) -> Trainer<f64, Net> {
        Trainer::new(self.net(), config).unwrap()
    }

    fn fit(&self, config: TrainConfig) -> Trainer<f64, Net> {
        self.fit_with(config, |net, pass| self.forward(net, pass))
    }

    /// Trained with another forward pass.
    fn fit_with<L>(&self, config: TrainConfig, forward: L) -> Trainer<f64, Net>
    where
        L: for<'t> Fn(&Net, &Pass<'t, f64>) -> Var<'t, f64>,
    {
        let mut trainer = self.trainer(config);
        trainer.fit(&self.task(), forward, |_, _| Ok(())).unwrap();
        trainer
    }

    /// Goes on with what is begun, under the eyes of an observer.
    fn observe(
        &self,
        trainer: &mut Trainer<f64, Net>,
        observer: impl Observer<f64, Net>,
    ) -> emmy::Result<()> {
        trainer.fit_observed(&self.task(), |net, pass| self.forward(net, pass), observer)
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
