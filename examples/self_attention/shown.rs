//! The table beside the paper's numbers, and the figure.

use crate::cell::{Cell, INTERVAL};
use crate::run::Run;
use crate::support::figures::Figure;
use crate::support::paper::table::{Spread, Style, grid, values};
use crate::support::paper::{Plan, Runs};
use crate::support::plot::{Axis, Mark, Panel, Series, shade};

const STYLE: Style = Style {
    spread: Spread::Deviation,
    decimals: 3,
    difference: false,
    absent: "diverged",
};

/// The test losses, then the gradients of the first and the last block.
pub fn tables(plan: &Plan<Cell>, runs: &Runs<Cell>) -> String {
    let losses = values(plan, runs, STYLE, |run| run.outcome.test_loss);
    let gradients = grid(plan, runs, |found, _| {
        let Some(run) = found.first() else {
            return String::new();
        };
        let at = |epoch: Option<&Vec<Option<f32>>>| {
            let number = |x: Option<&Option<f32>>| match x {
                Some(Some(x)) => format!("{x:.1e}"),
                _ => "–".to_owned(),
            };
            epoch.map_or("–".to_owned(), |norms| {
                format!("{} {}", number(norms.first()), number(norms.last()))
            })
        };
        let norms = &run.outcome.gradients;
        format!("{}; {}", at(norms.first()), at(norms.last()))
    });
    let entries = plan.entries.iter();
    let all: Vec<&Run> = entries.flat_map(|e| runs.among(&e.cells)).collect();
    let minutes = all.iter().map(|run| run.seconds).sum::<f64>() / 60.0;
    let settings = plan.entries.first().and_then(|e| e.cells.first());
    let settings = settings.map_or(String::new(), |c| {
        format!(", width {}, {} steps, η {}", c.width, c.steps, c.lr)
    });
    let beside = match plan.entries.iter().any(|entry| entry.paper.is_some()) {
        true => ": ours (the paper's)",
        false => "",
    };
    format!(
        "{}{settings}{beside}\n\n{losses}\n\
         Norm of the gradient of the first and the last block: over the first {INTERVAL} steps; over the last\n\n\
         {gradients}\n{} runs, {minutes:.0} min in all\n",
        plan.title,
        all.len(),
    )
}

/// Figure 4: validation loss over the steps, one panel per kind of attention, one curve per depth.
pub fn figure(plan: &Plan<Cell>, runs: &Runs<Cell>) -> Option<Figure> {
    let rows = plan.rows();
    let found = plan.first_runs(runs);
    let most = found
        .iter()
        .flat_map(|(_, run)| run.outcome.curve.iter().flatten());
    let top = most.fold(0.0, |a: f32, &b| a.max(b));
    let least = found
        .iter()
        .flat_map(|(_, run)| run.outcome.curve.iter().flatten());
    let least = least.fold(f32::INFINITY, |a, &b| a.min(b));
    let panels = plan.columns().into_iter().map(|column| {
        let y = Axis::new("validation loss (nats per character)");
        let y = y.within(f64::from(least.min(top)) - 0.05..f64::from(top) + 0.05);
        let mut panel = Panel::new(column, Axis::new("step"), y);
        for (entry, run) in found.iter().filter(|(entry, _)| entry.column == column) {
            let points = run.outcome.curve.iter().enumerate().filter_map(|(k, y)| {
                let step = (k + 1) * INTERVAL.min(run.cell.steps) as usize;
                Some((step as f64, f64::from((*y)?)))
            });
            let place = rows.iter().position(|row| *row == entry.row).unwrap_or(0);
            let colour = shade(place, rows.len());
            let mark = Mark::Line(points.collect());
            panel.series.push(Series::new(&entry.row, colour, mark));
        }
        panel
    });
    let title = "Figure 4: training by depth, post-norm, fixed learning rate";
    Figure::new("self-attention-figure-4", title, 3, panels.collect())
}
