//! Tables for people: our mean ± 95 % confidence interval, the paper's beside it.

use super::cell::Outcome;
use super::plan::{Entry, Plan};
use super::results::Results;
use crate::support::report::mean_std;
use std::fmt::Write;

/// Student's t at 0.975 for 1, 2, … degrees of freedom.
const T: [f64; 9] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262,
];

/// Mean and half the width of the 95 % confidence interval; none of a single value.
pub fn mean_interval(values: &[f64]) -> (f64, Option<f64>) {
    let (mean, std) = mean_std(values);
    let n = values.len();
    let t = T.get(n.wrapping_sub(2)).copied().unwrap_or(1.96);
    (mean, (n > 1).then(|| t * std / (n as f64).sqrt()))
}

/// The finished cells of an entry.
pub fn finished<'a>(entry: &Entry, results: &'a Results) -> Vec<&'a Outcome> {
    let cells = entry.cells.iter();
    cells.filter_map(|cell| results.of(cell)).collect()
}

/// The table of a plan: a row a line, "ours (paper's)", and below it what else the runs say. None if nothing is finished.
pub fn render(plan: &Plan, results: &Results) -> Option<String> {
    let mut rows: Vec<&str> = Vec::new();
    let mut columns: Vec<&str> = Vec::new();
    for entry in &plan.entries {
        if !rows.contains(&entry.row.as_str()) {
            rows.push(&entry.row);
        }
        if !columns.contains(&entry.column.as_str()) {
            columns.push(&entry.column);
        }
    }
    let mut all: Vec<&Outcome> = Vec::new();
    let mut lines: Vec<Vec<String>> = Vec::new();
    let head = std::iter::once("").chain(columns.iter().copied());
    lines.push(head.map(str::to_owned).collect());
    for row in &rows {
        let mut line = vec![(*row).to_owned()];
        for column in &columns {
            let entry = (plan.entries.iter()).find(|e| e.row == *row && e.column == *column);
            let outcomes = entry.map_or_else(Vec::new, |e| finished(e, results));
            let paper = entry.and_then(|e| e.paper.as_deref());
            let ours = accuracy(&outcomes);
            all.extend(outcomes);
            line.push(match (ours, paper) {
                (None, None) => String::new(),
                (None, Some(paper)) => format!("– ({paper})"),
                (Some(ours), None) => ours,
                (Some(ours), Some(paper)) => format!("{ours} ({paper})"),
            });
        }
        lines.push(line);
    }
    let any =
        |all: &[&Outcome], f: fn(&Outcome) -> f64| all.iter().map(|o| f(o)).fold(0.0_f64, f64::max);
    if all.is_empty() {
        return None;
    }
    let mut out = format!("{}: ours (the paper's)\n\n{}", plan.title, markdown(&lines));
    let hours = all.iter().map(|o| o.seconds).sum::<f64>() / 3600.0;
    let delta = any(&all, |o| o.max_delta.unwrap_or(0.0));
    let stopped = all.iter().filter(|o| o.stopped.is_some()).count();
    write!(
        out,
        "\n{} runs, {hours:.2} h of one core; largest relative δ of any neuron at any epoch {delta:.1e}",
        all.len()
    )
    .expect("a string takes what it is given");
    if stopped > 0 {
        write!(out, "; {stopped} ended with an infinite loss")
            .expect("a string takes what it is given");
    }
    Some(out + "\n")
}

fn accuracy(outcomes: &[&Outcome]) -> Option<String> {
    let values: Vec<f64> = outcomes.iter().map(|o| 100.0 * o.test_acc).collect();
    let (mean, interval) = mean_interval(&values);
    match interval {
        _ if values.is_empty() => None,
        None => Some(format!("{mean:.1}")),
        Some(interval) => Some(format!("{mean:.1} ± {interval:.1}")),
    }
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
