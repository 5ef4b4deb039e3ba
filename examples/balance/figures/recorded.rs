//! Curves over the epochs of recorded trainings.

use super::{colour_of, colour_of_layer, outcomes, panel, series};
use crate::dynamics::{Dynamics, Sample};
use crate::plan::Plan;
use crate::run::Outcome;
use crate::support::args::Figures;
use crate::support::figures::write;
use crate::support::plot::{Axis, Mark, Panel};
use emmy::Result;
use emmy::train::Spread;
use std::path::PathBuf;

/// Draws loss, accuracy and degree of balance of the demonstration.
pub fn demonstration(plan: &Plan, results: &[Outcome], to: &Figures) -> Result<Vec<PathBuf>> {
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
    write(to, "balance", (920, 660), &plan.title, 2, &panels)
}

/// Figure 2: δ under gradient descent and Adam; c of an unbalanced and a balanced start.
pub fn conservation(plan: &Plan, results: &[Outcome]) -> Vec<Panel> {
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
        let laws = dynamics.laws.iter().enumerate();
        let neurons: Vec<_> = laws.filter(|(_, name)| name.ends_with("neurons")).collect();
        for (k, &(law, name)) in neurons.iter().enumerate() {
            let colour = colour_of_layer(k, neurons.len());
            let of = |s: &Sample| {
                if is_delta {
                    s.delta[law]
                } else {
                    s.balance[law]
                }
            };
            let band = (dynamics.samples.iter())
                .filter_map(|s| of(s).map(|b| (s.epoch as f64, b.min, b.max)));
            panel
                .series
                .push(series("", colour, Mark::Band(band.collect())));
            let middle = line(dynamics, |s| of(s).map(|b| b.median));
            let name = name.trim_end_matches(", neurons");
            panel.series.push(series(name, colour, Mark::Line(middle)));
        }
        panels.push(panel);
    }
    panels
}

/// Relative gradient norms of weights (lines) and attention (dashes, the same colours) of the
/// layers that `shown` selects, one panel per initialisation, and the training loss of all in a
/// last panel.
pub fn gradients(
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
            let reached = match outcome.test_acc {
                Some(accuracy) => format!("test {:.1} %", 100.0 * accuracy),
                None => "diverged".to_owned(),
            };
            let title = format!("{row}, {}, {reached}", entry.column);
            let label = "‖∇‖ / ‖θ‖, attention dashed";
            let mut panel = panel(title, "epoch", Axis::new(label).log());
            for attention in [false, true] {
                let all = outcome.changes.iter();
                let of_kind: Vec<_> = all.filter(|c| c.is_attention == attention).collect();
                for (l, change) in of_kind.iter().enumerate().filter(|(l, _)| shown(l + 1)) {
                    let points = line(dynamics, |s| s.gradient[change.parameter]);
                    let (name, mark) = match attention {
                        false => (format!("layer {}", l + 1), Mark::Line(points)),
                        true => (String::new(), Mark::Dashes(points)),
                    };
                    let colour = colour_of_layer(l, of_kind.len());
                    panel.series.push(series(name, colour, mark));
                }
            }
            panels.push(panel);
        }
        panels.push(losses);
    }
    panels
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
