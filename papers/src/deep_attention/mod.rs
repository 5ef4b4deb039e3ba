//! "Lipschitz Normalization for Self-Attention Layers with Application to Graph Neural Networks" (Dasoulas,
//! Scaman and Virmaux, ICML 2021), reproduced.
//!
//! Without arguments, `cargo run --release -p papers -- deep_attention` trains twenty layers of graph
//! attention on a generated data set, with LipschitzNorm and without, and draws the gradients of every
//! layer. `--table` and `--figure` run the paper's tables and figures; `--dataset cora --model gat --norm
//! lipschitz --layers 15` names a cell.

mod cell;
mod figures;
mod growth;
mod net;
pub(crate) mod numbers;
pub(crate) mod plan;
pub(crate) mod run;
pub(crate) mod tables;
mod trees;

use crate::support::args::{Float, probability};
use crate::support::figures::Figure;
use crate::support::paper::{self, Filter, Options, Paper, Part, Shown};
use crate::support::report::mean_std;
use cell::{Cell, Model, Normaliser};
use clap::{Args, ValueEnum};
use emmy::data;
use emmy::{Error, Result};
use net::Place;
use plan::{Choice, Plan, Settings};
use run::{Run, Runs};
use serde_json::{Value, json};

/// Reproduce "Lipschitz Normalization for Self-Attention Layers": any cell, table or figure
#[derive(Args, Debug)]
#[command(after_help = SETTINGS)]
pub struct Cli {
    /// Table to run: 1 to 3
    #[arg(long = "table", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=3))]
    tables: Vec<u32>,

    /// Figure to run: 2 to 6
    #[arg(long = "figure", value_name = "N", value_parser = clap::value_parser!(u32).range(2..=6))]
    figures: Vec<u32>,

    /// Only these data sets; trees-4 are trees of depth 4
    #[arg(long = "dataset", value_name = "NAME", value_parser = dataset)]
    datasets: Vec<String>,

    /// Only these models
    #[arg(long = "model", value_name = "NAME")]
    models: Vec<Model>,

    /// Only these normalisers
    #[arg(long = "norm", value_name = "NAME")]
    norms: Vec<Normaliser>,

    /// Only these numbers of layers; tables that choose the depth choose among these
    #[arg(long = "layers", value_name = "L")]
    layers: Vec<usize>,

    /// Only these percentages of missing features
    #[arg(long = "missing", value_name = "PERCENT", value_parser = percent)]
    missing: Vec<f64>,

    /// Residuals in the cells that the arguments name; `--residual=PLACE` adds them at another place than
    /// behind the activation
    #[arg(long, value_name = "PLACE", num_args = 0..=1, require_equals = true, default_missing_value = "last",
        conflicts_with_all = ["tables", "figures"])]
    residual: Option<Place>,

    /// Train nothing; print by how much the layers of the cells that the arguments name stretch features and
    /// gradients at the start, measured and predicted
    #[arg(long, conflicts_with_all = ["tables", "figures", "show", "shard", "results", "jobs", "threads",
        "epochs", "lr", "rate", "weight_decay"])]
    growth: bool,

    /// Maximum number of epochs
    #[arg(long, value_name = "N")]
    epochs: Option<usize>,

    /// Learning rate
    #[arg(long, value_name = "RATE")]
    lr: Option<f64>,

    /// Schedule of the learning rate: constant, or falling when the validation loss has stopped falling
    /// [default: constant]
    #[arg(long)]
    rate: Option<Rate>,

    /// Heads of attention
    #[arg(long, value_name = "H")]
    heads: Option<usize>,

    /// Width of a layer; with attention, the width of one head
    #[arg(long, value_name = "WIDTH")]
    hidden: Option<usize>,

    /// Dropout of the input of every layer
    #[arg(long, value_name = "P", value_parser = probability)]
    dropout: Option<f64>,

    /// Dropout of coefficients of attention
    #[arg(long, value_name = "P", value_parser = probability)]
    attention_dropout: Option<f64>,

    /// Weight decay
    #[arg(long, value_name = "LAMBDA")]
    weight_decay: Option<f64>,

    /// Features whose rows sum to 1, in place of features as published
    #[arg(long)]
    normalized_features: bool,

    /// Start linear maps as the published code does, W and b uniform in ±1/√inputs: those before and after
    /// the layers, and those of a graph transformer
    #[arg(long)]
    published_start: bool,

    /// Trees per depth
    #[arg(long, value_name = "N")]
    trees: Option<usize>,

    /// Type of the numbers
    #[arg(long)]
    float: Option<Float>,

    #[command(flatten)]
    options: Options,
}

/// The schedule of the learning rate.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
enum Rate {
    Constant,
    Falling,
}

const SETTINGS: &str = "Settings, unless given: Adam, constant learning rate 0.005, weight decay 5e-4, 200 epochs, one head of width
64, dropout 0.6 (gt: 0.5) of the input of every layer and 0.3 of attention, features as published. Figure 2:
100 epochs. Trees: 500 per depth, width 32, neither dropout nor weight decay. --rate falling is the rule of
the published code: the rate is divided by ten when the validation loss has not fallen for ten epochs.

A cell runs five times, unless --seeds says otherwise; the
demonstration and Figures 2 and 3 run it once.

Accuracies are those of the best validation epoch; for trees, the largest training accuracy. LipschitzNorm
divides scores, which only gat and gt have. In ggnn, whose layers are steps of one unit, a norm comes after
the last step.

A data set named by --dataset must be found. Other data sets that are not found are left out, with a line on
standard error.

Exit code: 0; 1 if an error stops the program, no data set is found, all runs diverge, or a figure cannot be
written (results and tables come before figures); 2 for a wrong argument.";

fn dataset(text: &str) -> Result<String, String> {
    match trees::depth(text) {
        Some(_) => Ok(text.to_owned()),
        None if text.starts_with("trees") => {
            Err("trees have depths trees-2 to trees-10".to_owned())
        }
        None => match data::find(text) {
            Ok(set) => Ok(set.name.to_owned()),
            Err(error) => Err(error.to_string()),
        },
    }
}

fn percent(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|e| format!("{e}"))?;
    match (0.0..=100.0).contains(&value) {
        // −0 is 0.
        true => Ok(value.abs()),
        false => Err("not a percentage, 0 to 100".to_owned()),
    }
}

impl Cli {
    /// Whether the arguments name no table, figure or cell. Then the demonstration is run.
    fn is_demonstration(&self) -> bool {
        let parts = self.tables.is_empty() && self.figures.is_empty();
        let sets = self.datasets.is_empty() && self.models.is_empty() && self.norms.is_empty();
        let cells = self.layers.is_empty() && self.missing.is_empty() && self.residual.is_none();
        parts && sets && cells && !self.growth
    }

    /// The cells that the arguments choose.
    fn choice(&self) -> Result<Choice> {
        for (what, value) in [
            ("--epochs", self.epochs),
            ("--heads", self.heads),
            ("--hidden", self.hidden),
        ] {
            if value == Some(0) {
                return Err(Error::invalid(what, "at least 1", "0"));
            }
        }
        Ok(Choice {
            seeds: self
                .options
                .seeds(if self.is_demonstration() { 1 } else { 5 }),
            datasets: self.datasets.clone(),
            models: self.models.clone(),
            norms: self.norms.clone(),
            layers: self.layers.clone(),
            missing: self.missing.clone(),
            residual: self.residual,
            settings: Settings {
                epochs: self.epochs,
                lr: self.lr,
                heads: self.heads,
                width: self.hidden,
                dropout: self.dropout,
                attention_dropout: self.attention_dropout,
                weight_decay: self.weight_decay,
                plateau: self.rate.map(|rate| rate == Rate::Falling),
                normalized: self.normalized_features,
                published_start: self.published_start,
                trees: self.trees,
                float: self.float,
            },
        })
    }

    /// The options that choose cells.
    fn filters(&self) -> Vec<Filter<'_, Cell>> {
        Filter::each("--dataset", &self.datasets, |c: &Cell, x| c.dataset == *x)
            .chain(Filter::each("--model", &self.models, |c: &Cell, &x| {
                c.model == x
            }))
            .chain(Filter::each("--norm", &self.norms, |c: &Cell, &x| {
                c.norm == x
            }))
            .chain(Filter::each("--layers", &self.layers, |c: &Cell, &x| {
                c.layers == x
            }))
            .chain(Filter::each("--missing", &self.missing, |c: &Cell, &x| {
                c.missing == x
            }))
            .chain(self.used())
            .collect()
    }

    /// The options that change only some cells.
    fn used(&self) -> impl Iterator<Item = Filter<'_, Cell>> {
        let attends = |cell: &Cell| cell.model.attends();
        let has_trees = |cell: &Cell| trees::depth(&cell.dataset).is_some();
        let with_attention = "a model with attention, gat or gt, in a chosen cell";
        let normalized = self.normalized_features.then_some("given");
        [
            Filter::used("--heads", self.heads, with_attention, attends),
            Filter::used(
                "--attention-dropout",
                self.attention_dropout,
                with_attention,
                attends,
            ),
            Filter::used("--trees", self.trees, "trees in a chosen cell", has_trees),
            Filter::used(
                "--normalized-features",
                normalized,
                "a data set with features in a chosen cell",
                move |cell| !has_trees(cell),
            ),
        ]
        .into_iter()
        .flatten()
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
struct DeepAttention {
    settings: String,
}

impl Paper for DeepAttention {
    type Cell = Cell;
    const NAME: &'static str = "deep_attention";
    const DEMONSTRATION: (&'static str, u32) = (
        "Twenty layers of graph attention with LipschitzNorm and without",
        8,
    );

    fn table(&self, plan: &Plan, runs: &Runs) -> String {
        tables::render(plan, &self.settings, runs)
    }

    fn figure(&self, shown: Shown, plan: &Plan, runs: &Runs) -> Option<Figure> {
        match shown {
            Shown::Table => None,
            Shown::Figure(number) => figures::figure(number, plan, runs),
            Shown::Demonstration => figures::gradients("deep-attention", plan, runs),
        }
    }

    /// If there are several depths, the one chosen by the validation nodes.
    fn json(&self, cell: &Cell, runs: &[&Run]) -> Value {
        let chosen = tables::of_chosen_depth(runs);
        let layers = chosen.first().map_or(cell.layers, |run| run.cell.layers);
        let of = |value: &dyn Fn(&Run) -> Option<f64>| {
            let known: Vec<f64> = chosen.iter().filter_map(|run| value(run)).collect();
            mean_std(&known)
        };
        let largest = |value: &dyn Fn(&Run) -> Option<f64>| {
            chosen.iter().filter_map(|run| value(run)).reduce(f64::max)
        };
        let (test_acc_mean, test_acc_std) = of(&|run| run.outcome.test_acc);
        let stopped = chosen.iter().filter(|run| run.outcome.stopped.is_some());
        json!({
            "dataset": cell.dataset,
            "model": cell.model,
            "norm": cell.norm,
            "layers": layers,
            "residual": cell.residual,
            "place": cell.place,
            "missing": cell.missing,
            "seeds": chosen.len(),
            "test_acc_mean": test_acc_mean,
            "test_acc_std": test_acc_std,
            "last_test_acc_mean": of(&|run| run.outcome.last_test_acc).0,
            "train_acc_mean": of(&|run| run.outcome.train_acc).0,
            "max_gradient_norm": largest(&|run| run.outcome.max_gradient_norm),
            "max_layer_gradient_norm": largest(&|run| run.outcome.max_layer_gradient_norm),
            "stopped": stopped.count(),
        })
    }
}

/// Runs what the arguments ask for.
pub fn run(cli: &Cli) -> Result<()> {
    let choice = cli.choice()?;
    let parts = paper::chosen(cli.parts(&choice), cli.filters(), &cli.options)?;
    if cli.growth {
        return parts
            .iter()
            .try_for_each(|part| growth::run(&part.plan, &cli.options));
    }
    let count = match choice.seeds.len() {
        1 => ", 1 seed".to_owned(),
        n => format!(", {n} seeds"),
    };
    let settings = count + &choice.settings.told();
    paper::reproduce(
        &DeepAttention { settings },
        &parts,
        choice.datasets,
        &cli.options,
    )
}
