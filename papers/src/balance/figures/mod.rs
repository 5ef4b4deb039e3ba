//! The figures of the paper, drawn from finished cells.

mod change;
mod depth;
mod recorded;

pub use recorded::demonstration;

use crate::balance::plan::Plan;
use crate::balance::run::Runs;
use crate::support::figures::Figure;
use crate::support::plot::{COLOURS, Panel};
use change::{share_that_moves, spreads, unchanged};
use depth::by_depth;
use plotters::style::RGBColor;
use recorded::{conservation, gradients};

/// A figure of the paper; `None` if too few cells are finished to draw it.
pub fn figure(number: u32, plan: &Plan, runs: &Runs) -> Option<Figure> {
    let panels: Vec<Panel> = match number {
        2 => conservation(plan, runs),
        3 | 4 => (share_that_moves(number, plan, runs).into_iter())
            .chain(gradients(plan, runs, &["Xav", "Bal_O"], |_| true))
            .collect(),
        5 => gradients(plan, runs, &ALL, |layer| [1, 5, 10].contains(&layer)),
        6 | 7 | 9 | 10 => by_depth(plan, runs),
        8 => unchanged(plan, runs),
        11 => spreads(plan, runs),
        _ => gradients(plan, runs, &ALL, |_| true),
    };
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
    Figure::new(&format!("balance-figure-{number}"), title, columns, panels)
}

/// The schemes of Table 1.
const ALL: [&str; 4] = ["Xav", "Xav_Z", "Bal_X", "Bal_O"];

/// The colour of a column: that of its scheme, whichever other columns are finished.
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
