//! The figures of the paper, drawn from finished cells.

use crate::deep_attention::plan::Plan;
use crate::deep_attention::run::Runs;
use crate::deep_attention::tables::accuracy;
use crate::support::figures::Figure;
use crate::support::paper::curves::curves;
use crate::support::plot::{Axis, COLOURS, Heat, Mark, Panel, Series, shade};
use plotters::style::RGBColor;

/// A figure of the paper; `None` if too few cells are finished to draw it.
pub fn figure(number: u32, plan: &Plan, runs: &Runs) -> Option<Figure> {
    let name = format!("deep-attention-figure-{number}");
    match number {
        2 => gradients(&name, plan, runs),
        3 => Figure::new(
            &name,
            "Figure 3: training accuracy",
            2,
            convergence(plan, runs),
        ),
        4 => Figure::new(
            &name,
            "Figure 4: features of 100 % missing",
            1,
            by_depth(plan, runs),
        ),
        5 => Figure::new(&name, "Figure 5: TREES", 2, of_trees(plan, runs)),
        _ => Figure::new(
            &name,
            "Figure 6: accuracy by depth",
            2,
            by_depth(plan, runs),
        ),
    }
}

/// The most columns of a heat map: if there are more epochs, a column has the largest value of several
/// epochs.
const COLUMNS: usize = 50;

/// Figure 2: the norms of the gradients of attention by epoch and layer, one panel per run, all on one scale.
pub fn gradients(name: &str, plan: &Plan, runs: &Runs) -> Option<Figure> {
    let known: Vec<_> = (plan.first_runs(runs).into_iter())
        .filter_map(|(entry, run)| Some((entry, run, run.outcome.dynamics.as_ref()?)))
        .collect();
    let finite = known
        .iter()
        .flat_map(|(_, _, d)| d.gradients.iter().flatten().flatten());
    let (least, largest) = (finite.filter(|norm| **norm > 0.0))
        .fold((f32::INFINITY, 0.0_f32), |(a, b), &norm| {
            (a.min(norm), b.max(norm))
        });
    if least > largest {
        return None;
    }
    // Values below a millionth of the smallest panel's largest value change nothing in a training.
    let floor = f64::from(least).max(1e-12);
    let decades = floor.log10().floor()..f64::from(largest).log10().ceil().max(floor.log10() + 1.0);
    let mut panels = Vec::new();
    for (entry, run, dynamics) in known {
        let epochs = dynamics.gradients.len();
        let each = epochs.div_ceil(COLUMNS).max(1);
        let layers = dynamics.gradients.first().map_or(0, Vec::len);
        let mut cells = Vec::new();
        for (k, some) in dynamics.gradients.chunks(each).enumerate() {
            for layer in 0..layers {
                let of_layer = some
                    .iter()
                    .map(|norms| norms[layer].map_or(f64::NAN, f64::from));
                let value = of_layer.fold(0.0, |a: f64, b| if b.is_nan() { b } else { a.max(b) });
                let x = (k * each) as f64 + each as f64 / 2.0;
                cells.push((x, layer as f64 + 1.0, value));
            }
        }
        let heat = Heat {
            cells,
            size: (each as f64, 1.0),
            scale: 10f64.powf(decades.start)..10f64.powf(decades.end),
            log: true,
        };
        let step = ((decades.end - decades.start) / 5.0).ceil().max(1.0);
        let ticks = (0..=5).map(|k| decades.end - step * f64::from(k));
        let ticks = ticks.filter(|tick| *tick >= decades.start);
        let name = |tick: f64| match tick == decades.end {
            true => format!("norm 1e{tick:.0}"),
            false => format!("1e{tick:.0}"),
        };
        let legend = heat.legend(ticks.map(|tick| (10f64.powf(tick), name(tick))));
        let reached = match run.outcome.test_acc {
            Some(accuracy) => format!("test {:.1} %", 100.0 * accuracy),
            None => "diverged".to_owned(),
        };
        let x = Axis::new("epoch").within(0.0..epochs as f64);
        let y = Axis::new("layer").within(0.5..layers as f64 + 0.5);
        let mut panel = Panel::new(format!("{}, {reached}", entry.column), x, y);
        panel
            .series
            .push(Series::new("", COLOURS[0], Mark::Heat(heat)));
        panel.series.extend(legend);
        panels.push(panel);
    }
    Figure::new(
        name,
        "Norms of the gradients of attention, by layer and epoch",
        2,
        panels,
    )
}

/// Figure 3: one panel per normaliser, one curve per depth.
fn convergence(plan: &Plan, runs: &Runs) -> Vec<Panel> {
    let rows: Vec<String> = plan.rows().into_iter().map(str::to_owned).collect();
    let mut panels = Vec::new();
    for column in plan.columns() {
        let y = Axis::new("training accuracy").within(0.0..1.0);
        let mut panel = Panel::new(column, Axis::new("epoch"), y);
        for (entry, run) in plan.first_runs(runs) {
            let Some(dynamics) = run
                .outcome
                .dynamics
                .as_ref()
                .filter(|_| entry.column == column)
            else {
                continue;
            };
            let points = dynamics.train_acc.iter().enumerate();
            let points = points
                .map(|(k, &y)| (k as f64 + 1.0, f64::from(y)))
                .collect();
            let at = rows.iter().position(|row| *row == entry.row).unwrap_or(0);
            let colour = shade(at, rows.len());
            panel
                .series
                .push(Series::new(&entry.row, colour, Mark::Line(points)));
        }
        panels.push(panel);
    }
    panels
}

/// The colour of a variant: that of its normaliser.
fn of_norm(column: &str) -> RGBColor {
    match column.split_once('-').map(|(_, norm)| norm) {
        None => COLOURS[0],
        Some("Lip") => COLOURS[1],
        Some("Ln") => COLOURS[2],
        Some("Pn") => COLOURS[3],
        Some(_) => COLOURS[4],
    }
}

/// Figures 4 and 6: accuracy by depth, one panel per data set and model, one line per normaliser.
fn by_depth(plan: &Plan, runs: &Runs) -> Vec<Panel> {
    let mut panels = Vec::new();
    let mut sets: Vec<&str> = plan.rows().iter().map(|row| first(row, ' ')).collect();
    sets.dedup();
    let mut models: Vec<&str> = plan
        .columns()
        .iter()
        .map(|column| first(column, '-'))
        .collect();
    models.dedup();
    for set in sets {
        for model in &models {
            let mut part = plan.clone();
            part.entries
                .retain(|e| first(&e.row, ' ') == set && first(&e.column, '-') == *model);
            part.entries.retain(|e| !runs.among(&e.cells).is_empty());
            let rows = part.rows().into_iter();
            let rows: Vec<_> = rows
                .map(|row| (row, row.rsplit(' ').next().unwrap_or(row).to_owned()))
                .collect();
            let y = Axis::new("test accuracy (%)").within(0.0..100.0);
            panels.push(curves(
                &format!("{set}, {model}"),
                y,
                (&part, runs),
                &rows,
                accuracy,
                of_norm,
            ));
        }
    }
    panels
}

/// Figure 5: training accuracy by depth of the trees, one panel per model.
fn of_trees(plan: &Plan, runs: &Runs) -> Vec<Panel> {
    let mut models: Vec<&str> = plan
        .columns()
        .iter()
        .map(|column| first(column, '-'))
        .collect();
    models.dedup();
    let panel = |model: &str| {
        let mut part = plan.clone();
        part.entries.retain(|e| first(&e.column, '-') == model);
        part.entries.retain(|e| !runs.among(&e.cells).is_empty());
        let rows: Vec<_> = part
            .rows()
            .into_iter()
            .map(|row| (row, row.to_owned()))
            .collect();
        let y = Axis::new("training accuracy (%)").within(0.0..100.0);
        curves(model, y, (&part, runs), &rows, accuracy, of_norm)
    };
    models.into_iter().map(panel).collect()
}

/// The text before the first `mark`.
fn first(text: &str, mark: char) -> &str {
    text.split_once(mark).map_or(text, |(before, _)| before)
}
