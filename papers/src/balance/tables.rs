//! Tables for readers: our mean ± 95 % confidence interval, with the paper's number beside it.

use super::plan::Plan;
use super::run::{Run, Runs};
use crate::support::args::Float;
use crate::support::paper::table::{Spread, Style, grid, student, values};
use crate::support::paper::{Cell as _, Number};
use crate::support::report::mean_std;
use std::fmt::Write;

/// The runs behind a mean of the paper.
const PAPER_RUNS: usize = 5;

const STYLE: Style = Style {
    spread: Spread::Interval,
    decimals: 1,
    difference: false,
    absent: "diverged",
};

/// The test accuracy of a run in percent; none if no epoch had a finite loss.
pub fn accuracy(run: &Run) -> Option<f64> {
    run.outcome.test_acc.map(|accuracy| 100.0 * accuracy)
}

/// The tables of a plan: accuracies beside the paper's, then epochs and time; below them the number
/// of runs, their time and the largest δ. `settings` is appended to the title.
pub fn render(plan: &Plan, settings: &str, runs: &Runs) -> String {
    let entries = plan.entries.iter();
    let all: Vec<&Run> = entries.flat_map(|e| runs.among(&e.cells)).collect();
    let accuracies = values(plan, runs, STYLE, accuracy);
    let efforts = grid(plan, runs, |runs, _| match runs.is_empty() {
        true => String::new(),
        false => format!(
            "{:.0} of {:.0}, {:.0} s",
            mean(runs, |run| run.outcome.best_epoch as f64),
            mean(runs, |run| run.outcome.epochs as f64),
            mean(runs, |run| run.seconds)
        ),
    });
    let hours = all.iter().map(|o| o.seconds).sum::<f64>() / 3600.0;
    // Runs whose loss grew without bound are listed apart: δ has no correct digits at their end.
    let (whole, stopped): (Vec<&Run>, Vec<&Run>) =
        all.iter().partition(|o| o.outcome.stopped.is_none());
    let beside = match plan.entries.iter().any(|e| e.paper.is_some()) {
        true => ": ours (the paper's)",
        false => "",
    };
    let mut out = format!(
        "{}{settings}{beside}\n\n{accuracies}\nEpoch of the best model, epochs, time of a run\n\n{efforts}\n\
         {} runs, {hours:.2} h in all; largest relative δ of any neuron at any epoch {}",
        plan.title,
        all.len(),
        largest_deltas(&whole)
    );
    out += &outside(plan, runs);
    if !stopped.is_empty() {
        write!(
            out,
            "; besides, {} ended with a loss that is not a finite number, δ {}",
            stopped.len(),
            largest_deltas(&stopped)
        )
        .expect("a string takes what it is given");
    }
    out + "\n"
}

/// Which of our means are more than two standard deviations of the paper's runs away from its mean; nothing
/// if no number has an interval. The deviation of its five runs is that of its interval, h √5/2.776.
///
/// Whether intervals overlap says little where one of them is wide; this is a statement about the means.
fn outside(plan: &Plan, runs: &Runs) -> String {
    let compared = plan.entries.iter().filter_map(|entry| {
        let paper = Number::parse(entry.paper.as_deref()?)?;
        let known = runs.among(&entry.cells);
        let values: Vec<f64> = known.iter().filter_map(|run| accuracy(run)).collect();
        let ours = (!values.is_empty()).then(|| mean_std(&values).0)?;
        let deviation = paper.spread? * (PAPER_RUNS as f64).sqrt() / student(PAPER_RUNS);
        let is_outside = (ours - paper.mean).abs() > 2.0 * deviation + paper.half();
        let name = format!("{}, {}: {ours:.1} ({paper})", entry.row, entry.column);
        Some((is_outside, name))
    });
    let compared: Vec<(bool, String)> = compared.collect();
    let outside = compared.iter().filter(|(is_outside, _)| *is_outside);
    let outside: Vec<&str> = outside.map(|(_, name)| &**name).collect();
    match (compared.len(), &outside[..]) {
        (0, _) => String::new(),
        (all, []) => format!(
            "\nOf {all} means none is more than two standard deviations of the paper's runs from the paper's mean"
        ),
        (all, names) => format!(
            "\nOf {all} means these {} are more than two standard deviations of the paper's runs from the paper's mean: {}",
            names.len(),
            names.join("; ")
        ),
    }
}

/// The three largest relative δ, with their runs; a δ that consists of rounding errors only is marked.
fn largest_deltas(runs: &[&Run]) -> String {
    let known = runs.iter().filter_map(|o| Some((o.outcome.max_delta?, o)));
    let mut known: Vec<_> = known.collect();
    known.sort_by(|a, b| b.0.total_cmp(&a.0));
    let three = known.iter().take(3);
    let texts = three.map(|(delta, o)| {
        let share = o.outcome.worst.as_ref().and_then(|worst| worst.share);
        let epsilon = match o.cell.float {
            Float::F32 => f32::EPSILON.into(),
            Float::F64 => f64::EPSILON,
        };
        let rounding = share.filter(|&s| s < epsilon);
        let of = rounding.map_or(String::new(), |s| {
            format!(", of terms {s:.0e} of the largest")
        });
        format!("{delta:.1e} ({}{of})", o.cell.title())
    });
    match known.is_empty() {
        true => "unknown".to_owned(),
        false => texts.collect::<Vec<_>>().join(", "),
    }
}

fn mean(runs: &[&Run], value: impl Fn(&Run) -> f64) -> f64 {
    runs.iter().map(|o| value(o)).sum::<f64>() / runs.len() as f64
}
