//! Cells spread over the cores, the longest first, with a bar that shows the time left.

use super::cell::Cell;
use super::results::{self, Results};
use super::run::{Outcome, Prepared};
use crate::support::note;
use emmy::{Error, Result};
use indicatif::{ProgressBar, ProgressStyle};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How cells are spread.
pub struct Spreading {
    /// The number of cells at a time.
    pub jobs: usize,
    /// Threads per cell.
    pub threads: usize,
    /// The folder with the data sets.
    pub folder: Option<PathBuf>,
    /// The data sets named on the command line. If one of them is not found, nothing is run.
    pub named: Vec<String>,
}

/// Runs the cells that are not finished. Cells whose data set is not found are left out, unless the command
/// line names it; a line on standard error says so.
///
/// # Errors
/// If a data set named on the command line is not found or a cell cannot be run; nothing has run then.
/// Otherwise the first error of a cell or of the results file; cells that run at that time are finished and
/// kept.
pub fn run(cells: &[Cell], how: &Spreading, results: &Mutex<Results>) -> Result<()> {
    let waiting = unfinished(cells, &results.lock().expect("no panic").outcomes);
    let sets = load(&waiting, how)?;
    for cell in &waiting {
        if let Some(data) = &sets[&cell.data_key()] {
            cell.check(data)?;
        }
    }
    let mut tasks: Vec<(u64, &Cell, &Prepared)> = (waiting.iter())
        .filter_map(|cell| {
            let data = sets[&cell.data_key()].as_ref()?;
            Some((cell.work(data), *cell, data))
        })
        .collect();
    tasks.sort_by_key(|(work, cell, _)| std::cmp::Reverse(work.saturating_mul(cell.epochs as u64)));
    if tasks.is_empty() {
        return Ok(());
    }

    let total = tasks
        .iter()
        .map(|(work, cell, _)| work.saturating_mul(cell.epochs as u64));
    let bar = ProgressBar::new(total.fold(0, u64::saturating_add)).with_style(
        ProgressStyle::with_template("{bar:30} {percent} % [{elapsed} < {eta}] {msg}")
            .expect("a valid template"),
    );
    let (next, finished) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let failed: Mutex<Option<Error>> = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..how.jobs.min(tasks.len()) {
            scope.spawn(|| {
                while failed.lock().expect("no panic").is_none() {
                    let Some((work, cell, data)) = tasks.get(next.fetch_add(1, Ordering::Relaxed))
                    else {
                        return;
                    };
                    let mut left = cell.epochs as u64;
                    let outcome = cell.run(data, how.threads, |_| {
                        left = left.saturating_sub(1);
                        bar.inc(*work);
                    });
                    bar.inc(work.saturating_mul(left));
                    let kept = outcome.and_then(|outcome| {
                        let k = finished.fetch_add(1, Ordering::Relaxed) + 1;
                        let reached = match outcome.test_acc {
                            Some(accuracy) => format!("{:.1} %", 100.0 * accuracy),
                            None => "diverged".to_owned(),
                        };
                        let said = format!(
                            "{k} of {}: {}, {reached} at epoch {} of {}, {:.0} s",
                            tasks.len(),
                            cell.title(),
                            outcome.best_epoch,
                            outcome.epochs,
                            outcome.seconds
                        );
                        // The outcome is stored before it is reported, since the report may fail.
                        results.lock().expect("no panic").add(outcome)?;
                        match bar.is_hidden() {
                            true => note(said),
                            false => bar.set_message(said),
                        }
                        Ok(())
                    });
                    if let Err(error) = kept {
                        failed.lock().expect("no panic").get_or_insert(error);
                    }
                }
            });
        }
    });
    bar.finish_and_clear();
    failed.into_inner().expect("no panic").map_or(Ok(()), Err)
}

/// The cells to run, each once.
fn unfinished<'a>(cells: &'a [Cell], outcomes: &[Outcome]) -> Vec<&'a Cell> {
    let mut waiting: Vec<&Cell> = Vec::new();
    for cell in cells {
        let done = results::of(outcomes, cell).is_some();
        if !done && !waiting.contains(&cell) {
            waiting.push(cell);
        }
    }
    // A cell with a recording also serves as the same cell without.
    let recorded: Vec<&Cell> = (waiting.iter().copied())
        .filter(|cell| cell.record_every.is_some())
        .collect();
    waiting.retain(|cell| {
        let other = |with: &&Cell| !std::ptr::eq(*with, *cell) && cell.is_answered_by(with);
        cell.record_every.is_some() || !recorded.iter().any(other)
    });
    waiting
}

type Key = (String, bool, usize, bool);

/// The data of the cells; `None` and a line on standard error where they are not found.
fn load(cells: &[&Cell], how: &Spreading) -> Result<BTreeMap<Key, Option<Prepared>>> {
    let mut sets = BTreeMap::new();
    for cell in cells {
        if let Entry::Vacant(place) = sets.entry(cell.data_key()) {
            match Prepared::load(cell, how.folder.clone()) {
                Ok(prepared) => {
                    place.insert(Some(prepared));
                }
                Err(error @ Error::NotFound { .. }) if !how.named.contains(&cell.dataset) => {
                    note(format_args!("left out: {error}"));
                    place.insert(None);
                }
                Err(error) => return Err(error),
            }
        }
    }
    Ok(sets)
}
