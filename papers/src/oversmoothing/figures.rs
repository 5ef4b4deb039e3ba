//! The figure of a table: accuracy by depth, and ranks and similarities layer by layer.

use crate::oversmoothing::cell::Cell;
use crate::oversmoothing::plan::Plan;
use crate::oversmoothing::run::{Run, Runs};
use crate::oversmoothing::tables::Way;
use crate::support::figures::Figure;
use crate::support::plot::{Axis, COLOURS, Mark, Panel, Series};

/// The measure of a run that is drawn, layer by layer.
type Measure = fn(&Run) -> &[Option<f32>];

/// One panel per data set and depth: the effective rank after each layer; one curve per method, the mean of
/// the runs of the chosen s.
pub fn ranks(plan: &Plan, runs: &Runs) -> Option<Figure> {
    let mut panels: Vec<(String, [Panel; 2])> = Vec::new();
    for entry in &plan.entries {
        let found = runs.among(&entry.cells);
        let chosen = Way::Validation.chosen(&found);
        let Some(Cell {
            dataset,
            layers,
            method,
            ..
        }) = chosen.first().map(|run| &run.cell)
        else {
            continue;
        };
        if *layers < 3 {
            continue;
        }
        let title = format!("{dataset}, {layers} layers");
        let at = match panels.iter().position(|(name, _)| *name == title) {
            Some(at) => at,
            None => {
                let panel = |what: &str| {
                    let y = Axis::new(what);
                    Panel::new(title.clone(), Axis::new("layer"), y)
                };
                panels.push((
                    title.clone(),
                    [panel("effective rank"), panel("mean cosine similarity")],
                ));
                panels.len() - 1
            }
        };
        let of: [Measure; 2] = [|run| &run.outcome.erank, |run| &run.outcome.similarity];
        for (panel, of) in panels[at].1.iter_mut().zip(of) {
            let points = (0..layers - 1).filter_map(|l| {
                let known: Vec<f64> = (chosen.iter())
                    .filter_map(|run| of(run).get(l).copied().flatten().map(f64::from))
                    .collect();
                let mean = known.iter().sum::<f64>() / known.len() as f64;
                (!known.is_empty()).then_some((l as f64 + 1.0, mean))
            });
            let points: Vec<_> = points.collect();
            if !points.is_empty() {
                let colour = COLOURS[*method as usize % COLOURS.len()];
                let series = Series::new(method.printed(), colour, Mark::Line(points));
                panel.series.push(series);
            }
        }
    }
    let panels = panels.into_iter().flat_map(|(_, both)| both).collect();
    Figure::new(
        "oversmoothing",
        "Collapse by layer, after training",
        2,
        panels,
    )
}
