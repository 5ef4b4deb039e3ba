//! Trains a graph network to tell the topics of papers from their words and citations.
//!
//! `cargo run --release --example cora` trains a graph attention network on Cora where it is found,
//! else on a generated set like it; `--help` lists all options.

#[path = "../support/mod.rs"]
mod support;

mod cli;

use clap::Parser;
use cli::Cli;
use emmy::data::Dataset;
use emmy::nn::{GraphNet, GraphNetConfig, Pass, Trace, Traced};
use emmy::train::{
    History, LawMonitor, NodeClassification, TrainState, Trainer, each_epoch, metrics,
};
use emmy::{Error, Real, Result, Tape, kernels::par, store};
use serde::Serialize;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use support::args::{Float, features};
use support::{figures, note, progress::Epochs, report, say};

/// The outcome of one run: a line of JSON.
#[derive(Serialize, Debug)]
struct Outcome {
    dataset: String,
    model: String,
    layers: usize,
    init: Option<&'static str>,
    seed: u64,
    test_acc: f64,
    val_acc: f64,
    best_epoch: usize,
    epochs: usize,
    ms_per_epoch: f64,
    /// The training loss at the point where the last step began, with dropout.
    final_loss: f64,
    /// The largest relative δ over all conservation laws and all epochs trained here; none where no law holds
    /// or no epoch was trained.
    max_delta: Option<f64>,
}

/// The last line of JSON.
#[derive(Serialize, Debug)]
struct Summary<'a> {
    summary: bool,
    dataset: &'a str,
    model: &'a str,
    layers: usize,
    init: Option<&'static str>,
    seeds: usize,
    test_acc_mean: f64,
    test_acc_std: f64,
    ms_per_epoch: f64,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let threads = cli.runs.threads;
    support::exit(par::with_threads(threads, || match cli.runs.float {
        Float::F32 => run::<f32>(&cli),
        Float::F64 => run::<f64>(&cli),
    }))
}

fn run<F: Real>(cli: &Cli) -> Result<()> {
    if cli.runs.seeds > 1 && (cli.save.is_some() || cli.resume.is_some()) {
        let found = format!("--seeds {}", cli.runs.seeds);
        return Err(Error::invalid("--save and --resume", "a single run", found));
    }
    let set = cli.data.load()?;
    let config = cli.network(&set)?;
    if cli.runs.summary {
        let table = summary::<F>(&set, config)?;
        match cli.runs.json {
            true => note(table),
            false => say(table)?,
        }
    }
    let mut outcomes = Vec::new();
    for seed in cli.runs.seed..cli.runs.seed + cli.runs.seeds {
        let outcome = train::<F>(cli, &set, config, seed)?;
        if cli.runs.json {
            print_json(&outcome)?;
        }
        outcomes.push(outcome);
    }
    let of = |f: fn(&Outcome) -> f64| report::mean_std(&outcomes.iter().map(f).collect::<Vec<_>>());
    let (test_acc_mean, test_acc_std) = of(|o| o.test_acc);
    let summary = Summary {
        summary: true,
        dataset: &set.name,
        model: &cli.model_name(),
        layers: cli.layers,
        init: cli.init_name(),
        seeds: outcomes.len(),
        test_acc_mean,
        test_acc_std,
        ms_per_epoch: of(|o| o.ms_per_epoch).0,
    };
    if cli.runs.json {
        print_json(&summary)?;
    } else if outcomes.len() > 1 {
        say(format_args!(
            "mean of {} seeds: test accuracy {:.1} ± {:.1} %",
            outcomes.len(),
            100.0 * test_acc_mean,
            100.0 * test_acc_std
        ))?;
    }
    Ok(())
}

/// The training, at its start or resumed, and the monitor of the network's laws.
fn prepare<F: Real>(
    cli: &Cli,
    set: &Dataset,
    config: GraphNetConfig,
    seed: u64,
) -> Result<(Trainer<F, GraphNet<F>>, LawMonitor)> {
    let training = cli.training(seed);
    let mut net = GraphNet::<F>::new(config, seed)?;
    if let Some(init) = cli.init {
        init.apply(&mut net, seed)?;
    }
    let description = format!(
        "{}, split {}, learning rate {}, initialisation {}, {config:?}",
        set.name,
        cli.data.split,
        training.lr,
        cli.init_name().unwrap_or("of the layers")
    );
    // Cross-entropy does not change if all logits are shifted alike, so the laws of such losses
    // hold too. With dropout they hold in every pass.
    let monitor = LawMonitor::new([net.laws(), net.softmax_laws()].concat());
    let mut trainer = Trainer::new(net, training)?.described(description);
    if let Some(path) = &cli.resume {
        trainer.resume(store::load::<F, TrainState<F>>(path)?)?;
    }
    Ok((trainer, monitor))
}

/// The layers of the network as a table, with the shapes that they have on this data set.
fn summary<F: Real>(set: &Dataset, config: GraphNetConfig) -> Result<emmy::nn::Summary> {
    let net = GraphNet::<F>::new(config, 0)?;
    let (x, neighbours) = (features::<F>(set), config.neighbourhood(&set.graph));
    let trace = Trace::of(&net, |pass| {
        net.forward(pass, pass.tape().sparse(&x), &neighbours)
    });
    Ok(trace.summary())
}

/// Trains one network and prints its results.
fn train<F: Real>(cli: &Cli, set: &Dataset, config: GraphNetConfig, seed: u64) -> Result<Outcome> {
    let (mut trainer, mut monitor) = prepare::<F>(cli, set, config, seed)?;
    let x = features::<F>(set);
    let neighbours = config.neighbourhood(&set.graph);
    let split = set.split(cli.data.split)?;
    let task = NodeClassification::new(&set.labels, split, |net: &GraphNet<F>, pass| {
        net.forward(pass, pass.tape().sparse(&x), &neighbours)
    })?;
    let bar = Epochs::new(
        &format!("seed {seed}"),
        trainer.config().epochs,
        trainer.history().epochs(),
    );
    let mut saved = Instant::now();
    let mut place = cli.save.as_ref().map(store::Place::take).transpose()?;
    let mut save = |trainer: &Trainer<F, GraphNet<F>>| match &mut place {
        Some(place) => place.save::<F>(&trainer.state()),
        None => Ok(()),
    };
    let keep = each_epoch(|trainer: &Trainer<F, GraphNet<F>>, _| {
        bar.epoch(trainer.history());
        if saved.elapsed() > Duration::from_secs(1) {
            save(trainer)?;
            saved = Instant::now();
        }
        Ok(())
    });
    let fitted = trainer.fit_observed(&task, (&mut monitor, keep));
    drop(bar);
    // The state is saved even if the training ended with an error.
    save(&trainer)?;
    fitted?;

    let history = trainer.history();
    let outcome = Outcome::new(cli, set, seed, history, &monitor)?;
    let name = format!("{}-{}-L{}-seed{seed}", set.name, outcome.model, cli.layers);
    let title = format!(
        "{} on {}, {} layers, seed {seed}",
        outcome.model, set.name, cli.layers
    );
    let figure = figures::training(&cli.runs.figures, &name, &title, history)?;

    let tape = Tape::new();
    let best = trainer.best_model();
    let logits = best.forward(&Pass::eval(&tape, &best), tape.sparse(&x), &neighbours);
    let counts = metrics::confusion(&logits.value(), &set.labels, &split.test);
    let text = format!(
        "seed {seed}: test accuracy {:.1} % at the best validation epoch, {} of {} (validation {:.1} %); {:.2} ms per epoch\n{}\n{}\nfigure: {}",
        100.0 * outcome.test_acc,
        outcome.best_epoch,
        outcome.epochs,
        100.0 * outcome.val_acc,
        outcome.ms_per_epoch,
        conserved(&monitor),
        report::confusion(&counts),
        figure.display()
    );
    if cli.runs.json {
        note(text);
    } else {
        say(text)?;
    }
    Ok(outcome)
}

impl Outcome {
    /// # Errors
    /// If no epoch was trained.
    fn new(
        cli: &Cli,
        set: &Dataset,
        seed: u64,
        history: &History,
        monitor: &LawMonitor,
    ) -> Result<Self> {
        let (Some(best), Some(last)) = (history.best(), history.last()) else {
            return Err(Error::invalid("--epochs", "at least 1", "0"));
        };
        Ok(Self {
            dataset: set.name.clone(),
            model: cli.model_name(),
            layers: cli.layers,
            init: cli.init_name(),
            seed,
            test_acc: best.metrics["test_acc"],
            val_acc: best.metrics["val_acc"],
            best_epoch: best.epoch,
            epochs: last.epoch,
            ms_per_epoch: history.ms_per_epoch(),
            final_loss: history.training_loss(last.epoch),
            max_delta: monitor.worst().map(|worst| worst.delta),
        })
    }
}

/// The largest relative δ of the training, with its law, neuron and epoch.
fn conserved(monitor: &LawMonitor) -> String {
    match monitor.worst() {
        Some(worst) => format!(
            "largest relative δ {:.1e}: {}, number {}, epoch {}",
            worst.delta,
            worst.law,
            worst.neuron + 1,
            worst.epoch
        ),
        None => "no conservation law was checked".to_owned(),
    }
}

fn print_json(value: &impl Serialize) -> Result<()> {
    say(serde_json::to_string(value).expect("numbers and strings"))
}
