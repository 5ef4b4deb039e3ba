//! The roots of the variances and mean squares of rows, by which LayerNorm and RMSNorm divide.

use crate::linalg::Upper;
use ndarray::{ArrayD, Axis};

/// A lower bound of √v for the rows of x (along the last axis): v is the variance of a row, or its mean
/// square if it is not `centred`.
pub(super) fn least_root(x: &ArrayD<f64>, centred: bool) -> f64 {
    let d = x.shape().last().copied().unwrap_or(1);
    let roots = x.lanes(Axis(x.ndim() - 1)).into_iter().map(|row| {
        let mean = if centred { row.sum() / d as f64 } else { 0.0 };
        let square = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / d as f64;
        // The error of the mean adds its square, and each difference its rounding.
        let largest = row.fold(0.0f64, |m, x| m.max(x.abs()));
        let wrong = (d + 2) as f64 * f64::EPSILON * largest;
        square.sqrt() - if centred { 2.0 * wrong } else { 0.0 }
    });
    roots.fold(f64::MAX, |m, x| if x.is_nan() { 0.0 } else { m.min(x) })
}

/// The same for all rows of d entries that are within a 2-norm distance of those of x: √v is 1/√d times the
/// norm of a projection of the row.
pub(super) fn least_root_near(x: &ArrayD<f64>, centred: bool, distance: Upper) -> f64 {
    let d = x.shape().last().copied().unwrap_or(1) as f64;
    let lost = (distance.get() / d.sqrt()).next_up().next_up();
    (least_root(x, centred) - lost).next_down()
}

/// The most by which a norm multiplies a difference, 1/√(v + ε), where √v ≥ `root`; infinite if v + ε may
/// be 0.
pub(super) fn largest_scale(root: f64, eps: f64) -> Upper {
    let inner = root.max(0.0).powi(2) * (1.0 - 1e-9) + eps;
    match inner > 0.0 {
        true => Upper::rounded(1.0 / inner.sqrt(), 8.0 * f64::EPSILON),
        false => Upper::INFINITE,
    }
}
