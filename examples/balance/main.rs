//! "Are GATs Out of Balance?" (Mustafa, Bojchevski and Burkholz, NeurIPS 2023), reproduced.
//!
//! Without arguments, `cargo run --release --example balance` trains ten layers of graph attention on a generated set with the usual and with
//! the balanced initialisations and draws the difference. `--table` and `--figure` run what the paper shows; `--help` lists the rest.

#[path = "../support/mod.rs"]
mod support;

mod cell;
mod change;
mod dynamics;
mod figures;
mod paper;
mod plan;
mod pool;
mod results;
mod run;
mod tables;

use clap::Parser;
use emmy::data::Name;
use emmy::nn::Initialization;
use emmy::{Error, Result};
use plan::{Choice, LOSS_THRESHOLD, Plan};
use results::Results;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use support::args::{Float, MOST_RUNS, MOST_SEED, initializations};

/// Reproduce "Are GATs Out of Balance?": any cell, table or figure
#[derive(Parser, Debug)]
#[command(name = "balance", version)]
struct Cli {
    /// Table to run: 2 to 7
    #[arg(long = "table", value_name = "N", value_parser = clap::value_parser!(u32).range(2..=7))]
    tables: Vec<u32>,

    /// Figure to run: 2 to 12
    #[arg(long = "figure", value_name = "N", value_parser = clap::value_parser!(u32).range(2..=12))]
    figures: Vec<u32>,

    /// Only these data sets
    #[arg(long = "dataset", value_name = "NAME")]
    datasets: Vec<Name>,

    /// Only these numbers of layers
    #[arg(long = "layers", value_name = "L")]
    layers: Vec<usize>,

    /// Only these initialisations
    #[arg(long = "init", value_name = "NAME", value_parser = initializations())]
    inits: Vec<Initialization>,

    /// Only rows and columns with this in their names: "8 heads", "L=10 w=128"
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,

    /// Seed of the first run of a cell
    #[arg(long, value_name = "SEED", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=MOST_SEED))]
    seed: u64,

    /// Runs of a cell, each with the next seed [default: 5 as in the paper; 3 in the demonstration]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MOST_RUNS))]
    seeds: Option<u64>,

    /// Most epochs
    #[arg(long, value_name = "N")]
    epochs: Option<usize>,

    /// Another learning rate than the paper's
    #[arg(long, value_name = "RATE")]
    lr: Option<f64>,

    /// Stop when the training loss is below; 0 for never. Table 5 stops by its patience, Figure 2 shows δ to the last epoch
    #[arg(long, value_name = "LOSS", default_value_t = LOSS_THRESHOLD, value_parser = at_least_zero)]
    loss_threshold: f64,

    /// Heterophilic graphs as directed, as the published code reads them, instead of both ways
    #[arg(long)]
    directed: bool,

    /// Features as published, instead of rows that sum to one
    #[arg(long)]
    raw_features: bool,

    /// Type of the numbers
    #[arg(long, default_value = "f32")]
    float: Float,

    /// Folder with the data sets [default: $EMMY_DATA, else the user's cache directory]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,

    /// File of finished cells; they are not run again
    #[arg(long, value_name = "FILE", default_value = "results/balance.jsonl")]
    results: PathBuf,

    /// Folder for figures
    #[arg(long, value_name = "DIR", default_value = "figures")]
    out: PathBuf,

    /// Cells at a time; 0 for one a processor
    #[arg(long, value_name = "N", default_value_t = 0)]
    jobs: usize,

    /// Threads of a cell. The results do not depend on it
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,

    /// Run nothing, show what is finished
    #[arg(long)]
    show: bool,
}

fn main() -> ExitCode {
    support::exit(run(&Cli::parse()))
}

/// A loss.
fn at_least_zero(text: &str) -> std::result::Result<f64, String> {
    let value: f64 = text.parse().map_err(|e| format!("{e}"))?;
    match value.is_finite() && value >= 0.0 {
        // −0 is 0.
        true => Ok(value.abs()),
        false => Err("not a finite number from 0 up".to_owned()),
    }
}

fn run(cli: &Cli) -> Result<()> {
    // Without a table or figure: the cells that are named, or else the demonstration.
    let no_plan = cli.tables.is_empty() && cli.figures.is_empty();
    let named = !(cli.datasets.is_empty() && cli.layers.is_empty() && cli.inits.is_empty());
    let demonstration = no_plan && !named;
    let (seeds, epochs) = if demonstration { (3, 1000) } else { (5, 5000) };
    let choice = Choice {
        seeds: (cli.seed..cli.seed + cli.seeds.unwrap_or(seeds)).collect(),
        epochs: cli.epochs.unwrap_or(epochs),
        datasets: cli.datasets.iter().map(|n| n.as_str().to_owned()).collect(),
        layers: cli.layers.clone(),
        inits: (cli.inits.iter().filter_map(|init| init.name()))
            .map(str::to_owned)
            .collect(),
        float: cli.float,
        directed: cli.directed,
        raw_features: cli.raw_features,
        lr: cli.lr,
        loss_threshold: cli.loss_threshold,
    };
    if choice.epochs == 0 {
        return Err(Error::invalid("--epochs", "at least 1", "0"));
    }
    let mut tables: Vec<Plan> = (cli.tables.iter())
        .map(|&n| choice.table(n).only(&cli.only))
        .collect();
    if no_plan {
        tables.push(match demonstration {
            true => choice.demonstration(),
            false => choice.cells(),
        });
    }
    let figures: Vec<(u32, Plan)> = (cli.figures.iter())
        .map(|&n| (n, choice.figure(n).only(&cli.only)))
        .collect();
    let outcomes = if cli.show {
        Results::read(&cli.results)?
    } else {
        let results = Mutex::new(Results::open(&cli.results)?);
        let plans = tables.iter().chain(figures.iter().map(|(_, plan)| plan));
        let cells: Vec<_> = plans
            .flat_map(|plan| plan.entries.iter().flat_map(|e| e.cells.clone()))
            .collect();
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let how = pool::Spreading {
            jobs: if cli.jobs == 0 { processors } else { cli.jobs },
            threads: cli.threads,
            folder: cli.data.clone(),
        };
        pool::run(&cells, &how, &results)?;
        results.into_inner().expect("no panic").outcomes
    };
    for plan in &tables {
        match tables::render(plan, &choice.settings(), &outcomes) {
            Some(text) => support::say(text)?,
            None => support::say(format_args!("{}: no cell is finished\n", plan.title))?,
        }
    }
    for (number, plan) in &figures {
        let paths = figures::draw(*number, plan, &outcomes, &cli.out)?;
        if paths.is_empty() {
            support::say(format_args!("{}: no cell is finished", plan.title))?;
        }
        for path in paths {
            support::say(format_args!("Figure {number}: {}", path.display()))?;
        }
    }
    if demonstration {
        for path in figures::demonstration(&tables[0], &outcomes, &cli.out)? {
            support::say(format_args!("figure: {}", path.display()))?;
        }
    }
    Ok(())
}
