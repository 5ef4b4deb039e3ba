//! Cells: a cell is everything that decides the result of one run.

use crate::support::interrupt;
use emmy::Result;
use indicatif::ProgressBar;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fmt::Display;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// One run of a paper. Equal cells are run once, even if several tables need them.
///
/// ```text
/// #[derive(Clone, PartialEq, Serialize, Deserialize)]
/// struct Attention { dataset: String, norm: Norm, layers: usize, seed: u64 }
/// ```
pub trait Cell: Clone + PartialEq + Serialize + DeserializeOwned + Send + Sync {
    /// Data that several cells read and that are loaded once; `()` if there is nothing to load.
    type Data: Send + Sync;

    /// The result of a run. It has nothing that differs from run to run: time and machine are in
    /// [`Finished`], whose keys it must not use. Its text is a few words for the line that reports the run.
    type Outcome: Display + Serialize + DeserializeOwned + Send + Sync;

    /// The name of the cell for readers.
    fn title(&self) -> String;

    /// The name of the cell for programs: its settings as they are written in the results file. Two cells
    /// have the same name if and only if they are the same, on every machine.
    fn name(&self) -> String {
        serde_json::to_string(self).expect("settings are numbers and strings")
    }

    /// The approximate work of the run, in any unit that all cells of a paper share. It must not depend on
    /// the machine or on data: it is used to divide the cells among shards before any data are loaded.
    fn cost(&self) -> u64 {
        1
    }

    /// The most calls of [`Progress::step`] in a run.
    fn steps(&self) -> u64 {
        1
    }

    /// Whether an outcome of `other` can serve as the outcome of this cell; `other` may have recorded more.
    fn is_answered_by(&self, other: &Self) -> bool {
        self == other
    }

    /// The data set, if the cell has one.
    fn dataset(&self) -> Option<&str> {
        None
    }

    /// A text that two cells share if and only if they share their data.
    fn data_key(&self) -> String {
        self.dataset().unwrap_or_default().to_owned()
    }

    /// Loads the data of the cell from a folder with data sets.
    ///
    /// # Errors
    /// If the data are not found or damaged.
    fn load(&self, folder: Option<&Path>) -> Result<Self::Data>;

    /// Checks whether the cell can be run on its data. All cells are checked before any cell is run.
    ///
    /// # Errors
    /// If the settings are not valid, or the run does not fit into memory.
    fn check(&self, _: &Self::Data) -> Result<()> {
        Ok(())
    }

    /// The reason why a run ended early, if it diverged.
    fn stopped(outcome: &Self::Outcome) -> Option<&str>;

    /// Runs the cell, in a pool of `progress.threads` threads.
    ///
    /// # Errors
    /// If the cell cannot be run. A loss that becomes infinite is an outcome, not an error.
    fn run(&self, data: &Self::Data, progress: &Progress) -> Result<Self::Outcome>;
}

/// A finished cell, a line of the results file.
#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Finished<C: Cell> {
    pub cell: C,
    #[serde(flatten)]
    pub outcome: C::Outcome,
    pub seconds: f64,
    pub threads: usize,
    /// When the run was finished, and on what kind of machine.
    pub date: String,
    pub machine: String,
}

/// The part of a run that is done.
pub struct Progress<'a> {
    /// The threads of the pool in which the cell runs.
    pub threads: usize,
    bar: &'a ProgressBar,
    unit: u64,
    left: AtomicU64,
}

impl<'a> Progress<'a> {
    /// No progress of a cell yet; `bar` counts the cost of all cells.
    pub fn new<C: Cell>(cell: &C, threads: usize, bar: &'a ProgressBar) -> Self {
        let steps = cell.steps().max(1);
        Self {
            threads,
            bar,
            unit: cell.cost() / steps,
            left: AtomicU64::new(steps),
        }
    }

    /// One of the cell's steps is done.
    ///
    /// # Errors
    /// If the run is to end because of Ctrl-C; the outcome is then not kept.
    pub fn step(&self) -> Result<()> {
        let less = |left: u64| left.checked_sub(1);
        let counted = (self.left).fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        if counted.is_ok() {
            self.bar.inc(self.unit);
        }
        interrupt::check()
    }

    /// The run has ended, perhaps before its last step.
    pub fn end(&self) {
        let left = self.left.swap(0, Ordering::Relaxed);
        self.bar.inc(self.unit.saturating_mul(left));
    }
}

/// The finished cells that are known.
pub struct Runs<C: Cell>(pub Vec<Finished<C>>);

impl<C: Cell> Runs<C> {
    /// The run of a cell, if it is finished.
    pub fn of(&self, cell: &C) -> Option<&Finished<C>> {
        (self.0.iter()).find(|finished| cell.is_answered_by(&finished.cell))
    }

    /// The finished runs among cells, in their order.
    pub fn among(&self, cells: &[C]) -> Vec<&Finished<C>> {
        cells.iter().filter_map(|cell| self.of(cell)).collect()
    }
}
