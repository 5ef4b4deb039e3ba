//! The arithmetic of printed tables: what the numbers of the four papers say about how they were made.
//!
//! A mean of r runs on m examples is a multiple of 1/(r m); accuracies between 0 and 100 have a largest
//! spread; a printed average is that of its row, or not; tables of one paper repeat each other's numbers.
//! With results of our own, `--results`, the tool also says under which settings the printed numbers are
//! likely.

mod glue;
mod likelihood;
mod means;
mod printed;
mod repeats;
mod settings;
mod shown;
mod spreads;
mod tables;

pub use means::{chance, fits};
pub use spreads::largest_deviation;

use crate::support::say;
use clap::Args;
use emmy::{Error, Result};
use means::{Constant, Grain, constants};
use printed::Table;
use repeats::{Average, Shared, Twins, averages, shared, twins};
use spreads::{Excess, excesses};
use std::path::PathBuf;

/// Audit the printed tables of the four papers: which runs and test sets their means fit, which spreads are
/// impossible, which averages and cells contradict each other
#[derive(Args, Debug)]
#[command(after_help = ABOUT)]
pub struct Cli {
    /// Only these papers, by the names of their programs
    #[arg(long = "paper", value_name = "NAME", value_parser = tables::PAPERS)]
    papers: Vec<String>,

    /// Folder with our results, balance.jsonl and others, for the likelihood of settings
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,

    /// Print one JSON object per finding to standard output
    #[arg(long)]
    json: bool,
}

const ABOUT: &str = "A table is named by the program that repeats its paper: `balance 2` is Table 2 of \"Are GATs Out of Balance?\",
deep_attention \"Lipschitz Normalization\", self_attention \"The Lipschitz Constant of Self-Attention\", oversmoothing
\"ContraNorm\".

Exit code: 0; 1 if results cannot be read; 2 for a wrong argument.";

/// Everything that the arithmetic finds.
struct Audit {
    tables: Vec<Table>,
    grains: Vec<Grain>,
    constants: Vec<Constant>,
    excesses: Vec<Excess>,
    averages: Vec<Average>,
    shared: Vec<Shared>,
    twins: Vec<Twins>,
}

impl Audit {
    fn new(tables: Vec<Table>) -> Self {
        let examples = |set: &str| -> Vec<u32> {
            tables::sizes(set)
                .into_iter()
                .map(|(size, _)| size)
                .collect()
        };
        let of_table = |table: &Table| -> Vec<Grain> {
            let sets = table.sets().into_iter();
            sets.filter_map(|set| Grain::of(table, set, &examples(set)))
                .collect()
        };
        Self {
            grains: tables.iter().flat_map(of_table).collect(),
            constants: tables
                .iter()
                .flat_map(|table| constants(table, examples))
                .collect(),
            excesses: tables.iter().flat_map(excesses).collect(),
            averages: tables.iter().flat_map(averages).collect(),
            shared: shared(&tables),
            twins: twins(&tables),
            tables,
        }
    }
}

/// Runs what the arguments ask for.
///
/// # Errors
/// If a file of results cannot be read.
pub fn run(cli: &Cli) -> Result<()> {
    if let Some(folder) = cli.results.as_ref().filter(|folder| !folder.is_dir()) {
        let found = folder.display().to_string();
        return Err(Error::invalid("--results", "a folder with results", found));
    }
    let wanted =
        |table: &Table| cli.papers.is_empty() || cli.papers.iter().any(|p| p == table.paper);
    let tables: Vec<Table> = tables::all().into_iter().filter(wanted).collect();
    let settings = match &cli.results {
        Some(folder) => settings::all(&tables, folder)?,
        None => Vec::new(),
    };
    let is_of = |name: &str| tables.iter().any(|table| table.name() == name);
    let settings = settings
        .into_iter()
        .filter(|found| is_of(&found.table))
        .collect();
    let audit = Audit::new(tables.clone());
    match cli.json {
        true => shown::objects(&audit, settings)
            .into_iter()
            .try_for_each(say),
        false => say(shown::text(&audit, settings)),
    }
}
