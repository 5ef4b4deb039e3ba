//! Collapse, or oversmoothing: how alike the rows of a feature matrix have become, and in how few directions
//! they still differ.
//!
//! X is a matrix `[n, d]`; its rows x_i are nodes or tokens. A measure that has a gradient is a function of a
//! [`Var`], and [`value`] evaluates it on an array; the other measures take an array.
//!
//! | measure | formula | collapsed |
//! |---|---|---|
//! | [`Spectrum`] | singular values σ; effective rank exp(entropy of σ/Σσ), numerical rank ‖X‖_F²/‖X‖₂² | 1 |
//! | [`variance`] | ‖X − 1x̄ᵀ‖_F² | 0 |
//! | [`row_variance`] | Σ_i of the unbiased variance of the entries of x_i, as in the published code | does not show it |
//! | [`rank_one_residual`], [`rank_one_distance`] | √(‖R‖₁‖R‖∞) of R = X − 1xᵀ | 0 |
//! | [`cosine_similarity`], [`attention_similarity`] | mean over i < j of cos(x_i, x_j); of columns of attention | 1 |
//! | [`dirichlet_energy`], [`normalised_dirichlet_energy`] | ½ Σ_{j→i} ‖x_i − x_j‖², and with x/√degree | 0 |
//! | [`uniformity`] | Σ_i ln Σ_j exp(x_i·x_j/τ), the loss of which ContraNorm is a step | large |
//! | [`dimension_loss`] | tr((I − XXᵀ)²)/4 | large |
//!
//! Guo, Wang, Du and Wang, "ContraNorm: A Contrastive Learning Perspective on Oversmoothing and Beyond", ICLR
//! 2023, unless another source is named. [`Trace::collapse`](crate::nn::Trace::collapse) reads the measures
//! off a recorded pass, layer by layer; `docs/evidence/collapse.md` lists the propositions and says which of
//! them hold.

mod energy;
mod losses;
mod rank_one;
mod similarity;
mod spectrum;
mod variance;

pub use energy::{dirichlet_energy, normalised_dirichlet_energy};
pub use losses::{dimension_loss, uniformity};
pub use rank_one::{rank_one_distance, rank_one_norm, rank_one_residual};
pub use similarity::{attention_similarity, cosine_similarity};
pub use spectrum::Spectrum;
pub use variance::{centred, row_variance, variance};

use crate::autodiff::{Tape, Var};
use crate::real::Real;
use crate::tensor::{Tensor, tensor};
use ndarray::{Array2, ArrayView1, Ix2};

/// The number that a measure gives for an array.
///
/// ```
/// use emmy::{collapse::{value, variance}, tensor::tensor};
/// let x = tensor(&[2, 2], vec![1.0, 0.0, 3.0, 0.0]);
/// assert_eq!(value(&x, variance), 2.0);
/// ```
///
/// # Panics
/// As the measure does, and if its result is not one number.
#[track_caller]
pub fn value<F: Real>(
    x: &Tensor<F>,
    measure: impl for<'t> FnOnce(Var<'t, F>) -> Var<'t, F>,
) -> f64 {
    let tape = Tape::new();
    tape.no_grad(|| measure(tape.constant(x.clone())).item().as_f64())
}

/// The sizes of a matrix.
#[track_caller]
fn sizes(op: &str, shape: &[usize]) -> [usize; 2] {
    let &[n, d] = shape else {
        panic!("{op}: x must be a matrix [n, d], not {shape:?}")
    };
    [n, d]
}

/// The matrix in `f64`.
#[track_caller]
fn matrix<F: Real>(op: &str, x: &Tensor<F>) -> Array2<f64> {
    sizes(op, x.shape());
    let x = x.mapv(Real::as_f64);
    x.into_dimensionality::<Ix2>().expect("two axes")
}

/// Rows of length 1; rows of zeros stay, and their derivative is 0. A power of two brings the largest entry
/// of a row near 1 first, so that no square is 0 or infinite.
fn unit_rows<F: Real>(x: Var<'_, F>) -> Var<'_, F> {
    let value = x.value();
    let mut shape = value.shape().to_vec();
    *shape.last_mut().expect("an axis of rows") = 1;
    let most = F::max_value().as_f64().log2().floor() - 4.0;
    let power = |row: ArrayView1<'_, F>| {
        let largest = row.fold(0.0_f64, |m, x| m.max(x.as_f64().abs()));
        let exponent = match largest > 0.0 && largest.is_finite() {
            true => largest.log2().floor().clamp(-most, most) as i32,
            false => 0,
        };
        F::of(2f64.powi(-exponent))
    };
    let powers = value.rows().into_iter().map(power).collect();
    let x = x * x.tape().constant(tensor(&shape, powers));
    x * x.norm(&[-1], true).recip_or_zero()
}
