//! Tables for readers: our mean ± 95 % confidence interval, and the paper's beside it.

use super::plan::{Entry, Plan};
use super::results;
use super::run::Outcome;
use crate::support::args::Float;
use crate::support::report::mean_std;
use std::fmt::Write;

/// Student's t at 0.975 for 1, 2, … degrees of freedom.
const T: [f64; 29] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045,
];

/// Mean and half the width of the 95 % confidence interval; none of a single value.
pub fn mean_interval(values: &[f64]) -> (f64, Option<f64>) {
    let (mean, std) = mean_std(values);
    let n = values.len();
    let t = T.get(n.wrapping_sub(2)).copied().unwrap_or(1.96);
    (mean, (n > 1).then(|| t * std / (n as f64).sqrt()))
}

/// The finished cells of an entry.
pub fn finished<'a>(entry: &Entry, outcomes: &'a [Outcome]) -> Vec<&'a Outcome> {
    let cells = entry.cells.iter();
    cells
        .filter_map(|cell| results::of(outcomes, cell))
        .collect()
}

/// The tables of a plan: accuracies beside the paper's, then epochs and time; below them the number
/// of runs, their time and the largest δ. None if nothing is finished. `settings` is appended to
/// the title.
pub fn render(plan: &Plan, settings: &str, outcomes: &[Outcome]) -> Option<String> {
    let all: Vec<&Outcome> = (plan.entries.iter())
        .flat_map(|entry| finished(entry, outcomes))
        .collect();
    if all.is_empty() {
        return None;
    }
    let accuracies = grid(plan, outcomes, |outcomes, paper| {
        // An entry with fewer runs than the others states their number. A run without a finite epoch has no
        // accuracy and is not counted.
        let runs = accuracies_of(outcomes).len();
        let few = (1..runs_asked(plan)).contains(&runs);
        let ours = accuracy(outcomes).map(|ours| match few {
            true => format!("{ours}, n={runs}"),
            false => ours,
        });
        match (ours, paper) {
            (None, None) => String::new(),
            (None, Some(paper)) => format!("– ({paper})"),
            (Some(ours), None) => ours,
            (Some(ours), Some(paper)) => format!("{ours} ({paper})"),
        }
    });
    let efforts = grid(plan, outcomes, |outcomes, _| match outcomes.is_empty() {
        true => String::new(),
        false => format!(
            "{:.0} of {:.0}, {:.0} s",
            mean(outcomes, |o| o.best_epoch as f64),
            mean(outcomes, |o| o.epochs as f64),
            mean(outcomes, |o| o.seconds)
        ),
    });
    let hours = all.iter().map(|o| o.seconds).sum::<f64>() / 3600.0;
    // Runs whose loss grew without bound are listed apart: δ has no correct digits at their end.
    let (whole, stopped): (Vec<&Outcome>, Vec<&Outcome>) =
        all.iter().partition(|o| o.stopped.is_none());
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
            "; besides, {} ended with a loss that is no finite number, δ {}",
            stopped.len(),
            largest_deltas(&stopped)
        )
        .expect("a string takes what it is given");
    }
    Some(out + "\n")
}

/// The three largest relative δ, with their runs; a δ of rounding errors alone is marked.
fn largest_deltas(outcomes: &[&Outcome]) -> String {
    let known = outcomes.iter().filter_map(|o| Some((o.max_delta?, o)));
    let mut known: Vec<_> = known.collect();
    known.sort_by(|a, b| b.0.total_cmp(&a.0));
    let three = known.iter().take(3);
    let texts = three.map(|(delta, o)| {
        let share = o.worst.as_ref().and_then(|worst| worst.share);
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

/// The largest number of runs of an entry.
fn runs_asked(plan: &Plan) -> usize {
    plan.entries
        .iter()
        .map(|e| e.cells.len())
        .max()
        .unwrap_or(0)
}

/// A table in Markdown; `cell` makes the text of an entry from its finished runs and the paper's
/// number.
fn grid(
    plan: &Plan,
    outcomes: &[Outcome],
    cell: impl Fn(&[&Outcome], Option<&str>) -> String,
) -> String {
    let (rows, columns) = (plan.rows(), plan.columns());
    let head = std::iter::once("").chain(columns.iter().copied());
    let mut lines: Vec<Vec<String>> = vec![head.map(str::to_owned).collect()];
    for row in rows {
        let mut line = vec![row.to_owned()];
        for column in &columns {
            let entry = plan.entry_at(row, column);
            let found = entry.map_or_else(Vec::new, |e| finished(e, outcomes));
            line.push(cell(&found, entry.and_then(|e| e.paper.as_deref())));
        }
        lines.push(line);
    }
    markdown(&lines)
}

fn mean(outcomes: &[&Outcome], value: impl Fn(&Outcome) -> f64) -> f64 {
    outcomes.iter().map(|o| value(o)).sum::<f64>() / outcomes.len() as f64
}

/// The accuracies in percent of the runs that have one.
fn accuracies_of(outcomes: &[&Outcome]) -> Vec<f64> {
    let known = outcomes.iter().filter_map(|o| o.test_acc);
    known.map(|accuracy| 100.0 * accuracy).collect()
}

fn accuracy(outcomes: &[&Outcome]) -> Option<String> {
    if outcomes.is_empty() {
        return None;
    }
    let values = accuracies_of(outcomes);
    Some(match mean_interval(&values) {
        _ if values.is_empty() => "diverged".to_owned(),
        (mean, None) => format!("{mean:.1}"),
        (mean, Some(interval)) => format!("{mean:.1} ± {interval:.1}"),
    })
}

/// A table in Markdown with columns of even width.
pub fn markdown(lines: &[Vec<String>]) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |c: usize| {
        let cells = lines.iter().filter_map(|line| line.get(c));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let mut out = String::new();
    for (k, line) in lines.iter().enumerate() {
        for (c, cell) in line.iter().enumerate() {
            let fill = " ".repeat(width(c) - cell.chars().count());
            out += &format!("| {cell}{fill} ");
        }
        out += "|\n";
        if k == 0 {
            for c in 0..columns {
                out += &format!("|{}", "-".repeat(width(c) + 2));
            }
            out += "|\n";
        }
    }
    out
}
