//! The figures of the paper, drawn from finished cells.

use super::cell::Outcome;
use super::change::LayerChange;
use super::dynamics::{Dynamics, Sample};
use super::plan::{Entry, Plan};
use super::tables::{finished, mean_interval};
use crate::support::figures::write;
use crate::support::plot::{Axis, COLOURS, Mark, Panel, Series};
use emmy::Result;
use emmy::train::Spread;
use std::path::{Path, PathBuf};

/// Draws a figure of the paper into `folder`; nothing if none of its cells is finished.
pub fn draw(number: u32, plan: &Plan, results: &[Outcome], folder: &Path) -> Result<Vec<PathBuf>> {
    let panels = match number {
        2 => conservation(plan, results),
        3 | 4 => share_that_moves(number, plan, results)
            .into_iter()
            .chain(gradients(plan, results, &["Xav", "Bal_O"], |_| true))
            .collect(),
        5 => gradients(plan, results, &ALL, |layer| [1, 5, 10].contains(&layer)),
        6 | 7 | 9 | 10 => by_depth(plan, results),
        8 => unchanged(plan, results),
        11 => spreads(plan, results),
        _ => gradients(plan, results, &ALL, |_| true),
    };
    let drawn = |panel: &Panel| !panel.series.is_empty();
    let panels: Vec<Panel> = panels.into_iter().filter(drawn).collect();
    if panels.is_empty() {
        return Ok(Vec::new());
    }
    let (title, columns) = match number {
        2 => ("δ and c while training", 2),
        3 => ("Figure 3: five layers", 3),
        4 => ("Figure 4: ten layers", 3),
        5 => ("Figure 5: relative gradient norms of layers 1, 5, 10", 2),
        6 => ("Figure 6: Cora, gradient descent", 2),
        7 => ("Figure 7: Adam", 2),
        8 => (
            "Figure 8: share of entries that are at the best epoch what they were",
            2,
        ),
        9 => ("Figure 9: orthogonal and identity starts", 2),
        10 => ("Figure 10: ωGAT", 2),
        11 => ("Figure 11: how far entries move", 2),
        _ => ("Figure 12: relative gradient norms under Adam", 4),
    };
    let rows = panels.len().div_ceil(columns) as u32;
    let size = (420 * columns as u32 + 60, 330 * rows + 40);
    write(
        folder,
        &format!("balance-figure-{number}"),
        size,
        title,
        columns,
        &panels,
    )
}

/// Draws loss, accuracy and degree of balance of the demonstration.
pub fn demonstration(plan: &Plan, results: &[Outcome], folder: &Path) -> Result<Vec<PathBuf>> {
    let mut panels = vec![
        panel("", "epoch", Axis::new("training loss")),
        panel(
            "",
            "epoch",
            Axis::new("validation accuracy").within(0.0..1.0),
        ),
        panel("", "epoch", Axis::new("largest |c| of a neuron")),
        panel("", "epoch", Axis::new("largest relative |δ|").log()),
    ];
    for (name, dynamics) in recorded(plan, results) {
        let of = |f: fn(&Sample) -> f64| line(dynamics, |s| Some(f(s)));
        let widest = |spreads: &[Option<Spread>]| {
            let sizes = spreads.iter().flatten();
            sizes.map(|s| s.min.abs().max(s.max.abs())).reduce(f64::max)
        };
        let marks = [
            of(|s| s.loss),
            of(|s| s.val_acc),
            line(dynamics, |s| widest(&s.balance)),
            line(dynamics, |s| widest(&s.relative_delta)),
        ];
        for (panel, points) in panels.iter_mut().zip(marks) {
            panel
                .series
                .push(series(name, colour_of(name), Mark::Line(points)));
        }
    }
    if panels[0].series.is_empty() {
        return Ok(Vec::new());
    }
    write(folder, "balance", (920, 660), &plan.title, 2, &panels)
}

/// The schemes of Table 1.
const ALL: [&str; 4] = ["Xav", "Xav_Z", "Bal_X", "Bal_O"];

/// The colour of a column: that of its scheme, whichever of the others are finished.
fn colour_of(column: &str) -> usize {
    let known = [
        &ALL[..],
        &["Xavier", "LLortho", "Xavier+Bal", "LLortho+Bal"],
        &["Identity", "Identity+Bal", "LLidentity", "LLidentity+Bal"],
    ];
    let found = known.iter().enumerate().find_map(|(group, names)| {
        let at = names.iter().position(|name| *name == column)?;
        Some(at + if group == 2 { 4 } else { 0 })
    });
    found.unwrap_or(0)
}

fn panel(title: impl Into<String>, x: &str, y: Axis) -> Panel {
    Panel {
        title: title.into(),
        x: Axis::new(x),
        y,
        series: Vec::new(),
    }
}

fn series(name: impl Into<String>, colour: usize, mark: Mark) -> Series {
    Series {
        name: name.into(),
        colour: COLOURS[colour % COLOURS.len()],
        mark,
    }
}

/// The first finished outcome of each entry.
fn outcomes<'a>(plan: &'a Plan, results: &'a [Outcome]) -> Vec<(&'a Entry, &'a Outcome)> {
    let entries = plan.entries.iter();
    entries
        .filter_map(|e| Some((e, *finished(e, results).first()?)))
        .collect()
}

/// The recorded trainings, by the names of their columns.
fn recorded<'a>(plan: &'a Plan, results: &'a [Outcome]) -> Vec<(&'a str, &'a Dynamics)> {
    let all = outcomes(plan, results).into_iter();
    all.filter_map(|(e, o)| Some((e.column.as_str(), o.dynamics.as_ref()?)))
        .collect()
}

fn line(dynamics: &Dynamics, y: impl Fn(&Sample) -> Option<f64>) -> Vec<(f64, f64)> {
    let samples = dynamics.samples.iter();
    samples
        .filter_map(|s| Some((s.epoch as f64, y(s)?)))
        .collect()
}

/// Figure 2: δ under gradient descent and Adam; c of an unbalanced and a balanced start.
fn conservation(plan: &Plan, results: &[Outcome]) -> Vec<Panel> {
    let mut panels = Vec::new();
    for (entry, outcome) in outcomes(plan, results) {
        let Some(dynamics) = &outcome.dynamics else {
            continue;
        };
        let is_delta = entry.row.starts_with('δ');
        let (what, label) = match is_delta {
            true => ("δ", "δ, least to largest of a layer"),
            false => ("c", "c, least to largest of a layer"),
        };
        let mut panel = panel(
            format!("{what}, {}", entry.column),
            "epoch",
            Axis::new(label),
        );
        let neurons = |name: &&String| name.ends_with("neurons");
        for (k, name) in dynamics.laws.iter().filter(neurons).enumerate() {
            let law = dynamics.laws.iter().position(|n| n == name);
            let law = law.expect("it is one of them");
            let of = |s: &Sample| {
                if is_delta {
                    s.delta[law]
                } else {
                    s.balance[law]
                }
            };
            let band = (dynamics.samples.iter())
                .filter_map(|s| of(s).map(|b| (s.epoch as f64, b.min, b.max)));
            panel.series.push(series("", k, Mark::Band(band.collect())));
            let middle = line(dynamics, |s| of(s).map(|b| b.median));
            let name = name.trim_end_matches(", neurons");
            panel.series.push(series(name, k, Mark::Line(middle)));
        }
        panels.push(panel);
    }
    panels
}

/// Figures 3a and 4a: the share of significant entries that moved by more than 5 % (50 %).
fn share_that_moves(number: u32, plan: &Plan, results: &[Outcome]) -> Option<Panel> {
    let (least, label): (fn(&LayerChange) -> f64, _) = match number {
        3 => (|c| c.beyond_005, "share of weights moved > 5 %"),
        _ => (|c| c.beyond_05, "share of weights moved > 50 %"),
    };
    let panel = bars(plan, results, label, false, least);
    (!panel.series.is_empty()).then_some(panel)
}

/// Figure 8: the share of weights and attention entries that are what they were.
fn unchanged(plan: &Plan, results: &[Outcome]) -> Vec<Panel> {
    let mut panels = Vec::new();
    for row in plan.rows() {
        let part = plan.of_row(row);
        for (attention, what) in [(false, "weights"), (true, "attention")] {
            let mut panel = bars(&part, results, "share unchanged", attention, |c| {
                c.unchanged
            });
            panel.title = format!("{row}, {what}");
            panel.y = panel.y.within(0.0..1.0);
            panels.push(panel);
        }
    }
    panels
}

/// Bars by layer, one colour an initialisation.
fn bars(
    plan: &Plan,
    results: &[Outcome],
    label: &str,
    attention: bool,
    value: impl Fn(&LayerChange) -> f64,
) -> Panel {
    let all = outcomes(plan, results);
    let width = 0.8 / all.len().max(1) as f64;
    let mut panel = panel("", "layer", Axis::new(label));
    for (k, (entry, outcome)) in all.iter().enumerate() {
        let layers = outcome
            .changes
            .iter()
            .filter(|c| c.is_attention == attention);
        let places = layers.enumerate().map(|(l, change)| {
            let at = l as f64 + (k as f64 + 0.5) * width - 0.4;
            (at, value(change))
        });
        let mark = Mark::Bars(places.collect(), 0.9 * width);
        panel
            .series
            .push(series(&entry.column, colour_of(&entry.column), mark));
    }
    let layers = all.iter().map(|(_, o)| o.cell.layers).max().unwrap_or(0);
    panel.x = panel.x.named((1..=layers).map(|l| l.to_string()).collect());
    panel
}

/// Figure 11: relative changes of weights, absolute changes of attention entries.
fn spreads(plan: &Plan, results: &[Outcome]) -> Vec<Panel> {
    let mut panels = Vec::new();
    for row in plan.rows() {
        let part = plan.of_row(row);
        let all = outcomes(&part, results);
        for (attention, what) in [(false, "relative, weights"), (true, "absolute, attention")] {
            let mut panel = panel(format!("{row}, {what}"), "layer", Axis::new("change").log());
            for (k, (entry, outcome)) in all.iter().enumerate() {
                let layers = outcome
                    .changes
                    .iter()
                    .filter(|c| c.is_attention == attention);
                let boxes = layers.enumerate().filter_map(|(l, change)| {
                    let s = change.spread?;
                    let at = l as f64 + (k as f64 - 1.5) * 0.2;
                    let five = [s.min, s.lower, s.median, s.upper, s.max];
                    Some((at, five, s.mean))
                });
                panel.series.push(series(
                    &entry.column,
                    colour_of(&entry.column),
                    Mark::Boxes(boxes.collect()),
                ));
            }
            let layers = all.iter().map(|(_, o)| o.cell.layers).max().unwrap_or(0);
            panel.x = panel.x.named((1..=layers).map(|l| l.to_string()).collect());
            panels.push(panel);
        }
    }
    panels
}

/// Relative gradient norms of weights (lines) and attention (dashes) of the layers that `shown` picks, a panel an initialisation, and
/// the training loss of all in a last one.
fn gradients(
    plan: &Plan,
    results: &[Outcome],
    columns: &[&str],
    shown: impl Fn(usize) -> bool,
) -> Vec<Panel> {
    let mut panels = Vec::new();
    for row in plan.rows() {
        let part = plan.of_row(row);
        let mut losses = panel(row, "epoch", Axis::new("training loss"));
        for (entry, outcome) in outcomes(&part, results) {
            let shown_here = columns.contains(&entry.column.as_str());
            let (Some(dynamics), true) = (&outcome.dynamics, shown_here) else {
                continue;
            };
            let loss = line(dynamics, |s| Some(s.loss));
            let colour = colour_of(&entry.column);
            losses
                .series
                .push(series(&entry.column, colour, Mark::Line(loss)));
            let title = format!(
                "{row}, {}, test {:.1} %",
                entry.column,
                100.0 * outcome.test_acc
            );
            let mut panel = panel(title, "epoch", Axis::new("‖∇‖ / ‖θ‖").log());
            for attention in [false, true] {
                let of_kind = outcome
                    .changes
                    .iter()
                    .filter(|c| c.is_attention == attention);
                for (l, change) in of_kind.enumerate().filter(|(l, _)| shown(l + 1)) {
                    let points = line(dynamics, |s| s.gradient[change.parameter]);
                    let (name, mark) = match attention {
                        false => (format!("W {}", l + 1), Mark::Line(points)),
                        true => (format!("a {}", l + 1), Mark::Dashes(points)),
                    };
                    panel.series.push(series(name, l, mark));
                }
            }
            panels.push(panel);
        }
        panels.push(losses);
    }
    panels
}

/// Accuracy and epochs to the best model by row (depth, or width), a line a column (an initialisation), two panels a group of rows: a data
/// set, or the widths.
fn by_depth(plan: &Plan, results: &[Outcome]) -> Vec<Panel> {
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
    let value = |o: &Outcome| match is_accuracy {
        true => 100.0 * o.test_acc,
        false => o.best_epoch as f64,
    };
    let most = (outcomes(plan, results).into_iter()).fold(1.0_f64, |m, (_, o)| m.max(value(o)));
    let top = if is_accuracy { 100.0 } else { 1.1 * most };
    let mut panel = panel(title, "", Axis::new(label).within(0.0..top));
    let names = rows
        .iter()
        .map(|row| row.rsplit(' ').next().unwrap_or(row).to_owned());
    panel.x = panel.x.named(names.collect());
    for column in plan.columns() {
        let points = rows.iter().enumerate().filter_map(|(x, row)| {
            let found = finished(plan.entry_at(row, column)?, results);
            let values: Vec<f64> = found.into_iter().map(value).collect();
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
