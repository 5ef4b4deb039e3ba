//! Which spreads are possible for accuracies between 0 and 100.

use super::printed::{Printed, Spread, Table};
use crate::support::paper::Number;
use crate::support::paper::table::student;

/// The largest sample standard deviation of n numbers in [0, 100] with this mean: all but one of them are at
/// an end.
///
/// ```
/// use papers::audit::largest_deviation;
///
/// // 0, 0 and 100, or 0, 0, 0, 0 and 100.
/// assert!((largest_deviation(100.0 / 3.0, 3) - 57.735).abs() < 1e-3);
/// assert!((largest_deviation(20.0, 5) - 44.721).abs() < 1e-3);
/// ```
///
/// # Panics
/// If n < 2.
pub fn largest_deviation(mean: f64, n: u32) -> f64 {
    assert!(n > 1, "one number has no deviation");
    let n = f64::from(n);
    let sum = n * mean;
    let full = (sum / 100.0).floor();
    let rest = sum - 100.0 * full;
    let squares = 1e4 * full + rest * rest;
    ((squares - sum * sum / n) / (n - 1.0)).max(0.0).sqrt()
}

/// Whether n runs can have the printed mean and spread, up to the rounding of both.
pub fn is_possible(number: &Number, spread: Spread, n: u32) -> bool {
    let Some(printed) = number.spread else {
        return true;
    };
    let around = [
        number.mean - number.half(),
        number.mean,
        number.mean + number.half(),
    ];
    let factor = match spread {
        Spread::Interval => student(n as usize) / f64::from(n).sqrt(),
        Spread::Deviation => 1.0,
    };
    let largest = around.map(|mean| largest_deviation(mean.clamp(0.0, 100.0), n));
    let largest = largest.into_iter().fold(0.0, f64::max);
    printed <= factor * largest + number.half()
}

/// A print whose spread is too large for the runs that the paper names.
#[derive(Debug, Clone)]
pub struct Excess {
    pub table: String,
    pub cell: Printed,
    /// The runs that the paper names.
    pub runs: u32,
    /// The largest possible number of runs.
    pub at_most: u32,
}

/// The most runs that are tried.
const MOST: u32 = 30;

/// The prints of a table with an impossible spread, and the largest number of runs that all its prints allow,
/// if that is below the number that the paper names.
pub fn excesses(table: &Table) -> Vec<Excess> {
    let Some(runs) = table.runs.filter(|&runs| runs > 1 && table.percent) else {
        return Vec::new();
    };
    let cells = table.cells.iter();
    let impossible = cells.filter(|cell| !is_possible(&cell.number, table.spread, runs));
    let at_most = |cell: &Printed| {
        let possible = |&n: &u32| is_possible(&cell.number, table.spread, n);
        (2..=MOST).rev().find(possible).unwrap_or(1)
    };
    let excess = |cell: &Printed| Excess {
        table: table.name(),
        cell: cell.clone(),
        runs,
        at_most: at_most(cell),
    };
    impossible.map(excess).collect()
}
