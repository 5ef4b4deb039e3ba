//! Curves over the epochs of recorded trainings.

use super::colour_of;
use crate::balance::dynamics::{Dynamics, Sample};
use crate::balance::entries::Spread;
use crate::balance::plan::Plan;
use crate::balance::run::Runs;
use crate::support::figures::Figure;
use crate::support::plot::{Axis, Mark, Panel, Series, shade};

/// Loss, accuracy and degree of balance of the demonstration.
pub fn demonstration(plan: &Plan, runs: &Runs) -> Option<Figure> {
    let mut panels = vec![
        Panel::new("", Axis::new("epoch"), Axis::new("training loss")),
        Panel::new(
            "",
            Axis::new("epoch"),
            Axis::new("validation accuracy").within(0.0..1.0),
        ),
        Panel::new("", Axis::new("epoch"), Axis::new("largest |c| of a neuron")),
        Panel::new(
            "",
            Axis::new("epoch"),
            Axis::new("largest relative |δ|").log(),
        ),
    ];
    for (name, dynamics) in recorded(plan, runs) {
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
                .push(Series::new(name, colour_of(name), Mark::Line(points)));
        }
    }
    let title = "Ten layers of graph attention, gradient descent, from three initialisations";
    let figure = Figure::new("balance", title, 2, panels)?;
    Some(Figure {
        size: (920, 660),
        ..figure
    })
}

/// Figure 2: δ under gradient descent and Adam; c of an unbalanced and a balanced start.
pub fn conservation(plan: &Plan, runs: &Runs) -> Vec<Panel> {
    let mut panels = Vec::new();
    for (entry, run) in plan.first_runs(runs) {
        let Some(dynamics) = &run.outcome.dynamics else {
            continue;
        };
        let is_delta = entry.row.starts_with('δ');
        let (what, label) = match is_delta {
            true => ("δ", "δ, least to largest of a layer"),
            false => ("c", "c, least to largest of a layer"),
        };
        let mut panel = Panel::new(
            format!("{what}, {}", entry.column),
            Axis::new("epoch"),
            Axis::new(label),
        );
        let laws = dynamics.laws.iter().enumerate();
        let neurons: Vec<_> = laws.filter(|(_, name)| name.ends_with("neurons")).collect();
        for (k, &(law, name)) in neurons.iter().enumerate() {
            let colour = shade(k, neurons.len());
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
                .push(Series::new("", colour, Mark::Band(band.collect())));
            let middle = line(dynamics, |s| of(s).map(|b| b.median));
            let name = name.trim_end_matches(", neurons");
            panel
                .series
                .push(Series::new(name, colour, Mark::Line(middle)));
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
    runs: &Runs,
    columns: &[&str],
    shown: impl Fn(usize) -> bool,
) -> Vec<Panel> {
    let mut panels = Vec::new();
    for row in plan.rows() {
        let part = plan.of_row(row);
        let mut losses = Panel::new(row, Axis::new("epoch"), Axis::new("training loss"));
        for (entry, run) in part.first_runs(runs) {
            let shown_here = columns.contains(&entry.column.as_str());
            let (Some(dynamics), true) = (&run.outcome.dynamics, shown_here) else {
                continue;
            };
            let loss = line(dynamics, |s| Some(s.loss));
            let colour = colour_of(&entry.column);
            losses
                .series
                .push(Series::new(&entry.column, colour, Mark::Line(loss)));
            let reached = match run.outcome.test_acc {
                Some(accuracy) => format!("test {:.1} %", 100.0 * accuracy),
                None => "diverged".to_owned(),
            };
            let title = format!("{row}, {}, {reached}", entry.column);
            let label = "‖∇‖ / ‖θ‖, attention dashed";
            let mut panel = Panel::new(title, Axis::new("epoch"), Axis::new(label).log());
            for attention in [false, true] {
                let all = run.outcome.changes.iter();
                let of_kind: Vec<_> = all.filter(|c| c.is_attention == attention).collect();
                for (l, change) in of_kind.iter().enumerate().filter(|(l, _)| shown(l + 1)) {
                    let points = line(dynamics, |s| s.gradient[change.parameter]);
                    let (name, mark) = match attention {
                        false => (format!("layer {}", l + 1), Mark::Line(points)),
                        true => (String::new(), Mark::Dashes(points)),
                    };
                    let colour = shade(l, of_kind.len());
                    panel.series.push(Series::new(name, colour, mark));
                }
            }
            panels.push(panel);
        }
        panels.push(losses);
    }
    panels
}

/// The recorded trainings, by the names of their columns.
fn recorded<'a>(plan: &'a Plan, runs: &'a Runs) -> Vec<(&'a str, &'a Dynamics)> {
    let all = plan.first_runs(runs).into_iter();
    all.filter_map(|(e, o)| Some((e.column.as_str(), o.outcome.dynamics.as_ref()?)))
        .collect()
}

fn line(dynamics: &Dynamics, y: impl Fn(&Sample) -> Option<f64>) -> Vec<(f64, f64)> {
    let samples = dynamics.samples.iter();
    samples
        .filter_map(|s| Some((s.epoch as f64, y(s)?)))
        .collect()
}
