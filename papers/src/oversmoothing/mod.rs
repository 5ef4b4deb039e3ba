//! The graph networks of "ContraNorm: A Contrastive Learning Perspective on Oversmoothing and Beyond" (Guo,
//! Wang, Du and Wang, ICLR 2023), reproduced.
//!
//! Without arguments, `cargo run --release -p papers -- oversmoothing` trains eight layers of graph
//! convolution on a generated data set, without a norm and with three norms, and shows the ranks of its
//! layers. `--table 3` runs the paper's table, `--dataset cora --norm contra --layers 8 --seeds 5` names a
//! cell; `--figure 1` draws collapse in the plane, `--figure circle` the ranks of attention alone and
//! together with other layers.

pub(crate) mod cell;
mod circle;
mod figures;
mod net;
pub(crate) mod numbers;
pub(crate) mod plan;
mod plane;
pub(crate) mod run;
pub(crate) mod tables;

use crate::support::args::{Float, probability};
use crate::support::figures::Figure;
use crate::support::paper::{self, Filter, Options, Paper, Part, Shown};
use crate::support::report::mean_std;
use crate::support::{note, say};
use cell::{Cell, Method, Split};
use clap::{Args, ValueEnum};
use emmy::data;
use emmy::{Error, Result};
use plan::{Choice, Plan};
use run::{Run, Runs};
use serde_json::{Value, json};
use tables::Way;

/// Reproduce the graph networks of "ContraNorm": any cell, Table 3, Figure 1
#[derive(Args, Debug)]
#[command(after_help = SETTINGS)]
pub struct Cli {
    /// Table to run
    #[arg(long = "table", value_name = "3", value_parser = clap::value_parser!(u32).range(3..=3))]
    tables: Vec<u32>,

    /// Figure to draw
    #[arg(long = "figure", value_name = "NAME")]
    figures: Vec<Drawn>,

    /// Only these data sets
    #[arg(long = "dataset", value_name = "NAME", value_parser = dataset)]
    datasets: Vec<String>,

    /// Only these norms
    #[arg(long = "norm", value_name = "NAME")]
    norms: Vec<Method>,

    /// Only these numbers of layers
    #[arg(long = "layers", value_name = "L")]
    layers: Vec<usize>,

    /// The nodes that are tested
    #[arg(long, default_value = "published")]
    split: Split,

    /// Use features as they are in the files, instead of rows that sum to one
    #[arg(long)]
    raw_features: bool,

    /// Scale s of PairNorm and ContraNorm, λ of DGN; if given several times, the best is chosen [default: the
    /// best of 0.2, 0.5, 0.8, 1; DGN 0.001 below six layers, else 0.03]
    #[arg(long = "s", value_name = "S", allow_negative_numbers = true)]
    scales: Vec<f64>,

    /// Number of epochs
    #[arg(long, value_name = "N")]
    epochs: Option<usize>,

    /// Width of a hidden layer
    #[arg(long, value_name = "WIDTH")]
    hidden: Option<usize>,

    /// Dropout of the input of every layer
    #[arg(long, value_name = "P", value_parser = probability)]
    dropout: Option<f64>,

    /// Learning rate
    #[arg(long, value_name = "RATE")]
    lr: Option<f64>,

    /// Weight decay
    #[arg(long, value_name = "LAMBDA")]
    weight_decay: Option<f64>,

    /// Type of the numbers
    #[arg(long)]
    float: Option<Float>,

    #[command(flatten)]
    options: Options,
}

/// The figures that need no training.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
enum Drawn {
    /// Figure 1: propagation collapses points of the plane, ContraNorm keeps them apart
    #[value(name = "1")]
    Plane,
    /// Rank by layer of attention alone, with residuals, feed-forward layers, norms
    Circle,
}

const SETTINGS: &str = "Settings, unless given, are those of the published code: Adam, learning rate 0.005, weight decay 5e-4, 200
epochs, width 32, dropout 0.6 of the input of every layer, D^-1(A + I), rows of features that sum to 1, five
runs. s is chosen among 0.2, 0.5, 0.8 and 1.

contra is the layer of the published code, contra-paper that of Eq. (9). --split published tests all nodes
outside the training and validation sets, as the published code does (the paper says 60/20/20); --split public
tests the 1000 nodes of the public test set. Chameleon and Squirrel: split file 0.

In --json, test_acc_mean is the accuracy at the best validation epoch with s chosen by the validation nodes;
published_test_acc_mean is the accuracy after the last epoch with s chosen by the test nodes.

A data set named by --dataset must be found. Other data sets that are not found are left out, with a line on
standard error.

Exit code: 0; 1 if an error stops the program, no data set is found, all runs diverge, or a figure cannot be
written (results and tables come before figures); 2 for a wrong argument.";

fn dataset(text: &str) -> Result<String, String> {
    match data::find(text) {
        Ok(set) => Ok(set.name.to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

impl Cli {
    /// Whether the arguments name no table, figure or cell. Then the demonstration is run.
    fn is_demonstration(&self) -> bool {
        let parts = self.tables.is_empty() && self.datasets.is_empty() && self.norms.is_empty();
        parts && self.layers.is_empty()
    }

    fn choice(&self) -> Result<Choice> {
        for &scale in &self.scales {
            if !(scale.is_finite() && scale > 0.0) {
                let rule = "a finite number above 0";
                return Err(Error::invalid("--s", rule, scale.to_string()));
            }
        }
        if self.epochs == Some(0) {
            return Err(Error::invalid("--epochs", "at least 1", "0"));
        }
        let demonstration = self.is_demonstration();
        Ok(Choice {
            seeds: self.options.seeds(if demonstration { 1 } else { 5 }),
            datasets: self.datasets.clone(),
            methods: self.norms.clone(),
            layers: self.layers.clone(),
            split: self.split,
            raw_features: self.raw_features,
            scales: self.scales.clone(),
            epochs: self.epochs,
            hidden: self.hidden,
            dropout: self.dropout,
            lr: self.lr,
            weight_decay: self.weight_decay,
            float: self.float,
        })
    }

    /// The options that choose cells.
    fn filters(&self) -> Vec<Filter<'_, Cell>> {
        Filter::each("--dataset", &self.datasets, |c: &Cell, x| c.dataset == *x)
            .chain(Filter::each("--norm", &self.norms, |c: &Cell, &x| {
                c.method == x
            }))
            .chain(Filter::each("--layers", &self.layers, |c: &Cell, &x| {
                c.layers == x
            }))
            .chain(Filter::used(
                "--s",
                self.scales.first(),
                "a norm with a scale in a chosen cell",
                |c: &Cell| c.scale != 0.0,
            ))
            .collect()
    }

    fn parts(&self, choice: &Choice) -> Vec<Part<Cell>> {
        if self.is_demonstration() {
            return vec![Part::new(Shown::Demonstration, choice.demonstration())];
        }
        let tables = self.tables.iter().map(|_| choice.table_3());
        Part::asked_for(tables, std::iter::empty(), || choice.named())
    }
}

/// The plan of the paper, with the settings of the command line.
struct Oversmoothing {
    settings: String,
}

impl Paper for Oversmoothing {
    type Cell = Cell;
    const NAME: &'static str = "oversmoothing";
    const DEMONSTRATION: (&'static str, u32) = (
        "Eight layers of graph convolution with three norms and without",
        15,
    );

    fn table(&self, plan: &Plan, runs: &Runs) -> String {
        tables::render(plan, &self.settings, runs)
    }

    /// The ranks by layer, beside every table.
    fn figure(&self, _: Shown, plan: &Plan, runs: &Runs) -> Option<Figure> {
        figures::ranks(plan, runs)
    }

    fn json(&self, cell: &Cell, runs: &[&Run]) -> Value {
        let of = |way: Way| {
            let chosen = way.chosen(runs);
            let known = chosen.iter().filter_map(|run| way.accuracy(run));
            let known: Vec<f64> = known.collect();
            let (mean, std) = mean_std(&known);
            (chosen, mean, std)
        };
        let (chosen, mean, std) = of(Way::Validation);
        let (published, published_mean, published_std) = of(Way::Published);
        let ranks = chosen
            .iter()
            .filter_map(|run| run.outcome.erank.last().copied().flatten());
        let ranks: Vec<f64> = ranks.map(f64::from).collect();
        let scale = |runs: &[&Run]| runs.first().map(|run| run.cell.scale);
        json!({
            "dataset": cell.dataset,
            "norm": cell.method,
            "layers": cell.layers,
            "split": cell.split,
            "raw_features": cell.raw_features,
            "s": scale(&chosen),
            "seeds": chosen.len(),
            "test_acc_mean": mean,
            "test_acc_std": std,
            "erank_last": mean_std(&ranks).0,
            "published_s": scale(&published),
            "published_test_acc_mean": published_mean,
            "published_test_acc_std": published_std,
            "constant": chosen.iter().filter(|run| run.outcome.constant.is_some()).count(),
            "stopped": chosen.iter().filter(|run| run.outcome.stopped.is_some()).count(),
        })
    }
}

/// Writes a figure that needs no runs, and prints its paths.
fn write(figure: Option<Figure>, options: &Options) -> Result<()> {
    let figure = figure.expect("a figure with panels");
    for path in figure.write(&options.out)? {
        let text = format!("figure: {}", path.display());
        match options.json {
            true => note(text),
            false => say(text)?,
        }
    }
    Ok(())
}

/// Runs what the arguments ask for.
pub fn run(cli: &Cli) -> Result<()> {
    let choice = cli.choice()?;
    for figure in &cli.figures {
        match figure {
            Drawn::Plane => plane::draw(&cli.options)?,
            Drawn::Circle => circle::draw(&cli.options)?,
        }
    }
    if !cli.figures.is_empty() && cli.is_demonstration() {
        return Ok(());
    }
    let parts = paper::chosen(cli.parts(&choice), cli.filters(), &cli.options)?;
    let settings = match choice.seeds.len() {
        1 => ", 1 seed".to_owned(),
        n => format!(", {n} seeds"),
    };
    paper::reproduce(
        &Oversmoothing { settings },
        &parts,
        choice.datasets,
        &cli.options,
    )
}
