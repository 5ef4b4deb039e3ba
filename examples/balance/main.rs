//! "Are GATs Out of Balance?" (Mustafa, Bojchevski and Burkholz, NeurIPS 2023), reproduced.
//!
//! Without arguments, `cargo run --release --example balance` trains ten layers of graph attention on a
//! generated set with the usual and with the balanced initialisations and draws the difference.
//! `--table` and `--figure` run the paper's tables and figures; `--help` lists the other options.

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

use cell::Cell;
use clap::Parser;
use emmy::data::Name;
use emmy::init::Initialization;
use emmy::{Error, Result};
use plan::{Choice, LOSS_THRESHOLD, Plan};
use results::Results;
use run::Outcome;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use support::args::{
    self, Figures, Float, MOST_RUNS, MOST_SEED, MOST_THREADS, at_least_zero, initializations,
};
use support::say;

/// Reproduce "Are GATs Out of Balance?": any cell, table or figure
#[derive(Parser, Debug)]
#[command(name = "balance", version, after_help = OUTCOMES)]
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

    /// Maximum number of epochs
    #[arg(long, value_name = "N")]
    epochs: Option<usize>,

    /// Learning rate in place of the paper's
    #[arg(long, value_name = "RATE")]
    lr: Option<f64>,

    /// Stop when the training loss is below this value; 0 for never. Table 5 stops by its patience,
    /// Figure 2 shows δ to the last epoch
    #[arg(long, value_name = "LOSS", default_value_t = LOSS_THRESHOLD, value_parser = at_least_zero)]
    loss_threshold: f64,

    /// Read heterophilic graphs as directed, as the published code does, instead of in both
    /// directions
    #[arg(long)]
    directed: bool,

    /// Use features as published, instead of rows that sum to one
    #[arg(long)]
    raw_features: bool,

    /// Type of the numbers
    #[arg(long, default_value = "f32")]
    float: Float,

    /// Folder with the data sets [default: $EMMY_DATA, else the user's cache directory]
    #[arg(long, value_name = "DIR", value_parser = args::folder())]
    data: Option<PathBuf>,

    /// File of finished cells; they are not run again
    #[arg(long, value_name = "FILE", default_value = "results/balance.jsonl")]
    results: PathBuf,

    /// Folder for figures; none to draw none
    #[arg(long, value_name = "DIR", default_value = "figures")]
    out: Figures,

    /// Number of cells that run at a time, at most 256 threads in all; 0 for one per processor
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = args::threads())]
    jobs: usize,

    /// Threads of a cell; 0 for one per processor. The results do not depend on it
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = args::threads())]
    threads: usize,

    /// Run nothing, show the finished cells
    #[arg(long)]
    show: bool,

    /// Print the layers of the first cell's network, the shapes of their outputs and their parameters, before
    /// the first run
    #[arg(long)]
    summary: bool,
}

const OUTCOMES: &str = "A run diverges when its training loss, or the validation loss of its last epoch, is no finite number. That is
an outcome: its accuracy is that of the best epoch before, and tables say \"diverged\" where there is none.

A data set named by --dataset must be found; others are left out, and it is said so.

Exit code: 0, also if runs diverge; 1 if an error stops the program or a figure cannot be written (results and
tables come before figures); 2 for a wrong argument.";

fn main() -> ExitCode {
    match args::parse() {
        Ok(cli) => support::exit(run(&cli)),
        Err(code) => code,
    }
}

impl Cli {
    /// Whether the arguments name no table, figure or cell; the demonstration is then run.
    fn is_demonstration(&self) -> bool {
        let cells = self.datasets.is_empty() && self.layers.is_empty() && self.inits.is_empty();
        self.tables.is_empty() && self.figures.is_empty() && cells
    }

    /// The part that the arguments choose.
    fn choice(&self) -> Result<Choice> {
        let (seeds, epochs) = match self.is_demonstration() {
            true => (3, 1000),
            false => (5, 5000),
        };
        let names = self.inits.iter().filter_map(|init| init.name());
        let choice = Choice {
            seeds: (self.seed..self.seed + self.seeds.unwrap_or(seeds)).collect(),
            epochs: self.epochs.unwrap_or(epochs),
            datasets: (self.datasets.iter())
                .map(|name| name.as_str().to_owned())
                .collect(),
            layers: self.layers.clone(),
            inits: names.map(str::to_owned).collect(),
            float: self.float,
            directed: self.directed,
            raw_features: self.raw_features,
            lr: self.lr,
            loss_threshold: self.loss_threshold,
        };
        match choice.epochs {
            0 => Err(Error::invalid("--epochs", "at least 1", "0")),
            _ => Ok(choice),
        }
    }

    /// Refuses a plan without cells, and an option whose value selects no cell of any plan.
    fn check(&self, plans: &[&Plan]) -> Result<()> {
        for plan in plans {
            if plan.entries.is_empty() {
                let rule = "a cell with the data sets, layers, initialisations and names asked for";
                return Err(Error::invalid(&plan.title, rule, "none"));
            }
        }
        let entries = || plans.iter().flat_map(|plan| &plan.entries);
        let cell = |test: &dyn Fn(&Cell) -> bool| entries().flat_map(|e| &e.cells).any(test);
        let named = |text: &str| entries().any(|e| e.row.contains(text) || e.column.contains(text));
        let datasets = (self.datasets.iter().map(|name| name.as_str()))
            .map(|name| ("--dataset", name.to_owned(), cell(&|c| c.dataset == name)));
        let layers =
            (self.layers.iter()).map(|&l| ("--layers", l.to_string(), cell(&|c| c.layers == l)));
        let inits = (self.inits.iter().filter_map(|init| init.name()))
            .map(|name| ("--init", name.to_owned(), cell(&|c| c.init == name)));
        let only = (self.only.iter()).map(|text| ("--only", text.clone(), named(text)));
        let mut all = datasets.chain(layers).chain(inits).chain(only);
        match all.find(|(_, _, is_found)| !is_found) {
            None => Ok(()),
            Some((option, value, _)) => {
                let rule = "what some cell of the tables and figures asked for has";
                Err(Error::invalid(option, rule, format!("{value:?}")))
            }
        }
    }

    /// Runs the unfinished cells of all plans and returns all outcomes; with `--show`, only returns
    /// the outcomes that exist already.
    fn outcomes<'a>(&self, plans: impl Iterator<Item = &'a Plan>) -> Result<Vec<Outcome>> {
        if self.show {
            return Results::read(&self.results);
        }
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let or_processors = |n: usize| if n == 0 { processors } else { n };
        let jobs = or_processors(self.jobs);
        let all = jobs * or_processors(self.threads);
        if all > MOST_THREADS.max(processors * processors) {
            let what = "--jobs times --threads";
            let rule = format!("at most {MOST_THREADS}");
            return Err(Error::invalid(what, rule, all.to_string()));
        }
        let results = Mutex::new(Results::open(&self.results)?);
        let entries = plans.flat_map(|plan| &plan.entries);
        let cells: Vec<_> = entries.flat_map(|entry| entry.cells.clone()).collect();
        let named = self.datasets.iter().map(|name| name.as_str().to_owned());
        let how = pool::Spreading {
            jobs,
            threads: self.threads,
            folder: self.data.clone(),
            named: named.collect(),
        };
        pool::run(&cells, &how, &results)?;
        Ok(results.into_inner().expect("no panic").outcomes)
    }
}

fn run(cli: &Cli) -> Result<()> {
    let choice = cli.choice()?;
    let mut tables: Vec<Plan> = cli.tables.iter().map(|&n| choice.table(n)).collect();
    if cli.is_demonstration() {
        tables.push(choice.demonstration());
    } else if cli.tables.is_empty() && cli.figures.is_empty() {
        tables.push(choice.cells());
    }
    let only = |plan: Plan| plan.only(&cli.only);
    let tables: Vec<Plan> = tables.into_iter().map(only).collect();
    let figures: Vec<(u32, Plan)> = (cli.figures.iter())
        .map(|&n| (n, only(choice.figure(n))))
        .collect();
    let all = || tables.iter().chain(figures.iter().map(|(_, plan)| plan));
    cli.check(&all().collect::<Vec<_>>())?;
    let first = all()
        .flat_map(|plan| &plan.entries)
        .flat_map(|e| &e.cells)
        .next();
    if let Some(cell) = first.filter(|_| cli.summary) {
        let data = run::Prepared::load(cell, cli.data.clone())?;
        say(format_args!("{}\n{}", cell.title(), cell.summary(&data)?))?;
    }
    let outcomes = cli.outcomes(all())?;
    for plan in &tables {
        match tables::render(plan, &choice.settings(), &outcomes) {
            Some(text) => say(text)?,
            None => say(format_args!("{}: no cell is finished\n", plan.title))?,
        }
    }
    // If one figure cannot be written, the others are still drawn.
    let mut undrawn = None;
    for (number, plan) in &figures {
        match figures::draw(*number, plan, &outcomes, &cli.out) {
            Ok(None) => say(format_args!("{}: no cell is finished", plan.title))?,
            Ok(Some(paths)) => {
                for path in paths {
                    say(format_args!("Figure {number}: {}", path.display()))?;
                }
            }
            Err(error) => {
                undrawn.get_or_insert(error);
            }
        }
    }
    if cli.is_demonstration() {
        for path in figures::demonstration(&tables[0], &outcomes, &cli.out)? {
            say(format_args!("figure: {}", path.display()))?;
        }
    }
    undrawn.map_or(Ok(()), Err)
}
