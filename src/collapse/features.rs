//! Losses between features: they make columns orthogonal.

use super::contrast::same_shape;
use super::sizes;
use crate::autodiff::Var;
use crate::real::Real;
use crate::tensor::Tensor;
use ndarray::Array2;

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
    let one = h.tape().constant(identity(n.min(d)));
    let squares = (one - small).square().sum_all();
    let more = n.saturating_sub(d) as f64;
    squares.add_scalar(F::of(more)).scale(F::of(0.25))
}

/// C_ij = Σ_b a_bi b_bj / (√Σ_b a_bi² √Σ_b b_bj²), the correlation below Eq. (29), shapes `[n, d]`, twice, →
/// `[d, d]`. Features are not centred. A feature that is 0 everywhere has the correlation 0.
///
/// Zbontar et al., "Barlow Twins: Self-Supervised Learning via Redundancy Reduction", ICML 2021, whose code
/// centres the features and divides by their standard deviation: to get the same, centre both views.
///
/// # Panics
/// If the views are not matrices of the same shape, or are on different tapes.
#[track_caller]
pub fn cross_correlation<'t, F: Real>(a: Var<'t, F>, b: Var<'t, F>) -> Var<'t, F> {
    same_shape("cross_correlation", a, b);
    let [a, b] = [a, b].map(|x| x * x.norm(&[0], true).recip_or_zero());
    a.t().matmul(b)
}

/// Σ_i (1 − C_ii)² + λ Σ_i Σ_{j≠i} C_ij², Eq. (29), of [`cross_correlation`], → `[]`.
///
/// # Panics
/// If the views are not matrices of the same shape, or are on different tapes.
#[track_caller]
pub fn barlow_twins<'t, F: Real>(a: Var<'t, F>, b: Var<'t, F>, lambda: f64) -> Var<'t, F> {
    let [_, d] = same_shape("barlow_twins", a, b);
    let c = cross_correlation(a, b);
    let one = identity::<F>(d);
    let weights = one.mapv(|x| F::of(lambda) + x * F::of(1.0 - lambda));
    let tape = a.tape();
    let gaps = (tape.constant(one) - c).square();
    (gaps * tape.constant(weights.into_shared())).sum_all()
}

fn identity<F: Real>(n: usize) -> Tensor<F> {
    Array2::eye(n).into_dyn().into_shared()
}
