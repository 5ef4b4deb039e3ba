//! Runs cells in parallel, the longest first, with a bar that shows the remaining time.

use super::cell::{Cell, Finished, Progress};
use super::results::Results;
use crate::support::{interrupt, machine, note};
use emmy::kernels::par;
use emmy::{Error, Result};
use indicatif::{ProgressBar, ProgressStyle};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// How cells are run in parallel.
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

/// The cells, each once, without those for which the outcome of another cell can serve.
pub fn distinct<C: Cell>(cells: &[C]) -> Vec<&C> {
    let mut out: Vec<&C> = Vec::new();
    for cell in cells {
        if !out.contains(&cell) {
            out.push(cell);
        }
    }
    // If the outcomes of two cells can serve for each other, the first cell stays.
    let all = out.clone();
    let is_answered = |k: usize, cell: &C| {
        let answers = |(other, with): (usize, &&C)| {
            let mutual = with.is_answered_by(cell);
            other != k && cell.is_answered_by(with) && (!mutual || other < k)
        };
        all.iter().enumerate().any(answers)
    };
    let numbered = out.into_iter().enumerate();
    numbered
        .filter(|&(k, cell)| !is_answered(k, cell))
        .map(|(_, cell)| cell)
        .collect()
}

/// Runs the cells that are not finished. Cells whose data set is not found are left out, unless the command
/// line names it; a line on standard error says so.
///
/// # Errors
/// If a data set named on the command line is not found or a cell cannot be run; nothing has run then.
/// Otherwise the first error of a cell or of the results file; cells that run at that time are finished and
/// kept.
pub fn run<C: Cell>(cells: &[&C], how: &Spreading, results: &Mutex<Results<C>>) -> Result<()> {
    let mut waiting = cells.to_vec();
    {
        let results = results.lock().expect("no panic");
        waiting.retain(|cell| results.runs.of(cell).is_none());
    }
    let sets = load(&waiting, how)?;
    let mut tasks: Vec<(&C, &C::Data)> = (waiting.iter())
        .filter_map(|&cell| Some((cell, sets[&cell.data_key()].as_ref()?)))
        .collect();
    for (cell, data) in &tasks {
        cell.check(data)?;
    }
    tasks.sort_by_key(|(cell, _)| Reverse(cell.cost()));
    if tasks.is_empty() {
        return Ok(());
    }

    let costs = tasks.iter().map(|(cell, _)| cell.cost());
    let bar = ProgressBar::new(costs.fold(0, u64::saturating_add)).with_style(
        ProgressStyle::with_template("{bar:30} {percent} % [{elapsed} < {eta}] {msg}")
            .expect("a valid template"),
    );
    let (next, finished) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let failed: Mutex<Option<Error>> = Mutex::new(None);
    let one = |cell: &C, data: &C::Data| {
        let run = timed(cell, data, how.threads, &bar)?;
        // What was cut short is shown, and not kept: it is no outcome.
        if interrupt::asked() {
            let (title, so_far) = (cell.title(), run.outcome);
            note(format_args!("cut short: {title}, so far {so_far}"));
            return Ok(());
        }
        let k = finished.fetch_add(1, Ordering::Relaxed) + 1;
        let said = format!(
            "{k} of {}: {}, {}, {:.0} s",
            tasks.len(),
            cell.title(),
            run.outcome,
            run.seconds
        );
        // The outcome is stored before it is reported, since the report may fail.
        results.lock().expect("no panic").add(run)?;
        match bar.is_hidden() {
            true => note(said),
            false => bar.set_message(said),
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        for _ in 0..how.jobs.min(tasks.len()) {
            scope.spawn(|| {
                while failed.lock().expect("no panic").is_none() && !interrupt::asked() {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some((cell, data)) = tasks.get(at) else {
                        return;
                    };
                    if let Err(error) = one(cell, data) {
                        failed.lock().expect("no panic").get_or_insert(error);
                    }
                }
            });
        }
    });
    bar.finish_and_clear();
    if interrupt::asked() {
        let (done, all) = (finished.load(Ordering::Relaxed), tasks.len());
        note(format_args!(
            "Ctrl-C: {done} of {all} cells are finished and kept, and cells that were running are not; it goes on \
             with: {}",
            interrupt::command()
        ));
    }
    failed.into_inner().expect("no panic").map_or(Ok(()), Err)
}

/// Runs a cell in its own thread pool.
fn timed<C: Cell>(
    cell: &C,
    data: &C::Data,
    threads: usize,
    bar: &ProgressBar,
) -> Result<Finished<C>> {
    let started = Instant::now();
    let progress = Progress::new(cell, threads, bar);
    // A cell that panics ends like one with an error: the cells beside it are finished and stored.
    let run = AssertUnwindSafe(|| par::with_threads(threads, || cell.run(data, &progress)));
    let outcome = catch_unwind(run).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        let found = format!("a panic: {}", text.unwrap_or("without a text"));
        Err(Error::invalid(
            cell.title(),
            "a run that comes to its end",
            found,
        ))
    })?;
    progress.end();
    Ok(Finished {
        cell: cell.clone(),
        outcome,
        seconds: started.elapsed().as_secs_f64(),
        threads,
        date: machine::today(),
        machine: machine::kind(),
    })
}

/// The data of the cells; `None`, with a line on standard error, if they are not found.
fn load<C: Cell>(cells: &[&C], how: &Spreading) -> Result<BTreeMap<String, Option<C::Data>>> {
    let mut sets = BTreeMap::new();
    for cell in cells {
        if let Entry::Vacant(place) = sets.entry(cell.data_key()) {
            let is_named = |name| how.named.iter().any(|named| named == name);
            match cell.load(how.folder.as_deref()) {
                Ok(data) => {
                    place.insert(Some(data));
                }
                Err(error @ Error::NotFound { .. }) if !cell.dataset().is_some_and(is_named) => {
                    note(format_args!("left out: {error}"));
                    place.insert(None);
                }
                Err(error) => return Err(error),
            }
        }
    }
    Ok(sets)
}
