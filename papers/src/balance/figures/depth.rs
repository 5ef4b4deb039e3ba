//! Accuracy and epochs by depth.

use super::colour_of;
use crate::balance::plan::Plan;
use crate::balance::run::{Run, Runs};
use crate::balance::tables::accuracy;
use crate::support::paper::curves::curves;
use crate::support::plot::{Axis, Panel};

/// Accuracy and epochs to the best model by row (depth, or width), one line per column (an
/// initialisation), two panels per group of rows (a data set, or the widths).
pub fn by_depth(plan: &Plan, runs: &Runs) -> Vec<Panel> {
    let is_finished = |row: &&str| !plan.of_row(row).first_runs(runs).is_empty();
    let rows: Vec<&str> = plan.rows().into_iter().filter(is_finished).collect();
    // "cora L=5" belongs to cora, "L=10 w=128" to the widths, "L=5" to the rest.
    let group = |row: &str| match row.split_once(' ') {
        Some((_, width)) if width.starts_with("w=") => "width",
        Some((set, _)) => set_name(set),
        None => "",
    };
    let mut groups: Vec<&str> = rows.iter().map(|row| group(row)).collect();
    groups.dedup();
    let mut panels = Vec::new();
    for name in groups {
        let rows: Vec<&str> = rows.iter().copied().filter(|r| group(r) == name).collect();
        for label in ["test accuracy (%)", "epochs to the best model"] {
            panels.push(one_by_depth(plan, runs, (name, label), &rows));
        }
    }
    panels
}

fn set_name(set: &str) -> &'static str {
    let sets = ["cora", "citeseer", "pubmed"];
    sets.into_iter().find(|s| *s == set).unwrap_or("")
}

fn one_by_depth(plan: &Plan, runs: &Runs, (title, label): (&str, &str), rows: &[&str]) -> Panel {
    let is_accuracy = label.starts_with("test");
    // A run without an epoch with finite losses has neither.
    let value = |run: &Run| {
        accuracy(run).map(|accuracy| match is_accuracy {
            true => accuracy,
            false => run.outcome.best_epoch as f64,
        })
    };
    let known = plan.first_runs(runs).into_iter();
    let most = (known.filter_map(|(_, run)| value(run))).fold(1.0_f64, f64::max);
    let top = if is_accuracy { 100.0 } else { 1.1 * most };
    let last = |row: &str| row.rsplit(' ').next().unwrap_or(row).to_owned();
    let rows: Vec<_> = rows.iter().map(|&row| (row, last(row))).collect();
    let y = Axis::new(label).within(0.0..top);
    curves(title, y, (plan, runs), &rows, value, colour_of)
}
