//! Curves over the rows of a plan, for example accuracy over depth.

use super::cell::{Cell, Finished, Runs};
use super::plan::Plan;
use super::table::mean_interval;
use crate::support::plot::{Axis, Mark, Panel, Series};
use plotters::style::RGBColor;

/// One line per column of a plan over some of its rows: the mean of a value with its 95 % confidence
/// interval. Rows have the names of `rows`; a column without a finished run has no line.
pub fn curves<C: Cell>(
    title: &str,
    y: Axis,
    (plan, runs): (&Plan<C>, &Runs<C>),
    rows: &[(&str, String)],
    value: impl Fn(&Finished<C>) -> Option<f64>,
    colour: impl Fn(&str) -> RGBColor,
) -> Panel {
    let mut panel = Panel::new(title, Axis::new(""), y);
    panel.x = panel
        .x
        .named(rows.iter().map(|(_, name)| name.clone()).collect());
    for column in plan.columns() {
        let points = rows.iter().enumerate().filter_map(|(x, (row, _))| {
            let found = runs.among(&plan.entry_at(row, column)?.cells);
            let values: Vec<f64> = found.into_iter().filter_map(&value).collect();
            let (mean, interval) = mean_interval(&values);
            (!values.is_empty()).then(|| (x as f64, mean, interval.unwrap_or(0.0)))
        });
        let points: Vec<_> = points.collect();
        if !points.is_empty() {
            let series = Series::new(column, colour(column), Mark::Points(points));
            panel.series.push(series);
        }
    }
    panel
}
