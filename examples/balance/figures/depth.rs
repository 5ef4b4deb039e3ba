//! Accuracy and epochs by depth.

use super::{colour_of, outcomes, panel, series};
use crate::plan::Plan;
use crate::run::Outcome;
use crate::support::plot::{Axis, Mark, Panel};
use crate::tables::{finished, mean_interval};

/// Accuracy and epochs to the best model by row (depth, or width), one line per column (an
/// initialisation), two panels per group of rows (a data set, or the widths).
pub fn by_depth(plan: &Plan, results: &[Outcome]) -> Vec<Panel> {
    let is_finished = |row: &&str| !outcomes(&plan.of_row(row), results).is_empty();
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
            panels.push(one_by_depth(plan, results, (name, label), &rows));
        }
    }
    panels
}

fn set_name(set: &str) -> &'static str {
    let sets = ["cora", "citeseer", "pubmed"];
    sets.into_iter().find(|s| *s == set).unwrap_or("")
}

fn one_by_depth(
    plan: &Plan,
    results: &[Outcome],
    (title, label): (&str, &str),
    rows: &[&str],
) -> Panel {
    let is_accuracy = label.starts_with("test");
    // A run without a finite epoch has neither.
    let value = |o: &Outcome| {
        o.test_acc.map(|accuracy| match is_accuracy {
            true => 100.0 * accuracy,
            false => o.best_epoch as f64,
        })
    };
    let known = outcomes(plan, results).into_iter();
    let most = (known.filter_map(|(_, o)| value(o))).fold(1.0_f64, f64::max);
    let top = if is_accuracy { 100.0 } else { 1.1 * most };
    let mut panel = panel(title, "", Axis::new(label).within(0.0..top));
    let names = rows
        .iter()
        .map(|row| row.rsplit(' ').next().unwrap_or(row).to_owned());
    panel.x = panel.x.named(names.collect());
    for column in plan.columns() {
        let points = rows.iter().enumerate().filter_map(|(x, row)| {
            let found = finished(plan.entry_at(row, column)?, results);
            let values: Vec<f64> = found.into_iter().filter_map(value).collect();
            let (mean, interval) = mean_interval(&values);
            (!values.is_empty()).then(|| (x as f64, mean, interval.unwrap_or(0.0)))
        });
        let points: Vec<_> = points.collect();
        if !points.is_empty() {
            let mark = Mark::Points(points);
            panel.series.push(series(column, colour_of(column), mark));
        }
    }
    panel
}
