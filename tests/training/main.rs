//! The training loop.

mod batches;
mod classify;
mod clip;
mod clipping;
mod cora_like;
mod counts;
mod handmade;
mod histories;
mod monitoring;
mod next_symbol;
mod observers;
mod optimisers;
mod orders;
mod passes;
mod plateau;
mod recording;
mod rules;
mod same_bits;
mod schedule;
mod troubles;
mod unusual;
mod weight_decay;

use emmy::autodiff::grad;
use emmy::data::{self, Dataset, Split};
use emmy::graph::Neighbourhood;
use emmy::nn::{
    AttentionOptions, Conv, Gatv2Options, GraphNet, GraphNetConfig, Linear, Module, Pass, Traced,
};
use emmy::optim::{Algorithm, Clip, Decay, Optimizer, Plateau, Schedule, Sgd, Unit};
use emmy::sparse::Csr;
use emmy::train::{
    BestBy, NodeClassification, Observer, Point, Record, StepRecord, Task, TrainConfig, Trainer,
    metrics,
};
use emmy::{Tape, Tensor, Var};

type Net = GraphNet<f64>;

struct Setting {
    set: Dataset,
    config: GraphNetConfig,
    x: Csr<f64>,
    neighbours: Neighbourhood<f64>,
}

fn setting(dropout: f64) -> Setting {
    let set = data::karate();
    let conv = Conv::Gatv2(Gatv2Options {
        shared: true,
        attention: AttentionOptions {
            heads: 2,
            dropout,
            ..AttentionOptions::default()
        },
    });
    let config = GraphNetConfig {
        dropout,
        hidden: 4,
        ..GraphNetConfig::gcn(set.feature_count(), set.classes).of(conv)
    };
    Setting {
        x: set.raw_features(),
        neighbours: config.neighbourhood(&set.graph),
        config,
        set,
    }
}

impl Setting {
    fn net(&self) -> Net {
        GraphNet::new(self.config, 1).unwrap()
    }

    /// The task with another forward pass.
    fn task_with<L>(&self, forward: L) -> NodeClassification<'_, L>
    where
        L: for<'t> Fn(&Net, &Pass<'t, '_, f64>) -> Var<'t, f64>,
    {
        NodeClassification::new(&self.set.labels, &self.set.splits[0], forward).unwrap()
    }

    fn task(&self) -> impl Task<f64, Net> {
        self.task_with(|net, pass| self.forward(net, pass))
    }

    fn forward<'t>(&self, net: &Net, pass: &Pass<'t, '_, f64>) -> Var<'t, f64> {
        net.forward(pass, pass.tape().sparse(&self.x), &self.neighbours)
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
        L: for<'t> Fn(&Net, &Pass<'t, '_, f64>) -> Var<'t, f64>,
    {
        let mut trainer = self.trainer(config);
        let task = self.task_with(forward);
        trainer.fit(&task, |_, _| Ok(())).unwrap();
        trainer
    }

    /// Continues a training with an observer.
    fn observe(
        &self,
        trainer: &mut Trainer<f64, Net>,
        observer: impl Observer<f64, Net>,
    ) -> emmy::Result<()> {
        trainer.fit_observed(&self.task(), observer)
    }
}

fn parameters(model: &impl Module<f64>) -> Vec<Tensor<f64>> {
    model
        .parameters()
        .into_iter()
        .map(|p| p.tensor.clone())
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

/// All records except the time.
fn untimed<M: Module<f64>>(trainer: &Trainer<f64, M>) -> (Vec<Record>, Vec<StepRecord>) {
    let timeless = |r: &Record| Record {
        ms: 0.0,
        ..r.clone()
    };
    let history = trainer.history();
    let records = history.records.iter().map(timeless);
    (records.collect(), history.steps.clone())
}
