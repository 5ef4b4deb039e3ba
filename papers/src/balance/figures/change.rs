//! How far parameters have moved from the start, by layer.

use super::colour_of;
use crate::balance::change::LayerChange;
use crate::balance::plan::Plan;
use crate::balance::run::Runs;
use crate::support::plot::{Axis, Mark, Panel, Series};

/// Figures 3a and 4a: the share of significant entries that moved by more than 5 % (50 %).
pub fn share_that_moves(number: u32, plan: &Plan, runs: &Runs) -> Vec<Panel> {
    let (share, least): (fn(&LayerChange) -> f64, _) = match number {
        3 => (|c| c.beyond_005, "5 %"),
        _ => (|c| c.beyond_05, "50 %"),
    };
    let label = format!("share moved by more than {least}");
    let of = |(attention, what): (bool, &str)| Panel {
        title: what.to_owned(),
        ..bars(plan, runs, &label, attention, share)
    };
    [(false, "weights"), (true, "attention")].map(of).into()
}

/// Figure 8: the share of weights and attention entries that are unchanged.
pub fn unchanged(plan: &Plan, runs: &Runs) -> Vec<Panel> {
    let mut panels = Vec::new();
    for row in plan.rows() {
        let part = plan.of_row(row);
        for (attention, what) in [(false, "weights"), (true, "attention")] {
            let mut panel = bars(&part, runs, "share unchanged", attention, |c| c.unchanged);
            panel.title = format!("{row}, {what}");
            panels.push(panel);
        }
    }
    panels
}

/// Bars by layer, one colour per initialisation. The networks of these figures have one weight and
/// one attention vector per layer.
fn bars(
    plan: &Plan,
    runs: &Runs,
    label: &str,
    attention: bool,
    value: impl Fn(&LayerChange) -> f64,
) -> Panel {
    let all = plan.first_runs(runs);
    let width = 0.8 / all.len().max(1) as f64;
    let mut panel = Panel::new("", Axis::new("layer"), Axis::new(label));
    let mut tallest = 0.0_f64;
    for (k, (entry, run)) in all.iter().enumerate() {
        let layers = run
            .outcome
            .changes
            .iter()
            .filter(|c| c.is_attention == attention);
        let places = layers.enumerate().map(|(l, change)| {
            let at = l as f64 + (k as f64 + 0.5) * width - 0.4;
            tallest = tallest.max(value(change));
            (at, value(change))
        });
        let mark = Mark::Bars(places.collect(), 0.9 * width);
        panel
            .series
            .push(Series::new(&entry.column, colour_of(&entry.column), mark));
    }
    let layers = all.iter().map(|(_, o)| o.cell.layers).max().unwrap_or(0);
    panel.x = panel.x.named((1..=layers).map(|l| l.to_string()).collect());
    panel.y = panel.y.within(0.0..1.05 * tallest.max(0.1));
    panel
}

/// Figure 11: relative changes of weights, absolute changes of attention entries.
pub fn spreads(plan: &Plan, runs: &Runs) -> Vec<Panel> {
    let mut panels = Vec::new();
    for row in plan.rows() {
        let part = plan.of_row(row);
        let all = part.first_runs(runs);
        for (attention, what) in [(false, "relative, weights"), (true, "absolute, attention")] {
            let mut panel = Panel::new(
                format!("{row}, {what}"),
                Axis::new("layer"),
                Axis::new("change").log(),
            );
            for (k, (entry, run)) in all.iter().enumerate() {
                let layers = run
                    .outcome
                    .changes
                    .iter()
                    .filter(|c| c.is_attention == attention);
                let boxes = layers.enumerate().filter_map(|(l, change)| {
                    let s = change.spread?;
                    let at = l as f64 + (k as f64 - 1.5) * 0.2;
                    let five = [s.min, s.lower, s.median, s.upper, s.max];
                    Some((at, five, s.mean))
                });
                panel.series.push(Series::new(
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
