//! Lower bounds at one input: norms of Jacobians and difference quotients.

use crate::autodiff::{Tape, Var, jacobian, jvp, vjp};
use crate::init;
use crate::linalg::{Interval, Lower, Lp};
use crate::real::Real;
use crate::tensor::Tensor;
use ndarray::Array2;

/// A lower bound of ‖J‖₂ for J = ∂y/∂x at the recorded x: ‖J v‖ / ‖v‖ after power iteration v ← JᵀJ v, with
/// products by J and Jᵀ only.
///
/// It stops when the estimate has grown by less than 1e-9 of itself, or after `steps` steps. The difference
/// from ‖J‖₂ is not known ([`jacobian_norm`] gives an interval).
///
/// # Panics
/// If the variables are on different tapes.
#[track_caller]
pub fn local<F: Real>(y: Var<'_, F>, x: Var<'_, F>, steps: usize, seed: u64) -> Lower {
    singular(y, x, None, steps, seed).0
}

/// The estimate, and the singular vectors u and v with which it was found. The iteration starts from v if it
/// is given.
pub(super) fn singular<F: Real>(
    y: Var<'_, F>,
    x: Var<'_, F>,
    start: Option<Tensor<F>>,
    steps: usize,
    seed: u64,
) -> (Lower, Tensor<F>, Tensor<F>) {
    let normal = || init::normal(&x.shape()[..], 1.0, &mut init::rng(seed));
    let mut v = unit(start.unwrap_or_else(normal)).0;
    let mut u = Tensor::zeros(y.shape());
    let mut best = 0.0f64;
    for _ in 0..steps.max(1) {
        let (next, size) = unit(jvp(y, &[x], &[v.clone()]));
        u = next;
        let gain = size - best;
        best = best.max(size);
        if size == 0.0 || gain < 1e-9 * size {
            break;
        }
        v = unit(vjp(y, &[x], &u).swap_remove(0)).0;
    }
    (Lower::new(best), u, v)
}

/// x / ‖x‖₂ and ‖x‖₂; zeros stay.
pub(super) fn unit<F: Real>(x: Tensor<F>) -> (Tensor<F>, f64) {
    let norm = Lp::Two.of(x.iter().map(|x| x.as_f64()));
    match norm > 0.0 {
        true => (x.mapv(|x| F::of(x.as_f64() / norm)).into_shared(), norm),
        false => (x, 0.0),
    }
}

/// The Jacobian at one input as a matrix in `f64`: a row per entry of y, a column per entry of x.
pub type Jacobian = Array2<f64>;

/// An interval of ‖J‖_p for J = ∂y/∂x at the recorded x, computed from the whole matrix: for small maps.
/// Returns the matrix too.
///
/// The bounds are those of the computed matrix, whose entries have the rounding error of the model's type.
///
/// # Panics
/// If the variables are on different tapes, or an entry of J is not finite.
#[track_caller]
pub fn jacobian_norm<F: Real>(y: Var<'_, F>, x: Var<'_, F>, p: Lp) -> (Interval, Jacobian) {
    let (m, n) = (y.len(), x.len());
    let j = jacobian(y, x).mapv(Real::as_f64);
    let j = j.as_standard_layout().into_owned();
    let j = j.into_shape_with_order((m, n)).expect("as many entries");
    let upper = p.matrix(j.view());
    // The upper bound is tight to 1e-9; for the largest singular value, one product gives a lower bound of
    // the same accuracy.
    let lower = match p {
        Lp::Two => {
            let v = crate::linalg::svd(j.view()).2;
            match v.nrows() {
                0 => Lower::ZERO,
                _ => crate::linalg::power_iteration(j.view(), v.row(0), 2),
            }
        }
        _ => Lower::new(upper.get() * (1.0 - 1e-12)),
    };
    (Interval { lower, upper }, j)
}

/// A lower bound of ‖f(x) − f(x′)‖_p / ‖x − x′‖_p; 0 if x = x′.
///
/// It is computed in the model's type: where the two points are close, the difference of the values is mostly
/// rounding. `f` must not be random.
///
/// # Panics
/// If the points have different shapes, or `f` panics.
#[track_caller]
pub fn quotient<F: Real>(
    f: impl for<'t> Fn(Var<'t, F>) -> Var<'t, F>,
    x: &Tensor<F>,
    other: &Tensor<F>,
    p: Lp,
) -> Lower {
    assert!(
        x.shape() == other.shape(),
        "quotient: points of shapes {:?} and {:?}",
        x.shape(),
        other.shape()
    );
    let value = |x: &Tensor<F>| {
        let tape = Tape::new();
        tape.no_grad(|| f(tape.constant(x.clone())).value())
    };
    let distance = |a: &Tensor<F>, b: &Tensor<F>| {
        p.of(a.iter().zip(b.iter()).map(|(a, b)| a.as_f64() - b.as_f64()))
    };
    let apart = distance(x, other);
    match apart > 0.0 {
        true => Lower::new(distance(&value(x), &value(other)) / apart),
        false => Lower::ZERO,
    }
}
