//! Tables for readers: our mean ± 95 % confidence interval, with the paper's number beside it.

use super::plan::Plan;
use super::run::{Run, Runs};
use crate::support::args::Float;
use crate::support::paper::Cell as _;
use crate::support::paper::table::{Spread, Style, grid, values};
use std::fmt::Write;

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
