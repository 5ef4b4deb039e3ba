//! Softmax, its logarithm and log-sum-exp over the rows of a matrix. Elements that are −∞ take no part.
//!
//! | letter | meaning |
//! |---|---|
//! | x | the matrix, row by row |
//! | w | the length of a row |

use super::{LANES, fold, par, simd};
use crate::real::Real;
use crate::tensor::memory::{self, Buffer};

/// The cost of an exponential, in multiply-adds, for the decision to go parallel.
const EXP: usize = 8;

/// out[i, :] = softmax of row i; a row of −∞ alone gives 0.
#[inline(never)]
pub fn softmax_rows<F: Real>(x: &[F], w: usize) -> Buffer<F> {
    each_row(
        x,
        w,
        #[inline(always)]
        |x, y| {
            let shift = largest(x);
            // No element has a share.
            if shift == F::neg_infinity() {
                return y.fill(F::zero());
            }
            y.copy_from_slice(x);
            let share = exponentials(y, shift).recip();
            y.iter_mut().for_each(|y| *y *= share);
        },
    )
}

/// out[i, :] = ln softmax of row i = (x − max x) − ln Σ e^(x − max x); a row of −∞ alone gives −∞.
///
/// The largest element is taken off first. In x − ln Σ eˣ it would cancel, and with it the digits of large x.
#[inline(never)]
pub fn log_softmax_rows<F: Real>(x: &[F], w: usize) -> Buffer<F> {
    each_row(
        x,
        w,
        #[inline(always)]
        |x, y| {
            let shift = largest(x);
            if shift == F::neg_infinity() {
                return y.fill(shift);
            }
            y.copy_from_slice(x);
            let total = exponentials(y, shift).ln();
            for (y, &x) in y.iter_mut().zip(x) {
                *y = (x - shift) - total;
            }
        },
    )
}

/// outᵢ = ln Σ e^x over row i; ±∞ if that is its largest element.
///
/// # Panics
/// If w = 0.
#[inline(never)]
pub fn logsumexp_rows<F: Real>(x: &[F], w: usize) -> Vec<F> {
    let mut out = vec![F::zero(); x.len() / w];
    par::rows(&mut out, 1, w * EXP, |first, block| {
        for (row, out) in x[first * w..].chunks_exact(w).zip(block) {
            let shift = largest(row);
            *out = if shift.is_infinite() {
                shift
            } else {
                shift + row.iter().map(|&x| (x - shift).exp_v()).sum::<F>().ln()
            };
        }
    });
    out
}

/// `f(row of x, row of out)` for each row.
fn each_row<F: Real>(x: &[F], w: usize, f: impl Fn(&[F], &mut [F]) + Sync) -> Buffer<F> {
    let mut out = memory::scratch(x.len());
    par::rows(&mut out, w, w * EXP, |first, block| {
        let x = &x[first * w..][..block.len()];
        simd(
            #[inline(always)]
            || {
                for (x, y) in x.chunks_exact(w).zip(block.chunks_exact_mut(w)) {
                    f(x, y);
                }
            },
        )
    });
    out
}

/// x ← e^(x − shift), and its sum.
#[inline(always)]
pub(super) fn exponentials<F: Real>(x: &mut [F], shift: F) -> F {
    x.iter_mut().for_each(|x| *x = exponential(*x - shift));
    let (whole, rest) = x.as_chunks::<LANES>();
    // The lanes cost more than they save where rows are short.
    if whole.len() < 2 {
        return x.iter().fold(F::zero(), |sum, &x| sum + x);
    }
    let mut lanes = [F::zero(); LANES];
    for x in whole {
        for l in 0..LANES {
            lanes[l] += x[l];
        }
    }
    rest.iter().fold(fold(lanes), |sum, &x| sum + x)
}

/// eˣ. A processor takes a hundred times as long for a product that underflows, such as e^(−∞): that of a
/// masked element is not computed.
#[inline(always)]
pub(super) fn exponential<F: Real>(x: F) -> F {
    let gone = x < F::EXP_RANGE[0];
    let e = if gone { F::zero() } else { x }.exp_v();
    if gone { F::zero() } else { e }
}

/// The larger of two, NaN if one of them is.
#[inline(always)]
pub(super) fn larger<F: Real>(m: F, x: F) -> F {
    if x > m || x.is_nan() { x } else { m }
}

/// The largest element, NaN if there is one.
#[inline(always)]
pub(super) fn largest<F: Real>(row: &[F]) -> F {
    let (whole, rest) = row.as_chunks::<LANES>();
    let mut lanes = [F::neg_infinity(); LANES];
    for x in whole {
        for l in 0..LANES {
            lanes[l] = larger(lanes[l], x[l]);
        }
    }
    (lanes.iter().chain(rest)).fold(F::neg_infinity(), |m, &x| larger(m, x))
}
