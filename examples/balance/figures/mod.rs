//! The figures of the paper, drawn from finished cells.

mod change;
mod depth;
mod recorded;

pub use recorded::demonstration;

use crate::plan::{Entry, Plan};
use crate::run::Outcome;
use crate::support::args::Figures;
use crate::support::figures::write;
use crate::support::plot::{Axis, COLOURS, Mark, Panel, Series};
use crate::tables::finished;
use change::{share_that_moves, spreads, unchanged};
use depth::by_depth;
use emmy::Result;
use plotters::style::RGBColor;
use recorded::{conservation, gradients};
use std::path::PathBuf;

/// Draws a figure of the paper; none if none of its cells is finished. Returns the paths of its files, none
/// where no figure is wanted.
pub fn draw(
    number: u32,
    plan: &Plan,
    results: &[Outcome],
    to: &Figures,
) -> Result<Option<Vec<PathBuf>>> {
    let panels = match number {
        2 => conservation(plan, results),
        3 | 4 => (share_that_moves(number, plan, results).into_iter())
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
        return Ok(None);
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
    let name = format!("balance-figure-{number}");
    write(to, &name, size, title, columns, &panels).map(Some)
}

/// The schemes of Table 1.
const ALL: [&str; 4] = ["Xav", "Xav_Z", "Bal_X", "Bal_O"];

/// The colour of a column: that of its scheme, independent of which others are finished.
fn colour_of(column: &str) -> RGBColor {
    let known = [
        &ALL[..],
        &["Xavier", "LLortho", "Xavier+Bal", "LLortho+Bal"],
        &["Identity", "Identity+Bal", "LLidentity", "LLidentity+Bal"],
    ];
    let found = known.iter().enumerate().find_map(|(group, names)| {
        let at = names.iter().position(|name| *name == column)?;
        Some(at + if group == 2 { 4 } else { 0 })
    });
    COLOURS[found.unwrap_or(0)]
}

/// The colour of layer `l` of `layers`, counted from 0: dark for the first, bright for the last.
fn colour_of_layer(l: usize, layers: usize) -> RGBColor {
    let (first, last) = ([0x2b, 0x2d, 0x6e], [0xf0, 0xa0, 0x30]);
    let share = l as f64 / (layers.max(2) - 1) as f64;
    let blend = |k: usize| {
        let (from, to) = (f64::from(first[k]), f64::from(last[k]));
        (from + share * (to - from)) as u8
    };
    RGBColor(blend(0), blend(1), blend(2))
}

fn panel(title: impl Into<String>, x: &str, y: Axis) -> Panel {
    Panel {
        title: title.into(),
        x: Axis::new(x),
        y,
        series: Vec::new(),
    }
}

fn series(name: impl Into<String>, colour: RGBColor, mark: Mark) -> Series {
    Series {
        name: name.into(),
        colour,
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
