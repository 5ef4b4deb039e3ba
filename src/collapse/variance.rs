//! Spread around the mean row.

use super::sizes;
use crate::autodiff::Var;
use crate::real::Real;

/// X − 1x̄ᵀ, the rows minus their mean x̄: of all X − 1xᵀ, the smallest in the Frobenius norm.
///
/// # Panics
/// If x is not a matrix.
#[track_caller]
pub fn centred<F: Real>(x: Var<'_, F>) -> Var<'_, F> {
    sizes("centred", &x.shape());
    x - x.mean(&[0], true)
}

/// Var(X) = ‖X − 1x̄ᵀ‖_F² = Σ_i ‖x_i − x̄‖² (Proposition 1, Eq. (12)), shape `[n, d]` → `[]`.
///
/// It is 0 exactly where all rows are equal. Its root is a measure of oversmoothing in the sense of Rusch,
/// Bronstein and Mishra ("A Survey on Oversmoothing in Graph Neural Networks", 2023): it satisfies the
/// triangle inequality too.
///
/// # Panics
/// If x is not a matrix.
#[track_caller]
pub fn variance<F: Real>(x: Var<'_, F>) -> Var<'_, F> {
    sizes("variance", &x.shape());
    centred(x).square().sum_all()
}

/// Σ_i 1/(d − 1) Σ_k (x_ik − mean_k x_ik)², the "variance" of the published code of "ContraNorm": the spread
/// of the entries within each row. NaN for d = 1.
///
/// It says nothing about collapse: if all rows are equal, it is n times the value of this row.
///
/// # Panics
/// If x is not a matrix.
#[track_caller]
pub fn row_variance<F: Real>(x: Var<'_, F>) -> Var<'_, F> {
    let [_, d] = sizes("row_variance", &x.shape());
    let squares = (x - x.mean(&[1], true)).square().sum_all();
    squares / F::of(d as f64 - 1.0)
}
