//! "The Lipschitz Constant of Self-Attention" (Kim, Papamakarios and Mnih, ICML 2021), Table 1 and Figure 4:
//! how well deep transformers with three kinds of attention train with a fixed learning rate, at sizes that
//! train in minutes. The example `lipschitz` has Figures 2, 3 and 5.
//!
//! Without arguments, `cargo run --release -p papers -- self_attention` trains two depths on Alice's
//! Adventures in Wonderland; `--table 1` and `--figure 4` run the paper's depths on Penn Treebank.

mod cell;
mod frequencies;
pub(crate) mod numbers;
mod run;
mod shown;

pub use frequencies::frequency_losses;

use crate::support::figures::Figure;
use crate::support::paper::{self, Entry, Filter, Options, Paper, Part, Plan, Runs, Shown};
use crate::support::report::mean_std;
use cell::{Attention, Cell};
use clap::Args;
use emmy::{Error, Result};
use serde_json::{Value, json};

/// Reproduce Table 1 and Figure 4 of "The Lipschitz Constant of Self-Attention" at sizes that train in
/// minutes
#[derive(Args, Debug)]
#[command(after_help = SETTINGS)]
pub struct Cli {
    /// Table to run: 1
    #[arg(long = "table", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1))]
    tables: Vec<u32>,

    /// Figure to run: 4
    #[arg(long = "figure", value_name = "N", value_parser = clap::value_parser!(u32).range(4..=4))]
    figures: Vec<u32>,

    /// Only these kinds of attention
    #[arg(long = "model", value_name = "NAME")]
    models: Vec<Attention>,

    /// Only these numbers of layers; numbers that are not in the table are added [default: 2 4 6 8 12; without
    /// --table and --figure 2 8]
    #[arg(long = "layers", value_name = "L", value_parser = clap::value_parser!(u32).range(1..=1000))]
    layers: Vec<u32>,

    /// Text [default: ptb for the table and the figure, else alice]
    #[arg(long, value_name = "NAME")]
    dataset: Option<cell::Dataset>,

    /// Width of the layers, a multiple of the 4 heads [default: 64; without --table and --figure 32]
    #[arg(long, value_name = "WIDTH", value_parser = clap::value_parser!(u32).range(1..=4096))]
    width: Option<u32>,

    /// Steps of a training [default: 600; without --table and --figure 400]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    steps: Option<u32>,

    /// Learning rate, the same at every step [default: 1e-3; without --table and --figure 2e-3]
    #[arg(long, value_name = "RATE")]
    lr: Option<f64>,

    /// Factor of W_O of each attention at the start; 0 starts without attention [default: 1]
    #[arg(long, value_name = "FACTOR")]
    branch: Option<f64>,

    /// Factor of the output of each attention, in training and tests; 0 is a network without attention
    /// [default: 1]
    #[arg(long, value_name = "FACTOR")]
    factor: Option<f64>,

    #[command(flatten)]
    options: Options,
}

const SETTINGS: &str = "Settings: post-norm blocks, GPT-2's first weights, width 64, 4 heads, 64 characters of context, 12 windows per
step, AdamW (beta2 0.99, weight decay 0.1 of matrices), gradients clipped at a norm of 1, no warm-up. Every 50
steps there is an evaluation on 120 windows of the validation text. The test loss is over 1000 windows (after
a short training, over ten windows per step), spread evenly, with the model of the best evaluation. A cell
runs once, unless --seeds says otherwise.

The paper's models have 2 to 18 layers; it prints losses of about 1.0, without a unit.

Exit code: 0; 1 if an error stops the program, no data set is found, all runs diverge, or a figure cannot be
written; 2 for a wrong argument.";

/// The depths here; the paper has 2, 4, .., 18.
const DEPTHS: [u32; 5] = [2, 4, 6, 8, 12];

impl Cli {
    fn is_demonstration(&self) -> bool {
        self.tables.is_empty() && self.figures.is_empty()
    }

    fn check(&self) -> Result<()> {
        if let Some(lr) = self.lr.filter(|lr| !(lr.is_finite() && *lr > 0.0)) {
            return Err(Error::invalid("--lr", "a number above 0", lr.to_string()));
        }
        for (option, value) in [("--branch", self.branch), ("--factor", self.factor)] {
            if let Some(x) = value.filter(|x| !(x.is_finite() && *x >= 0.0)) {
                let rule = "a number that is at least 0";
                return Err(Error::invalid(option, rule, x.to_string()));
            }
        }
        if let Some(steps) = self
            .steps
            .filter(|n| *n > cell::INTERVAL && n % cell::INTERVAL != 0)
        {
            let rule = format!("at most {0}, or a multiple of {0}", cell::INTERVAL);
            return Err(Error::invalid("--steps", rule, steps.to_string()));
        }
        match self.width.filter(|width| width % cell::HEADS as u32 != 0) {
            None => Ok(()),
            Some(width) => {
                let rule = format!("a multiple of the {} heads", cell::HEADS);
                Err(Error::invalid("--width", rule, width.to_string()))
            }
        }
    }

    /// The kinds of attention by depth.
    fn plan(&self, title: &str) -> Plan<Cell> {
        let quick = self.is_demonstration();
        let depths: &[u32] = match (&self.layers[..], quick) {
            ([], true) => &[2, 8],
            ([], false) => &DEPTHS,
            (given, _) => given,
        };
        let text = if quick {
            cell::Dataset::Alice
        } else {
            cell::Dataset::Ptb
        };
        let mut entries = Vec::new();
        for &layers in depths {
            let kinds = match &self.models[..] {
                [] => &Attention::ALL,
                named => named,
            };
            for &attention in kinds {
                let cell = |seed| Cell {
                    dataset: self.dataset.unwrap_or(text),
                    attention,
                    layers,
                    width: self.width.unwrap_or(if quick { 32 } else { 64 }),
                    steps: self.steps.unwrap_or(if quick { 400 } else { 600 }),
                    lr: self.lr.unwrap_or(if quick { 2e-3 } else { 1e-3 }),
                    branch: self.branch.unwrap_or(1.0),
                    factor: self.factor.unwrap_or(1.0),
                    seed,
                };
                // The paper does not scale its attention.
                let as_there = !quick && self.branch.is_none() && self.factor.is_none();
                let paper = as_there.then(|| numbers::table_1(attention, layers));
                entries.push(Entry {
                    row: format!("L={layers}"),
                    column: attention.printed().to_owned(),
                    paper: paper.flatten().map(str::to_owned),
                    cells: self.options.seeds(1).into_iter().map(cell).collect(),
                });
            }
        }
        Plan {
            title: title.to_owned(),
            entries,
        }
    }

    fn parts(&self) -> Vec<Part<Cell>> {
        if self.is_demonstration() {
            let plan = self.plan("Test loss per character (ours in nats)");
            return vec![Part::new(Shown::Demonstration, plan)];
        }
        let tables = self
            .tables
            .iter()
            .map(|_| self.plan("Table 1: test loss per character (ours in nats)"));
        let figures = self
            .figures
            .iter()
            .map(|&n| (n, self.plan("Figure 4: training by depth")));
        Part::asked_for(tables, figures, || {
            unreachable!("a table or a figure was asked for")
        })
    }
}

/// The plan of the paper.
struct SelfAttention;

impl Paper for SelfAttention {
    type Cell = Cell;
    const NAME: &'static str = "self_attention";
    const DEMONSTRATION: (&'static str, u32) = (
        "Transformers of two and eight layers with three kinds of attention and one learning rate",
        30,
    );

    fn table(&self, plan: &Plan<Cell>, runs: &Runs<Cell>) -> String {
        shown::tables(plan, runs)
    }

    fn figure(&self, shown: Shown, plan: &Plan<Cell>, runs: &Runs<Cell>) -> Option<Figure> {
        (shown != Shown::Table)
            .then(|| shown::figure(shown, plan, runs))
            .flatten()
    }

    fn json(&self, cell: &Cell, runs: &[&run::Run]) -> Value {
        let losses: Vec<f64> = runs
            .iter()
            .filter_map(|run| run.outcome.test_loss)
            .collect();
        let (mean, std) = mean_std(&losses);
        json!({
            "dataset": cell.dataset,
            "model": cell.attention,
            "layers": cell.layers,
            "width": cell.width,
            "steps": cell.steps,
            "lr": cell.lr,
            "branch": cell.branch,
            "factor": cell.factor,
            "test_loss_mean": mean,
            "test_loss_std": std,
            "stopped": runs.iter().filter(|run| run.outcome.stopped.is_some()).count(),
        })
    }
}

/// Runs what the arguments ask for.
pub fn run(cli: &Cli) -> Result<()> {
    cli.check()?;
    let mut filters = Vec::new();
    for &model in &cli.models {
        let name = model.typed();
        filters.push(Filter::new("--model", name, move |c: &Cell| {
            c.attention == model
        }));
    }
    let parts = paper::chosen(cli.parts(), filters, &cli.options)?;
    let named = cli.dataset.iter().map(|set| set.typed()).collect();
    paper::reproduce(&SelfAttention, &parts, named, &cli.options)
}
