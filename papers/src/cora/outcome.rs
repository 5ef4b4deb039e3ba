//! The outcome of runs, as text, as JSON and as figures.

use crate::cora::cli::Cli;
use crate::support::{figures, note, report, say};
use emmy::data::Dataset;
use emmy::train::{History, LawMonitor};
use emmy::{Error, Result};
use serde::Serialize;

/// The outcome of one run: a line of JSON.
#[derive(Serialize, Debug)]
pub struct Outcome {
    pub dataset: String,
    pub model: String,
    pub layers: usize,
    pub init: Option<&'static str>,
    /// The activation between layers; null for a single layer.
    pub activation: Option<String>,
    pub seed: u64,
    /// At the best validation epoch, like the next two fields; null if the run diverged.
    pub test_acc: Option<f64>,
    pub val_acc: Option<f64>,
    pub best_epoch: Option<usize>,
    pub epochs: usize,
    /// Null if no epoch was finished, like the next field.
    pub ms_per_epoch: Option<f64>,
    /// The training loss at the point where the last step began, with dropout.
    pub final_loss: Option<f64>,
    /// The largest relative δ over all conservation laws and all epochs trained here; `None` if no law holds
    /// or no epoch was trained.
    pub max_delta: Option<f64>,
    /// Why the run diverged; null if it did not.
    pub stopped: Option<String>,
}

/// The last line of JSON.
#[derive(Serialize, Debug)]
struct Summary<'a> {
    summary: bool,
    dataset: &'a str,
    model: &'a str,
    layers: usize,
    init: Option<&'static str>,
    /// The number of all runs, and of those that diverged. The means are over the other runs; null if there
    /// are none.
    seeds: usize,
    diverged: usize,
    test_acc_mean: Option<f64>,
    test_acc_std: Option<f64>,
    ms_per_epoch: Option<f64>,
}

/// A finished run with its report and the curves of its figure.
pub struct Run {
    pub outcome: Outcome,
    /// The report for readers.
    pub text: String,
    pub history: History,
}

/// Prints the summary of all runs.
///
/// # Errors
/// If all of them diverged.
pub fn summarize(cli: &Cli, set: &Dataset, outcomes: &[Outcome]) -> Result<()> {
    let of = |f: fn(&Outcome) -> Option<f64>| {
        let reached = outcomes.iter().filter(|o| o.stopped.is_none());
        let values: Vec<f64> = reached.filter_map(f).collect();
        let (mean, std) = report::mean_std(&values);
        let (mean, std) = (!values.is_empty()).then_some((mean, std)).unzip();
        (values.len(), mean, std)
    };
    let (reached, test_acc_mean, test_acc_std) = of(|o| o.test_acc);
    let summary = Summary {
        summary: true,
        dataset: &set.name,
        model: &cli.model_name(),
        layers: cli.layers,
        init: cli.init_name(),
        seeds: outcomes.len(),
        diverged: outcomes.len() - reached,
        test_acc_mean,
        test_acc_std,
        ms_per_epoch: of(|o| o.ms_per_epoch).1,
    };
    if cli.runs.json {
        print_json(&summary)?;
    } else if let (Some(mean), Some(std), 2..) = (test_acc_mean, test_acc_std, outcomes.len()) {
        // One run has no spread.
        let spread = match reached {
            1 => String::new(),
            _ => format!(" ± {:.1}", 100.0 * std),
        };
        let diverged = match summary.diverged {
            0 => String::new(),
            n => format!("; {n} of {} diverged", outcomes.len()),
        };
        say(format_args!(
            "mean of {reached} seeds: test accuracy {:.1}{spread} %{diverged}",
            100.0 * mean
        ))?;
    }
    match reached {
        0 => Err(Error::invalid("runs", "one that does not diverge", "none")),
        _ => Ok(()),
    }
}

impl Run {
    /// Prints the outcome.
    pub fn tell(&self, cli: &Cli) -> Result<()> {
        if cli.runs.json {
            print_json(&self.outcome)?;
        }
        // Standard output is for results; a diverged run has none.
        match cli.runs.json || self.outcome.stopped.is_some() {
            true => note(&self.text),
            false => say(&self.text)?,
        }
        Ok(())
    }

    /// Draws loss and accuracy, and prints the path.
    pub fn draw(&self, cli: &Cli) -> Result<()> {
        let Outcome {
            dataset,
            model,
            layers,
            seed,
            ..
        } = &self.outcome;
        if self.history.epochs() == 0 {
            return Ok(());
        }
        let name = format!("{dataset}-{model}-L{layers}-seed{seed}");
        let title = format!("{model} on {dataset}, {layers} layers, seed {seed}");
        let figure = figures::training(&cli.runs.figures, &name, &title, &self.history)?;
        if let Some(path) = figure {
            let text = format!("figure: {}", path.display());
            match cli.runs.json || self.outcome.stopped.is_some() {
                true => note(text),
                false => say(text)?,
            }
        }
        Ok(())
    }
}

impl Outcome {
    /// # Errors
    /// If no epoch was trained.
    pub fn new(
        cli: &Cli,
        set: &Dataset,
        seed: u64,
        history: &History,
        monitor: &LawMonitor,
        stopped: Option<String>,
    ) -> Result<Self> {
        let last = history.last();
        if last.is_none() && stopped.is_none() {
            return Err(Error::invalid("--epochs", "at least 1", "0"));
        }
        let best = history.best().filter(|_| stopped.is_none());
        let metric = |name| best.map(|best| best.metrics[name]);
        Ok(Self {
            dataset: set.name.clone(),
            model: cli.model_name(),
            layers: cli.layers,
            init: cli.init_name(),
            activation: cli.activation_name(),
            seed,
            test_acc: metric("test_acc"),
            val_acc: metric("val_acc"),
            best_epoch: best.map(|best| best.epoch),
            epochs: history.epochs(),
            ms_per_epoch: last.map(|_| history.ms_per_epoch()),
            final_loss: last.map(|last| history.training_loss(last.epoch)),
            max_delta: monitor.worst().map(|worst| worst.delta),
            stopped,
        })
    }

    /// Accuracy and time for readers, of a run that did not diverge.
    pub fn told(&self) -> String {
        format!(
            "seed {}: test accuracy {:.1} % at the best validation epoch, {} of {} (validation {:.1} %); {:.2} ms per epoch",
            self.seed,
            100.0 * self.test_acc.unwrap_or(f64::NAN),
            self.best_epoch.unwrap_or(0),
            self.epochs,
            100.0 * self.val_acc.unwrap_or(f64::NAN),
            self.ms_per_epoch.unwrap_or(f64::NAN)
        )
    }
}

/// The largest relative δ of the training, with its law, neuron and epoch.
pub fn conserved(monitor: &LawMonitor) -> String {
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
