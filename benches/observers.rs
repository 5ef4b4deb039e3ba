//! What observers cost: training epochs of a GATv2 with shared weights, 10 layers 64 wide, `f32`, on the
//! generated cora-like, alone and with each observer, in turns.
//!
//! `cargo bench --bench observers`. Two columns say what an observer costs. The first compares epochs with
//! and without it, and has the noise of both; the second is the share of the time spent in the observer
//! itself.

#[path = "support/mod.rs"]
mod support;

use emmy::data::{self, Dataset};
use emmy::graph::Neighbourhood;
use emmy::kernels::par;
use emmy::nn::{Activation, Conv, GraphNet, GraphNetConfig, Traced};
use emmy::optim::Algorithm;
use emmy::sparse::Csr;
use emmy::train::{
    LawMonitor, NodeClassification, Observer, Point, Record, Recorder, TrainConfig, Trainer,
};
use emmy::{Error, Result};
use std::time::{Duration, Instant};
use support::options::{self, list, value};

const HELP: &str = "Time training with and without observers

  --threads <N,..>  Numbers of threads [default: 1,4]
  --epochs <N>      Epochs of a turn [default: 100]
  --turns <N>       Turns of each [default: 5]
  --every <N>       Epochs from sample to sample [default: 25]";

struct Cli {
    threads: Vec<usize>,
    epochs: usize,
    turns: usize,
    every: usize,
}

impl Cli {
    fn parse() -> Self {
        let mut cli = Self {
            threads: vec![1, 4],
            epochs: 100,
            turns: 5,
            every: 25,
        };
        options::read(HELP, |name, parser| {
            match name {
                "threads" => cli.threads = list(parser)?,
                "epochs" => cli.epochs = value(parser)?,
                "turns" => cli.turns = value(parser)?,
                "every" => cli.every = value(parser)?,
                _ => return Ok(false),
            }
            Ok(true)
        });
        cli
    }
}

type Net = GraphNet<f32>;

fn main() -> Result<()> {
    let cli = Cli::parse();
    if cli.epochs * cli.turns * cli.every == 0 {
        return Err(Error::invalid(
            "--epochs, --turns, --every",
            "at least 1",
            "0",
        ));
    }
    let set = data::cora_like(0);
    println!("| threads | observer | ms per epoch | to alone | share of the time |");
    println!("|---:|---|---:|---:|---:|");
    for &threads in &cli.threads {
        par::with_threads(threads, || compare(&cli, &set, threads))?;
    }
    Ok(())
}

fn compare(cli: &Cli, set: &Dataset, threads: usize) -> Result<()> {
    let config = GraphNetConfig {
        layers: 10,
        hidden: 64,
        dropout: 0.0,
        activation: Activation::Relu,
        ..GraphNetConfig::gcn(set.feature_count(), set.classes).of(Conv::gatv2(true))
    }
    .biased(false);
    let (x, neighbours) = (set.normalized_features(), config.neighbourhood(&set.graph));
    let net = Net::new(config, 0)?;
    let turn = Turn {
        set,
        net: &net,
        x: &x,
        neighbours: &neighbours,
        epochs: cli.epochs,
    };
    let names = [
        "none".to_owned(),
        format!("Recorder, every {} epochs", cli.every),
        "LawMonitor, every epoch".to_owned(),
    ];
    let mut best = [(f64::INFINITY, f64::INFINITY); 3];
    for _ in 0..cli.turns {
        let found = [
            turn.take(())?,
            turn.take(Recorder::new(&net, net.laws(), cli.every))?,
            turn.take(LawMonitor::new(net.laws()))?,
        ];
        for (best, found) in best.iter_mut().zip(found) {
            *best = (best.0.min(found.0), best.1.min(found.1));
        }
    }
    for (name, (ms, share)) in names.iter().zip(best) {
        println!(
            "| {threads} | {name} | {ms:.3} | {:.3} | {:.2} % |",
            ms / best[0].0,
            100.0 * share
        );
    }
    Ok(())
}

/// What is trained in each turn, the same each time.
struct Turn<'a> {
    set: &'a Dataset,
    net: &'a Net,
    x: &'a Csr<f32>,
    neighbours: &'a Neighbourhood<f32>,
    epochs: usize,
}

impl Turn<'_> {
    /// Milliseconds an epoch, and the share of them that the observer took.
    fn take(&self, observer: impl Observer<f32, Net>) -> Result<(f64, f64)> {
        let config = TrainConfig {
            algorithm: Algorithm::SGD,
            lr: 0.05,
            epochs: self.epochs,
            ..TrainConfig::default()
        };
        let split = self.set.split(0)?;
        let task = NodeClassification::new(&self.set.labels, split, |net: &Net, pass| {
            net.forward(pass, pass.tape().sparse(self.x), self.neighbours)
        })?;
        let mut trainer = Trainer::new(self.net.clone(), config)?;
        let mut timed = Timed {
            observer,
            spent: Duration::ZERO,
        };
        let start = Instant::now();
        trainer.fit_observed(&task, &mut timed)?;
        let all = start.elapsed().as_secs_f64();
        let share = timed.spent.as_secs_f64() / all;
        Ok((1e3 * all / self.epochs as f64, share))
    }
}

/// An observer with a stopwatch.
struct Timed<O> {
    observer: O,
    spent: Duration,
}

impl<O: Observer<f32, Net>> Observer<f32, Net> for Timed<O> {
    fn before_step(&mut self, point: &Point<'_, f32>) -> Result<()> {
        let start = Instant::now();
        let said = self.observer.before_step(point);
        self.spent += start.elapsed();
        said
    }

    fn after_epoch(&mut self, trainer: &Trainer<f32, Net>, record: &Record) -> Result<()> {
        let start = Instant::now();
        let said = self.observer.after_epoch(trainer, record);
        self.spent += start.elapsed();
        said
    }
}
