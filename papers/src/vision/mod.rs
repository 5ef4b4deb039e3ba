//! "ContraNorm: A Contrastive Learning Perspective on Oversmoothing and Beyond" (Guo, Wang, Du and Wang, ICLR
//! 2023) on images: vision transformers with ContraNorm and without.
//!
//! Without arguments, `cargo run --release -p papers -- vision` trains eight blocks on generated images and
//! draws how far their tokens have collapsed in each layer. `--table 2` and `--figure 2` or `3` are those of
//! the paper, at a size that trains on a CPU; `--depth 12 --norm contra --s 0.2 --seeds 3 --json` names a
//! cell.

mod cell;
mod plan;
pub mod strokes;

use crate::support::figures::Figure;
use crate::support::note;
use crate::support::paper::{self, Filter, Finished, Options, Paper, Part, Runs, Shown};
use crate::support::transformers::{Arguments, show};
use cell::Cell;
use clap::Args;
use emmy::data::images;
use emmy::{Error, Result};
use plan::{Choice, Plan};
use serde_json::{Value, json};

/// ContraNorm in vision transformers: any cell, Table 2, Figures 2 and 3
#[derive(Args, Debug)]
#[command(after_help = SETTINGS)]
pub struct Cli {
    /// Table to run: 2
    #[arg(long = "table", value_name = "N", value_parser = clap::value_parser!(u32).range(2..=2))]
    tables: Vec<u32>,

    /// Figure to run: 2 or 3
    #[arg(long = "figure", value_name = "N", value_parser = clap::value_parser!(u32).range(2..=3))]
    figures: Vec<u32>,

    /// Images: strokes are generated [default: mnist; strokes if it is not found]
    #[arg(long = "dataset", value_name = "NAME", value_parser = ["mnist", "fashion-mnist", "strokes"])]
    datasets: Vec<String>,

    /// Side of a patch in pixels
    #[arg(long, value_name = "PIXELS", default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..=28))]
    patch: u16,

    #[command(flatten)]
    arguments: Arguments,

    #[command(flatten)]
    options: Options,
}

const SETTINGS: &str = "\
Settings, unless given: images of 28 × 28 pixels in patches of 7 × 7 and a class token, 17 tokens of width 32,
4 heads, 128 hidden neurons with GELU, pre-norm; weights start with the gain of DeiT-tiny, N(0, 0.02² · 192 /
width); no dropout; AdamW, weight decay 0.05 of matrices, clipping at 1; 400 steps of 32 images, a rate that
rises to 0.001 in the first tenth and falls as a cosine to 0. ContraNorm (--norm contra) is in front of every
norm with s = 0.2, in the table and the figures also after self-attention and its residual (--place
after-residual). The demonstration takes 600 steps.

A cell runs once, unless --seeds says otherwise. Accuracies are those after the last step.

Keys of --json: dataset, patch, depth, norm, place, s, seeds, steps, parameters, test_acc_mean, test_acc_std,
test_mcc_mean, final_loss_mean, erank_last, stopped; by layer erank, feature_similarity, variance_share (entry
0 is before the first block) and attention_similarity (one per block), with the ending _start before training;
part, row, column, paper.

A data set named by --dataset must be found. If only its 10 000 test images are there, a tenth of them are
used for the test and the others for training.

Exit code: 0; 1 if an error stops the program, all runs diverge, or a figure cannot be written; 2 for a
wrong argument.";

impl Cli {
    /// The images to train on: those that are named, else MNIST, else generated images, with a line on
    /// standard error.
    fn datasets(&self) -> Result<Vec<String>> {
        if !self.datasets.is_empty() {
            return Ok(self.datasets.clone());
        }
        if self.options.show {
            // What was run, MNIST if both were.
            let has = |name: &str| {
                let line = format!("\"dataset\":\"{name}\"");
                let files = self.options.named("vision").into_iter();
                let mut texts = files.filter_map(|file| std::fs::read_to_string(file).ok());
                texts.any(|text| text.contains(&line))
            };
            let strokes = has("strokes") && !has("mnist");
            let name = if strokes { "strokes" } else { "mnist" };
            return Ok(vec![name.to_owned()]);
        }
        let folder = self.options.data.as_deref();
        match images::load(folder, "mnist", images::Part::Test) {
            Ok(_) => Ok(vec!["mnist".to_owned()]),
            Err(Error::NotFound { what, .. }) => {
                note(format_args!(
                    "{what} were not found (say where with --data DIR): training on generated images, strokes of ten shapes, instead."
                ));
                Ok(vec!["strokes".to_owned()])
            }
            Err(error) => Err(error),
        }
    }

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
struct Vision {
    settings: String,
}

impl Paper for Vision {
    type Cell = Cell;
    const NAME: &'static str = "vision";
    const DEMONSTRATION: (&'static str, u32) = (
        "Vision transformers of eight blocks with ContraNorm and without",
        30,
    );

    fn table(&self, plan: &Plan, runs: &Runs<Cell>) -> String {
        show::tables(plan, &self.settings, runs, show::accuracy)
    }

    fn figure(&self, shown: Shown, plan: &Plan, runs: &Runs<Cell>) -> Option<Figure> {
        let title = "Vision transformers; dashed: before training";
        match shown {
            Shown::Table => None,
            Shown::Figure(3) => {
                show::by_depth("vision-figure-3", title, plan, runs, show::accuracy)
            }
            Shown::Figure(_) => show::metrics("vision-figure-2", title, plan, runs),
            Shown::Demonstration => show::metrics("vision", title, plan, runs),
        }
    }

    fn json(&self, cell: &Cell, runs: &[&Finished<Cell>]) -> Value {
        let mut object = show::object(cell, runs);
        object["dataset"] = json!(cell.dataset);
        object["patch"] = json!(cell.patch);
        object
    }
}

/// Runs what the arguments ask for.
pub fn run(cli: &Cli) -> Result<()> {
    let choice = Choice {
        seeds: cli.options.seeds(1),
        datasets: cli.datasets()?,
        patch: usize::from(cli.patch),
        arguments: cli.arguments.clone(),
    };
    let parts = paper::chosen(cli.parts(&choice), cli.filters(), &cli.options)?;
    let count = match choice.seeds.len() {
        1 => ", 1 seed".to_owned(),
        n => format!(", {n} seeds"),
    };
    let settings = format!(
        ", {}{count}{}",
        choice.datasets.join(" and "),
        choice.arguments.told()
    );
    let named = cli.datasets.clone();
    paper::reproduce(&Vision { settings }, &parts, named, &cli.options)
}
