//! The arguments that the programs of papers share.

use super::environment;
use super::merge::{Conflict, Family};
use super::shard::Shard;
use crate::support::args::{self, Figures, MOST_RUNS, MOST_SEED, MOST_THREADS};
use crate::support::machine::processors;
use clap::Args;
use emmy::{Error, Result};
use std::path::PathBuf;

/// The arguments that choose the cells, where they run, and how they are shown.
#[derive(Args, Debug, Clone)]
pub struct Options {
    /// Only rows and columns with this in their names: "8 heads", "L=10 w=128"
    #[arg(long, value_name = "TEXT")]
    pub only: Vec<String>,

    /// Seed of the first run of a cell
    #[arg(long, value_name = "SEED", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=MOST_SEED))]
    pub seed: u64,

    /// Runs of a cell, each with the next seed [default: see below]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MOST_RUNS))]
    pub seeds: Option<u64>,

    /// Folder with the data sets [default: $EMMY_DATA, else the user's cache directory]
    #[arg(long, value_name = "DIR", value_parser = args::folder())]
    pub data: Option<PathBuf>,

    /// Files of finished cells, which are not run again. New cells are added to the first file, or to the
    /// file of the shard beside it [default: results/PROGRAM.jsonl]
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub results: Vec<PathBuf>,

    /// Folder for figures; none to draw none
    #[arg(long, value_name = "DIR", default_value = "figures")]
    pub out: Figures,

    /// Number of cells that run at a time, at most 256 threads in all; 0 for one per processor
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = args::threads())]
    pub jobs: usize,

    /// Threads of a cell; 0 for one per processor. The results do not depend on it
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = args::threads())]
    pub threads: usize,

    /// Run only shard I of N, counted from 1, with its own results file [default: the shard that Slurm, MPI
    /// or, with EMMY_SHARDS=N, GNU parallel gives this process; else all cells]
    #[arg(long, value_name = "I/N", conflicts_with = "show")]
    pub shard: Option<Shard>,

    /// What to do if files have two outcomes of a cell
    #[arg(long, value_name = "RULE", default_value = "refuse")]
    pub conflict: Conflict,

    /// Run nothing, show the finished cells of all shards
    #[arg(long)]
    pub show: bool,

    /// Print one JSON object per number of a table or figure to standard output, everything else to standard
    /// error
    #[arg(long)]
    pub json: bool,
}

impl Options {
    /// The seeds of a cell; `default` is their number if the arguments do not give it.
    pub fn seeds(&self, default: u64) -> Vec<u64> {
        (self.seed..self.seed + self.seeds.unwrap_or(default)).collect()
    }

    /// The named results files; new cells are added to the first.
    pub fn named(&self, program: &str) -> Vec<PathBuf> {
        match &self.results[..] {
            [] => vec![format!("results/{program}.jsonl").into()],
            named => named.to_vec(),
        }
    }

    /// All results files there are.
    pub fn family(&self, program: &str) -> Family {
        Family::of(&self.named(program))
    }

    /// The shard to run, and the option or the variables that determine it.
    ///
    /// # Errors
    /// If the variables of the environment contradict each other.
    pub fn shard(&self) -> Result<(Shard, String)> {
        let lookup = |name: &str| std::env::var(name).ok();
        Ok(match self.shard {
            Some(shard) => (shard, "--shard".to_owned()),
            None => environment::shard(&lookup)?.unwrap_or((Shard::WHOLE, String::new())),
        })
    }

    /// The number of cells at a time and the threads of a cell.
    ///
    /// # Errors
    /// If they are too many threads together.
    pub fn jobs_and_threads(&self) -> Result<(usize, usize)> {
        let processors = processors();
        let or_processors = |n: usize| if n == 0 { processors } else { n };
        let jobs = or_processors(self.jobs);
        let all = jobs * or_processors(self.threads);
        if all > MOST_THREADS.max(processors * processors) {
            let what = "--jobs times --threads";
            let rule = format!("at most {MOST_THREADS}");
            return Err(Error::invalid(what, rule, all.to_string()));
        }
        Ok((jobs, self.threads))
    }
}
