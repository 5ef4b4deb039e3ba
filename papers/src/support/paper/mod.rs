//! A paper as a program: its cells, its numbers and its figures. This module runs and shows them.
//!
//! A [`Cell`] is everything that decides the result of one run. A [`Plan`] lists the cells of a table or a
//! figure with the paper's numbers. [`reproduce`] runs the unfinished cells in parallel, keeps each finished
//! cell in a results file, and shows tables beside the paper's numbers, figures and JSON. Several processes
//! can divide a plan among them ([`shard`]), each with its own file; the files are read together ([`merge`]).

pub mod cell;
pub mod curves;
pub mod environment;
pub mod merge;
mod number;
pub mod options;
pub mod plan;
pub mod pool;
pub mod results;
pub mod shard;
mod show;
pub mod table;

pub use cell::{Cell, Finished, Progress, Runs};
pub use number::Number;
pub use options::Options;
pub use plan::{Entry, Filter, Plan};

use super::figures::Figure;
use super::{interrupt, note, say};
use emmy::{Error, Result};
use pool::Spreading;
use results::{Lines, Results};
use serde_json::{Value, json};
use show::show;
use std::sync::Mutex;

/// A paper: how the outcomes of its cells are shown.
pub trait Paper {
    /// The cells of the paper.
    type Cell: Cell;

    /// The name of the program, and of its results file.
    const NAME: &'static str;

    /// What the demonstration shows, and about how many seconds it takes on two processors; printed when it
    /// begins.
    const DEMONSTRATION: (&'static str, u32);

    /// The text of a table with at least one finished cell.
    fn table(&self, plan: &Plan<Self::Cell>, runs: &Runs<Self::Cell>) -> String;

    /// The figure of a part; `None` if too few cells are finished to draw it.
    fn figure(
        &self,
        shown: Shown,
        plan: &Plan<Self::Cell>,
        runs: &Runs<Self::Cell>,
    ) -> Option<Figure>;

    /// The object of an entry for `--json`: the settings of `cell`, and the results of its finished runs.
    /// Part, row, column, the paper's number and the number of seeds are added if the object does not have
    /// them.
    fn json(&self, cell: &Self::Cell, runs: &[&Finished<Self::Cell>]) -> Value;
}

/// How a plan is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// A table, and the figure that the program has beside it, if any.
    Table,
    /// The figure of this number in the paper.
    Figure(u32),
    /// A table, and a figure that the paper does not have.
    Demonstration,
}

/// A plan and how it is shown.
pub struct Part<C> {
    pub plan: Plan<C>,
    pub shown: Shown,
}

impl<C> Part<C> {
    /// A plan, shown in this way.
    pub fn new(shown: Shown, plan: Plan<C>) -> Self {
        Self { plan, shown }
    }

    /// The tables and the numbered figures that the arguments name; if they name none, the cells of the
    /// command line as one table.
    pub fn asked_for(
        tables: impl Iterator<Item = Plan<C>>,
        figures: impl Iterator<Item = (u32, Plan<C>)>,
        cells: impl FnOnce() -> Plan<C>,
    ) -> Vec<Self> {
        let tables = tables.map(|plan| Self::new(Shown::Table, plan));
        let figures = figures.map(|(number, plan)| Self::new(Shown::Figure(number), plan));
        let parts: Vec<_> = tables.chain(figures).collect();
        match parts.is_empty() {
            true => vec![Self::new(Shown::Table, cells())],
            false => parts,
        }
    }
}

/// The parts with the entries that `--only` chooses.
///
/// # Errors
/// If a part has no cell, or a filter chooses no cell of any part.
pub fn chosen<'a, C: Cell + 'a>(
    parts: Vec<Part<C>>,
    mut filters: Vec<Filter<'a, C>>,
    options: &'a Options,
) -> Result<Vec<Part<C>>> {
    let only = |part: Part<C>| Part::new(part.shown, part.plan.only(&options.only));
    let parts: Vec<Part<C>> = parts.into_iter().map(only).collect();
    filters.extend(options.only.iter().map(|text| Filter::only(text)));
    plan::check(parts.iter().map(|part| &part.plan), &filters)?;
    Ok(parts)
}

/// Runs the unfinished cells of all parts and shows the parts. A process that runs only a shard shows
/// nothing: its cells are a part of the numbers.
///
/// `named` are the data sets that must be found; cells on other data sets are left out if these are not
/// found.
///
/// # Errors
/// If a cell cannot be run, a file cannot be read or written, or results contradict each other. If a figure
/// cannot be written, all else is still shown. If no data set was found, or all runs that are shown diverged:
/// the exit code of every program is 1 then, and 0 if one run has a result.
pub fn reproduce<P: Paper>(
    paper: &P,
    parts: &[Part<P::Cell>],
    named: Vec<String>,
    options: &Options,
) -> Result<()> {
    interrupt::listen()?;
    let runs = match options.show {
        true => Some(finished::<P>(options)?),
        false => run::<P>(parts, named, options)?,
    };
    let Some(runs) = runs else { return Ok(()) };
    show(paper, parts, &runs, options)?;
    let entries = parts.iter().flat_map(|part| &part.plan.entries);
    let cells = entries.flat_map(|entry| &entry.cells);
    let found = cells.filter_map(|cell| runs.of(cell));
    let stopped: Vec<bool> = found
        .map(|run| P::Cell::stopped(&run.outcome).is_some())
        .collect();
    if stopped.is_empty() && !options.show && !interrupt::asked() {
        let rule = "the data set of at least one run";
        return Err(Error::invalid("data", rule, "none"));
    }
    match !stopped.is_empty() && stopped.iter().all(|stopped| *stopped) {
        true => Err(Error::invalid("runs", "one that does not diverge", "none")),
        false => Ok(()),
    }
}

/// The finished cells of all results files.
fn finished<P: Paper>(options: &Options) -> Result<Runs<P::Cell>> {
    let family = options.family(P::NAME);
    for path in &family.missing {
        let path = path.display();
        note(format_args!(
            "{path} is not there: its cells count as not finished"
        ));
    }
    let lines = family.files.iter().map(|path| Lines::read(path));
    merge::merge(lines.collect::<Result<_>>()?, options.conflict)
}

/// Runs the unfinished cells, or those of a shard; returns all finished cells unless it was a shard.
fn run<P: Paper>(
    parts: &[Part<P::Cell>],
    named: Vec<String>,
    options: &Options,
) -> Result<Option<Runs<P::Cell>>> {
    let (shard, from) = options.shard()?;
    let (jobs, threads) = options.jobs_and_threads()?;
    let files = options.named(P::NAME);
    let path = shard.path(&files[0]);
    let others = merge::Family::others(&files, &path);
    let results = Mutex::new(Results::open(&path, &others, options.conflict)?);
    let entries = parts.iter().flat_map(|part| &part.plan.entries);
    let cells: Vec<P::Cell> = entries.flat_map(|entry| entry.cells.clone()).collect();
    let all = pool::distinct(&cells);
    let mine = match shard.is_whole() {
        true => all.clone(),
        false => shard.part(&all),
    };
    if !shard.is_whole() {
        let (n, of) = (mine.len(), all.len());
        let file = path.display();
        note(format_args!(
            "shard {shard} ({from}): {n} of {of} cells, to {file}"
        ));
    }
    let mut shown = parts.iter().map(|part| part.shown);
    let is_demonstration = shown.any(|shown| shown == Shown::Demonstration);
    let waits = |cell: &P::Cell| results.lock().expect("no panic").runs.of(cell).is_none();
    if is_demonstration && mine.iter().any(|&cell| waits(cell)) {
        let (what, seconds) = P::DEMONSTRATION;
        note(format_args!(
            "{what}: about {seconds} s on two processors, with the default options"
        ));
    }
    let how = Spreading {
        jobs,
        threads,
        folder: options.data.clone(),
        named,
    };
    pool::run(&mine, &how, &results)?;
    let runs = results.into_inner().expect("no panic").runs;
    if shard.is_whole() {
        return Ok(Some(runs));
    }
    let done = mine.iter().filter(|cell| runs.of(cell).is_some()).count();
    let file = path.display().to_string();
    say(match options.json {
        true => json!({
            "shard": shard.to_string(), "cells": mine.len(), "finished": done, "results": file,
        })
        .to_string(),
        false => format!(
            "shard {shard}: {done} of {} cells are finished; --show shows those of all shards",
            mine.len()
        ),
    })?;
    Ok(None)
}
