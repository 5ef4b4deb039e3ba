//! Losses that are smallest for rows that point in all directions alike.

use super::sizes;
use crate::autodiff::Var;
use crate::ops::attention::{DenseAttention, Mask, Qkv};
use crate::real::Real;
use ndarray::Array2;

/// Σ_i ln Σ_j exp(h_i·h_j/τ), Eq. (3), shape `[n, d]` → `[]`; the sums contain j = i. Its derivative is
/// (D⁻¹A + AD⁻¹)H/τ with A_ij = exp(h_i·h_j/τ) and D its row sums, Eq. (5).
///
/// It lies between n ln n, its value for rows of zeros, and n (ln n + max‖h_i‖²/τ), its value for equal rows;
/// a smaller value means more uniform rows. Scores are computed tile by tile, for the derivative too, so no
/// matrix of n × n is stored ([`DenseAttention::log_sum_exp`]).
///
/// # Panics
/// If h is not a matrix, or τ is not positive.
#[track_caller]
pub fn uniformity<F: Real>(h: Var<'_, F>, tau: f64) -> Var<'_, F> {
    sizes("uniformity", &h.shape());
    assert!(
        tau > 0.0 && tau.is_finite(),
        "uniformity: the temperature must be positive, not {tau}"
    );
    let attention = DenseAttention {
        scale: tau.recip(),
        mask: Mask::none(),
        dropout: None,
    };
    let one_head = h.unsqueeze(-2);
    let all = Qkv::new(one_head, one_head, one_head);
    attention.log_sum_exp(all).sum_all()
}

/// tr((I − HHᵀ)²)/4 (Section 3.4), shape `[n, d]` → `[]`. Its derivative is −(I − HHᵀ)H; the paper prints it
/// without the sign.
///
/// It is 0 if the rows are orthonormal, and at least (n − d)/4. For n > d it is computed as ((n − d) + tr((I
/// − HᵀH)²))/4, without a matrix of n × n.
///
/// # Panics
/// If h is not a matrix.
#[track_caller]
pub fn dimension_loss<F: Real>(h: Var<'_, F>) -> Var<'_, F> {
    let [n, d] = sizes("dimension_loss", &h.shape());
    let small = if n > d {
        h.t().matmul(h)
    } else {
        h.matmul(h.t())
    };
    let one = Array2::eye(n.min(d)).into_dyn().into_shared();
    let one = h.tape().constant(one);
    let squares = (one - small).square().sum_all();
    let more = n.saturating_sub(d) as f64;
    squares.add_scalar(F::of(more)).scale(F::of(0.25))
}
