//! "Are GATs Out of Balance?" (Mustafa, Bojchevski and Burkholz, NeurIPS 2023), reproduced.
//!
//! Without arguments, `cargo run --release -p papers -- balance` trains ten layers of graph attention on a
//! generated data set, with the usual and with the balanced initialisations, and draws the difference.
//! `--table` and `--figure` run the paper's tables and figures; `--help` lists the other options.

pub(crate) mod cell;
mod change;
mod dynamics;
pub mod entries;
mod figures;
pub(crate) mod numbers;
pub(crate) mod plan;
pub(crate) mod run;
mod tables;

use crate::support::args::{Float, at_least_zero, initializations, sources};
use crate::support::figures::Figure;
use crate::support::paper::{self, Cell as _, Filter, Options, Paper, Part, Shown};
use crate::support::report::mean_std;
use crate::support::{note, say};
use cell::Cell;
use clap::Args;
use emmy::data::Source;
use emmy::init::Initialization;
use emmy::{Error, Result};
use plan::{Choice, LOSS_THRESHOLD, Plan, is_heterophilic};
use run::{Run, Runs};
use serde_json::{Value, json};

/// Reproduce "Are GATs Out of Balance?": any cell, table or figure
#[derive(Args, Debug)]
#[command(after_help = OUTCOMES)]
pub struct Cli {
    /// Table to run: 2 to 7
    #[arg(long = "table", value_name = "N", value_parser = clap::value_parser!(u32).range(2..=7))]
    tables: Vec<u32>,

    /// Figure to run: 2 to 12
    #[arg(long = "figure", value_name = "N", value_parser = clap::value_parser!(u32).range(2..=12))]
    figures: Vec<u32>,

    /// Only these data sets
    #[arg(long = "dataset", value_name = "NAME", value_parser = sources())]
    datasets: Vec<&'static Source>,

    /// Only these numbers of layers
    #[arg(long = "layers", value_name = "L")]
    layers: Vec<usize>,

    /// Only these initialisations
    #[arg(long = "init", value_name = "NAME", value_parser = initializations())]
    inits: Vec<Initialization>,

    /// Maximum number of epochs
    #[arg(long, value_name = "N")]
    epochs: Option<usize>,

    /// Learning rate in place of the paper's
    #[arg(long, value_name = "RATE")]
    lr: Option<f64>,

    /// Stop when the training loss is below this value; 0 for never. Table 5 stops by its patience instead,
    /// and Figure 2 does not stop early
    #[arg(long, value_name = "LOSS", default_value_t = LOSS_THRESHOLD, value_parser = at_least_zero)]
    loss_threshold: f64,

    /// Read the edges of heterophilic graphs in both directions; without it in one, as the published code
    /// does
    #[arg(long)]
    both_directions: bool,

    /// Use features as published, instead of rows that sum to one
    #[arg(long)]
    raw_features: bool,

    /// Type of the numbers
    #[arg(long, default_value = "f32")]
    float: Float,

    /// Print the layers of the first cell's network, the shapes of their outputs and their parameters, before
    /// the first run
    #[arg(long)]
    summary: bool,

    #[command(flatten)]
    options: Options,
}

const OUTCOMES: &str = "A run diverges when its training loss, or the validation loss of its last epoch, is not a finite number. This
is an outcome: the accuracy of the run is that of the best epoch before, and tables say \"diverged\" if there
is none.

A cell runs five times as in the paper, once in the demonstration, unless --seeds says otherwise.

A data set named by --dataset must be found. Other data sets that are not found are left out, with a line on
standard error.

Exit code: 0; 1 if an error stops the program, no data set is found, all runs diverge, or a figure cannot be
written (results and tables come before figures); 2 for a wrong argument.";

impl Cli {
    /// Whether the arguments name no table, figure or cell. Then the demonstration is run.
    fn is_demonstration(&self) -> bool {
        let cells = self.datasets.is_empty() && self.layers.is_empty() && self.inits.is_empty();
        self.tables.is_empty() && self.figures.is_empty() && cells
    }

    /// The cells that the arguments choose.
    fn choice(&self) -> Result<Choice> {
        let (seeds, epochs) = match self.is_demonstration() {
            true => (1, 1000),
            false => (5, 5000),
        };
        let names = self.inits.iter().filter_map(|init| init.name());
        let choice = Choice {
            seeds: self.options.seeds(seeds),
            epochs: self.epochs.unwrap_or(epochs),
            datasets: (self.datasets.iter())
                .map(|set| set.name.to_owned())
                .collect(),
            layers: self.layers.clone(),
            inits: names.map(str::to_owned).collect(),
            float: self.float,
            both_directions: self.both_directions,
            raw_features: self.raw_features,
            lr: self.lr,
            loss_threshold: self.loss_threshold,
        };
        match choice.epochs {
            0 => Err(Error::invalid("--epochs", "at least 1", "0")),
            _ => Ok(choice),
        }
    }

    /// The options that choose cells.
    fn filters(&self) -> Vec<Filter<'_, Cell>> {
        let inits = (self.inits.iter().filter_map(|init| init.name()))
            .map(|name| Filter::new("--init", name, move |c: &Cell| c.init == name));
        Filter::each("--dataset", &self.datasets, |c: &Cell, x| {
            c.dataset == x.name
        })
        .chain(Filter::each("--layers", &self.layers, |c: &Cell, &x| {
            c.layers == x
        }))
        .chain(inits)
        .chain(Filter::used(
            "--both-directions",
            self.both_directions.then_some("given"),
            "a heterophilic data set in a chosen cell",
            |c: &Cell| is_heterophilic(&c.dataset),
        ))
        .chain(Filter::used(
            "--raw-features",
            self.raw_features.then_some("given"),
            "a data set whose rows of features are divided by their sums in a chosen cell",
            |c: &Cell| c.raw_features,
        ))
        .collect()
    }

    /// The tables and figures asked for.
    fn parts(&self, choice: &Choice) -> Vec<Part<Cell>> {
        let tables = self.tables.iter().map(|&n| choice.table(n));
        let figures = self.figures.iter().map(|&n| (n, choice.figure(n)));
        if self.is_demonstration() {
            return vec![Part::new(Shown::Demonstration, choice.demonstration())];
        }
        Part::asked_for(tables, figures, || choice.cells())
    }
}

/// The plan of the paper, with the settings of the command line.
struct Balance {
    settings: String,
}

impl Paper for Balance {
    type Cell = Cell;
    const NAME: &'static str = "balance";
    const DEMONSTRATION: (&'static str, u32) = (
        "Ten layers of graph attention from three initialisations",
        35,
    );

    fn table(&self, plan: &Plan, runs: &Runs) -> String {
        tables::render(plan, &self.settings, runs)
    }

    fn figure(&self, shown: Shown, plan: &Plan, runs: &Runs) -> Option<Figure> {
        match shown {
            Shown::Table => None,
            Shown::Figure(number) => figures::figure(number, plan, runs),
            Shown::Demonstration => figures::demonstration(plan, runs),
        }
    }

    fn json(&self, cell: &Cell, runs: &[&Run]) -> Value {
        let known: Vec<f64> = runs.iter().filter_map(|run| run.outcome.test_acc).collect();
        let (mean, std) = mean_std(&known);
        let deltas = runs.iter().filter_map(|run| run.outcome.max_delta);
        let stopped = runs.iter().filter(|run| run.outcome.stopped.is_some());
        json!({
            "dataset": cell.dataset,
            "layers": cell.layers,
            "init": cell.init,
            "optimizer": cell.optimizer,
            "test_acc_mean": mean,
            "test_acc_std": std,
            "max_delta": deltas.reduce(f64::max),
            "stopped": stopped.count(),
        })
    }
}

/// Runs what the arguments ask for.
pub fn run(cli: &Cli) -> Result<()> {
    let choice = cli.choice()?;
    let parts = paper::chosen(cli.parts(&choice), cli.filters(), &cli.options)?;
    let mut entries = parts.iter().flat_map(|part| &part.plan.entries);
    let first = entries.find_map(|entry| entry.cells.first());
    if let Some(cell) = first.filter(|_| cli.summary) {
        let data = cell.load(cli.options.data.as_deref())?;
        let summary = format!("{}\n{}", cell.title(), cell.summary(&data)?);
        match cli.options.json {
            true => note(summary),
            false => say(summary)?,
        }
    }
    let named = cli.datasets.iter().map(|set| set.name.to_owned());
    let settings = choice.settings();
    paper::reproduce(&Balance { settings }, &parts, named.collect(), &cli.options)
}
