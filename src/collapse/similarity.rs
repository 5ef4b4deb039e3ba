//! Angles between rows, and between columns of attention.

use super::unit_rows;
use crate::autodiff::Var;
use crate::real::Real;

/// 2/(n(n − 1)) Σ_{i<j} x_i·x_j / (‖x_i‖ ‖x_j‖), the feature similarity of Appendix C, shape `[.., n, d]` →
/// `[]`; the mean over the items of a batch.
///
/// It lies between −1/(n − 1) and 1; it is 1 if all rows point in one direction, whatever their lengths. A
/// row of zeros has the cosine 0 with all others. The result is NaN for fewer than two rows. The sum over
/// pairs is (‖Σu_i‖² − Σ‖u_i‖²)/2 of the rows of length 1, so the cost is linear in n.
///
/// # Panics
/// If x has fewer than two axes.
#[track_caller]
pub fn cosine_similarity<F: Real>(x: Var<'_, F>) -> Var<'_, F> {
    let shape = x.shape();
    let [.., n, _] = shape[..] else {
        panic!("cosine_similarity: x must be [.., n, d], not {shape:?}")
    };
    let unit = unit_rows(x);
    let together = unit.sum(&[-2], true).square().sum(&[-2, -1], false);
    let alone = unit.square().sum(&[-2, -1], false);
    let pairs = n as f64 * (n as f64 - 1.0);
    ((together - alone) / F::of(pairs)).mean_all()
}

/// The attention similarity of Appendix C: the mean over i < j of the cosines of columns i and j of the
/// coefficients, shape `[.., H, n, m]` → `[]`; the mean over heads and over the items of a batch.
///
/// Column j is the attention that all queries pay to key j. The printed formula divides by H and lacks the
/// sum over heads.
///
/// # Panics
/// If the coefficients have fewer than two axes.
#[track_caller]
pub fn attention_similarity<F: Real>(coefficients: Var<'_, F>) -> Var<'_, F> {
    let shape = coefficients.shape();
    assert!(
        shape.len() >= 2,
        "attention_similarity: coefficients must be [.., H, n, m], not {shape:?}"
    );
    cosine_similarity(coefficients.transpose(-2, -1))
}
