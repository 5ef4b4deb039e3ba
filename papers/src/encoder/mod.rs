//! "ContraNorm: A Contrastive Learning Perspective on Oversmoothing and Beyond" (Guo, Wang, Du and Wang, ICLR
//! 2023) on sentences: encoders like BERT with ContraNorm before the residual, after it, and without.
//!
//! Without arguments, `cargo run --release -p papers -- encoder` trains 24 blocks to tell which sentences
//! of a small grammar are well-formed, with ContraNorm and without, and draws how far their tokens have
//! collapsed in each layer. `--table 6` and `--figure 2` or `3` are those of the paper, at a size that
//! trains on a CPU; `--depth 12 --norm contra --s 0.2 --seeds 3 --json` names a cell.

mod cell;
mod plan;
mod pretrained;
mod sentences;
mod words;

use crate::support::figures::Figure;
use crate::support::paper::{self, Filter, Finished, Options, Paper, Part, Runs, Shown};
use crate::support::say;
use crate::support::transformers::{Arguments, show};
use cell::Cell;
use clap::Args;
use emmy::Result;
use plan::{Choice, Plan};
use pretrained::Pretrained;
use sentences::Task;
use serde_json::{Value, json};
use std::path::PathBuf;

/// ContraNorm in encoders like BERT: any cell, Table 6, Figures 2 and 3
#[derive(Args, Debug)]
#[command(after_help = SETTINGS)]
pub struct Cli {
    /// Table to run: 6
    #[arg(long = "table", value_name = "N", value_parser = clap::value_parser!(u32).range(6..=6))]
    tables: Vec<u32>,

    /// Figure to run: 2 or 3
    #[arg(long = "figure", value_name = "N", value_parser = clap::value_parser!(u32).range(2..=3))]
    figures: Vec<u32>,

    /// Only these tasks
    #[arg(long = "task", alias = "dataset", value_name = "NAME")]
    tasks: Vec<Task>,

    /// Number of training sentences
    #[arg(long, value_name = "N", default_value_t = 8000, value_parser = clap::value_parser!(u32).range(2..=100_000))]
    examples: u32,

    /// Print N sentences of each task with their classes, and end
    #[arg(long, value_name = "N")]
    print: Option<u16>,

    /// Start from these weights: safetensors of an encoder with --depth, --width and --heads, as emmy or the
    /// library transformers writes them
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,

    #[command(flatten)]
    arguments: Arguments,

    #[command(flatten)]
    options: Options,
}

const SETTINGS: &str = "\
Settings, unless given: generated sentences of at most 32 symbols (8000 train, 1000 others test), tokens of
width 32, 4 heads, 128 hidden neurons with GELU, post-norm; weights start with the gain of BERT-base, N(0,
0.02² · 768 / width); no dropout; AdamW, weight decay 0.01 of matrices, clipping at 1; 400 steps of 32
sentences, a rate that rises to 0.001 in the first tenth and falls as a cosine to 0. ContraNorm (--norm
contra) belongs to the self-attention of each block, with s = 0.2; its place is after-residual, in Table 6 and
the figures also before-residual.

A cell runs once, unless --seeds says otherwise. The score of acceptability is Matthews' correlation, like
that of CoLA; the score of entailment is the accuracy. Both are computed after the last step. Figures are of
entailment, unless --task says otherwise.

Keys of --json: task, depth, norm, place, s, seeds, steps, parameters, test_acc_mean, test_acc_std,
test_mcc_mean, final_loss_mean, erank_last, pretrained, stopped; by layer erank, feature_similarity,
variance_share (entry 0 is before the first block) and attention_similarity (one per block), with the ending
_start before training; part, row, column, paper.

Exit code: 0; 1 if an error stops the program, all runs diverge, or a figure cannot be written; 2 for a
wrong argument.";

impl Cli {
    fn is_demonstration(&self) -> bool {
        let parts = self.tables.is_empty() && self.figures.is_empty();
        parts && self.arguments.names_none()
    }

    fn parts(&self, choice: &Choice) -> Vec<Part<Cell>> {
        if self.is_demonstration() {
            return vec![Part::new(Shown::Demonstration, choice.demonstration())];
        }
        let tables = self.tables.iter().map(|_| choice.table());
        let figures = self.figures.iter().map(|&n| (n, choice.figure(n)));
        Part::asked_for(tables, figures, || choice.cells())
    }

    fn filters(&self) -> Vec<Filter<'_, Cell>> {
        self.arguments.filters(|cell: &Cell| &cell.recipe)
    }
}

/// The plan of the paper, with the settings of the command line.
struct Encoder {
    settings: String,
}

/// The score of a task, in percent.
fn score(run: &Finished<Cell>) -> Option<f64> {
    let score = match run.cell.task {
        Task::Acceptability => run.outcome.test_mcc,
        Task::Entailment => run.outcome.test_acc,
    };
    score.map(|x| 100.0 * x)
}

impl Paper for Encoder {
    type Cell = Cell;
    const NAME: &'static str = "encoder";
    const DEMONSTRATION: (&'static str, u32) = (
        "Two encoders of 24 blocks, without ContraNorm and with it, learn which sentences of a small grammar are well-formed",
        35,
    );

    fn table(&self, plan: &Plan, runs: &Runs<Cell>) -> String {
        show::tables(plan, &self.settings, runs, score)
    }

    fn figure(&self, shown: Shown, plan: &Plan, runs: &Runs<Cell>) -> Option<Figure> {
        let title = "Encoders; dashed: before training";
        match shown {
            Shown::Table => None,
            Shown::Figure(3) => show::by_depth("encoder-figure-3", title, plan, runs, score),
            Shown::Figure(_) => show::metrics("encoder-figure-2", title, plan, runs),
            Shown::Demonstration => show::metrics("encoder", title, plan, runs),
        }
    }

    fn json(&self, cell: &Cell, runs: &[&Finished<Cell>]) -> Value {
        let mut object = show::object(cell, runs);
        object["task"] = json!(cell.task);
        object["pretrained"] = json!(cell.weights.is_some());
        object
    }
}

/// Prints sentences.
fn print(tasks: &[Task], count: usize) -> Result<()> {
    for task in tasks {
        let [_, test] = sentences::sentences(*task, [0, count], cell::SEED);
        for sentence in test {
            say(format_args!("{} {}", sentence.class, sentence.text()))?;
        }
    }
    Ok(())
}

/// Runs what the arguments ask for.
pub fn run(cli: &Cli) -> Result<()> {
    let weights = cli.weights.as_deref().map(Pretrained::new).transpose()?;
    let choice = Choice {
        seeds: cli.options.seeds(1),
        tasks: cli.tasks.clone(),
        examples: cli.examples as usize,
        weights,
        arguments: cli.arguments.clone(),
    };
    if let Some(count) = cli.print {
        return print(&choice.tasks(), usize::from(count));
    }
    let parts = paper::chosen(cli.parts(&choice), cli.filters(), &cli.options)?;
    let count = match choice.seeds.len() {
        1 => ", 1 seed".to_owned(),
        n => format!(", {n} seeds"),
    };
    let settings = count + &choice.arguments.told();
    paper::reproduce(&Encoder { settings }, &parts, Vec::new(), &cli.options)
}
