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

/// Elements whose exponentials one loop computes. The rows of class scores are short, and those of many rows
/// fill its vectors; so few stay in the first-level cache.
const AT_ONCE: usize = 1024;

/// out[i, :] = softmax of row i; a row of −∞ alone gives 0.
#[inline(never)]
pub fn softmax_rows<F: Real>(x: &[F], w: usize) -> Buffer<F> {
    let mut out = memory::scratch(x.len());
    each_row(
        (x, w),
        (&mut out, w),
        #[inline(always)]
        |row, y| {
            // No element has a share.
            if row.shift == F::neg_infinity() {
                return y.fill(F::zero());
            }
            let share = total(row.exponentials).recip();
            for i in 0..y.len().min(row.exponentials.len()) {
                y[i] = row.exponentials[i] * share;
            }
        },
    );
    out
}

/// out[i, :] = ln softmax of row i = (x − max x) − ln Σ e^(x − max x); a row of −∞ alone gives −∞.
///
/// The largest element is taken off first. In x − ln Σ eˣ it would cancel, and with it the digits of large x.
#[inline(never)]
pub fn log_softmax_rows<F: Real>(x: &[F], w: usize) -> Buffer<F> {
    let mut out = memory::scratch(x.len());
    each_row(
        (x, w),
        (&mut out, w),
        #[inline(always)]
        |row, y| {
            if row.shift == F::neg_infinity() {
                return y.fill(row.shift);
            }
            let total = total(row.exponentials).ln();
            for i in 0..y.len().min(row.x.len()) {
                y[i] = (row.x[i] - row.shift) - total;
            }
        },
    );
    out
}

/// outᵢ = ln Σ e^x over row i; ±∞ if that is its largest element.
///
/// # Panics
/// If w = 0.
#[inline(never)]
pub fn logsumexp_rows<F: Real>(x: &[F], w: usize) -> Vec<F> {
    let mut out = vec![F::zero(); x.len() / w];
    each_row(
        (x, w),
        (&mut out, 1),
        #[inline(always)]
        |row, out| {
            out[0] = if row.shift.is_infinite() {
                row.shift
            } else {
                row.shift + total(row.exponentials).ln()
            };
        },
    );
    out
}

/// A row x with its largest element and e^(x − shift).
struct Row<'a, F> {
    x: &'a [F],
    shift: F,
    exponentials: &'a [F],
}

/// `f(row of x, row of out)` for each row; `x` and `out` come with the lengths of their rows.
fn each_row<F: Real>(
    (x, w): (&[F], usize),
    (out, width): (&mut [F], usize),
    f: impl Fn(Row<F>, &mut [F]) + Sync,
) {
    let rows = (AT_ONCE / w.max(1)).max(1);
    par::rows(out, width, w * EXP, |first, block| {
        simd(
            #[inline(always)]
            || {
                let (mut e, mut shifts) = (vec![F::zero(); rows * w], vec![F::zero(); rows]);
                for (group, out) in block.chunks_mut(rows * width).enumerate() {
                    let rows_here = out.len() / width;
                    let x = &x[(first + group * rows) * w..][..rows_here * w];
                    let e = &mut e[..x.len()];
                    for r in 0..rows_here {
                        let (x, e) = (&x[r * w..][..w], &mut e[r * w..][..w]);
                        let shift = largest(x);
                        shifts[r] = shift;
                        for i in 0..w {
                            e[i] = x[i] - shift;
                        }
                    }
                    e.iter_mut().for_each(|e| *e = exponential(*e));
                    for (r, out) in out.chunks_exact_mut(width).enumerate() {
                        let row = Row {
                            x: &x[r * w..][..w],
                            shift: shifts[r],
                            exponentials: &e[r * w..][..w],
                        };
                        f(row, out);
                    }
                }
            },
        )
    });
}

/// x ← e^(x − shift), and its sum.
#[inline(always)]
pub(super) fn exponentials<F: Real>(x: &mut [F], shift: F) -> F {
    x.iter_mut().for_each(|x| *x = exponential(*x - shift));
    total(x)
}

/// The sum, in sixteen lanes if the row is long.
#[inline(always)]
fn total<F: Real>(x: &[F]) -> F {
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
    if whole.is_empty() {
        return rest.iter().fold(F::neg_infinity(), |m, &x| larger(m, x));
    }
    let mut lanes = [F::neg_infinity(); LANES];
    for x in whole {
        for l in 0..LANES {
            lanes[l] = larger(lanes[l], x[l]);
        }
    }
    let of_lanes = lanes.iter().fold(F::neg_infinity(), |m, &x| larger(m, x));
    rest.iter().fold(of_lanes, |m, &x| larger(m, x))
}
