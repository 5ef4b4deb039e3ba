//! Softmax and log-sum-exp over the rows of a matrix, with a mask.
//!
//! | letter | meaning |
//! |---|---|
//! | w | the length of a row |
//! | keep | which elements take part; empty: all of them |

use super::{par, simd};
use crate::real::Real;

/// The cost of an exponential, in multiply-adds, for the decision to go parallel.
const EXP: usize = 8;

/// out[i, :] = softmax of row i over the elements that are kept, 0 elsewhere; a row that keeps nothing is 0.
///
/// # Panics
/// If `keep` is neither empty nor as long as `x`.
#[inline(never)]
pub fn softmax_rows<F: Real>(x: &[F], keep: &[bool], w: usize) -> Vec<F> {
    let mut out = masked(x, keep);
    par::rows(&mut out, w, w * EXP, |_, block| {
        simd(
            #[inline(always)]
            || {
                for row in block.chunks_exact_mut(w) {
                    let shift = largest(row);
                    // Nothing is kept, or everything is −∞: no element has a share.
                    if shift == F::neg_infinity() {
                        row.fill(F::zero());
                        continue;
                    }
                    let mut total = F::zero();
                    for x in row.iter_mut() {
                        *x = (*x - shift).exp_v();
                        total += *x;
                    }
                    let share = total.recip();
                    row.iter_mut().for_each(|x| *x *= share);
                }
            },
        );
    });
    out
}

/// outᵢ = ln Σ e^x over the elements of row i that are kept; −∞ if none is kept.
///
/// # Panics
/// If `keep` is neither empty nor as long as `x`, or w = 0.
#[inline(never)]
pub fn logsumexp_rows<F: Real>(x: &[F], keep: &[bool], w: usize) -> Vec<F> {
    let x = masked(x, keep);
    let mut out = vec![F::zero(); x.len() / w];
    par::rows(&mut out, 1, w * EXP, |first, block| {
        for (row, out) in x[first * w..].chunks_exact(w).zip(block) {
            let shift = largest(row);
            *out = if shift == F::neg_infinity() {
                shift
            } else {
                shift + row.iter().map(|&x| (x - shift).exp_v()).sum::<F>().ln()
            };
        }
    });
    out
}

/// x where it takes part, −∞ elsewhere.
fn masked<F: Real>(x: &[F], keep: &[bool]) -> Vec<F> {
    if keep.is_empty() {
        return x.to_vec();
    }
    assert_eq!(keep.len(), x.len(), "softmax: one mask bit per element");
    let hidden = F::neg_infinity();
    (x.iter().zip(keep))
        .map(|(&x, &keep)| if keep { x } else { hidden })
        .collect()
}

/// The largest element, NaN if there is one.
fn largest<F: Real>(row: &[F]) -> F {
    let pick = |m: F, &x: &F| if x > m || x.is_nan() { x } else { m };
    row.iter().fold(F::neg_infinity(), pick)
}
