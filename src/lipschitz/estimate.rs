//! Lower bounds at one input: norms of Jacobians and difference quotients.

use crate::autodiff::{Tape, Var, jacobian, jvp, vjp};
use crate::init;
use crate::linalg::{Interval, Lower, Lp, Upper, gamma};
use crate::real::Real;
use crate::tensor::Tensor;
use ndarray::Array2;

/// A lower bound of ‖J‖₂ for J = ∂y/∂x at the recorded x: ‖J v‖ / ‖v‖ after power iteration v ← JᵀJ v, with
/// products by J and Jᵀ only.
///
/// The result is rounded down, by the error of a chain of as many sums as the tape has operations between x
/// and y, each of the length of the longest axis, in the model's type. Where sums cancel, the computed J v
/// has a larger error: use `f64`.
///
/// It stops when the estimate has grown by less than 1e-9 of itself, or after `steps` steps. The difference
/// from ‖J‖₂ is not known ([`jacobian_norm`] gives an interval).
///
/// # Panics
/// If the variables are on different tapes.
#[track_caller]
#[inline(never)]
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
    let error = rounding(y, x);
    let (mut best, mut found) = (0.0f64, Lower::ZERO);
    for _ in 0..steps.max(1) {
        // v is a unit vector up to rounding.
        let before = Lp::Two.of(v.iter().map(|v| v.as_f64()));
        let (next, size) = unit(jvp(y, &[x], &[v.clone()]));
        u = next;
        if !size.is_finite() {
            break;
        }
        if size > 0.0 && before > 0.0 {
            found = found.max(Lower::rounded(size / before, error));
        }
        let gain = size - best;
        best = best.max(size);
        if size == 0.0 || gain < 1e-9 * size {
            break;
        }
        v = unit(vjp(y, &[x], &u).swap_remove(0)).0;
    }
    (found, u, v)
}

/// A relative error of a norm of J v: that of the sums on the way from x to y, in the model's type, and of
/// two norms and a division in `f64`.
pub(super) fn rounding<F: Real>(y: Var<'_, F>, x: Var<'_, F>) -> f64 {
    let nodes = x.id()..y.id() + 1;
    let longest = nodes.clone().filter_map(|id| {
        let node = y.tape().node(id);
        node.shape.iter().copied().max()
    });
    let sums = nodes.len() * longest.max().unwrap_or(1);
    let unit = F::epsilon().as_f64() / f64::EPSILON;
    gamma(sums) * unit + 4.0 * gamma(x.len().max(y.len()))
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
/// The upper bound is that of the computed matrix, whose entries have the rounding error of the model's type.
/// From the lower bound this error is subtracted, as in [`local`]. If an entry is not finite, nothing is
/// known: \[0, ∞\].
///
/// # Panics
/// If the variables are on different tapes.
#[track_caller]
#[inline(never)]
pub fn jacobian_norm<F: Real>(y: Var<'_, F>, x: Var<'_, F>, p: Lp) -> (Interval, Jacobian) {
    let (m, n) = (y.len(), x.len());
    let j = jacobian(y, x).mapv(Real::as_f64);
    let j = j.as_standard_layout().into_owned();
    let j = j.into_shape_with_order((m, n)).expect("as many entries");
    if !j.iter().all(|x| x.is_finite()) {
        let (lower, upper) = (Lower::ZERO, Upper::INFINITE);
        return (Interval { lower, upper }, j);
    }
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
        // The sums of m or n numbers were rounded up.
        _ if upper.is_finite() => Lower::rounded(upper.get(), 4.0 * gamma(m.max(n))),
        _ => Lower::ZERO,
    };
    let lower = Lower::rounded(lower.get(), rounding(y, x));
    (Interval { lower, upper }, j)
}

/// A lower bound of ‖f(x) − f(x′)‖_p / ‖x − x′‖_p; 0 if x = x′ or a number is not finite.
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
    let found = distance(&value(x), &value(other)) / apart;
    match apart > 0.0 && apart.is_finite() && found.is_finite() {
        true => Lower::rounded(found, 4.0 * gamma(x.len().max(1))),
        false => Lower::ZERO,
    }
}
