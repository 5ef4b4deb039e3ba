//! Sums over pairs of numbers, in `f64` for either type of numbers.

use crate::kernels::{LANES, fold, simd};
use crate::real::Real;
use std::ops::Range;

/// Adds f(x, y) to sums, K of them at once: in each of the `stretches` of x and y, run `j` of `inner` pairs
/// adds to `out[k][j]`.
///
/// The order of a sum is fixed: by stretches, and within a run in sixteen lanes.
///
/// # Panics
/// If a stretch is not within x and y, or an `out` does not have one number per run.
pub(super) fn add_pairs<F: Real, const K: usize>(
    x: &[F],
    y: &[F],
    stretches: impl Iterator<Item = Range<usize>>,
    inner: usize,
    mut out: [&mut [f64]; K],
    f: impl Fn(f64, f64) -> [f64; K],
) {
    simd(
        #[inline(always)]
        || {
            for stretch in stretches {
                let (x, y) = (&x[stretch.clone()], &y[stretch]);
                let runs = x.len() / inner;
                // Cut to one length, so that the loop needs no bounds check per entry.
                let out = out.each_mut().map(|sums| &mut sums[..runs]);
                if inner == 1 {
                    let y = &y[..runs];
                    for j in 0..runs {
                        let terms = f(x[j].as_f64(), y[j].as_f64());
                        for k in 0..K {
                            out[k][j] += terms[k];
                        }
                    }
                } else {
                    let pairs = x.chunks_exact(inner).zip(y.chunks_exact(inner));
                    for (j, (x, y)) in pairs.enumerate() {
                        let sums = sum_pairs(x, y, &f);
                        for k in 0..K {
                            out[k][j] += sums[k];
                        }
                    }
                }
            }
        },
    );
}

/// Σ f(x, y), in lanes that are then added in a fixed order.
#[inline(always)]
fn sum_pairs<F: Real, const K: usize>(
    x: &[F],
    y: &[F],
    f: &impl Fn(f64, f64) -> [f64; K],
) -> [f64; K] {
    let (x, x_rest) = x.as_chunks::<LANES>();
    let (y, y_rest) = y.as_chunks::<LANES>();
    let mut lanes = [[0.0; LANES]; K];
    for (x, y) in x.iter().zip(y) {
        for l in 0..LANES {
            let terms = f(x[l].as_f64(), y[l].as_f64());
            for k in 0..K {
                lanes[k][l] += terms[k];
            }
        }
    }
    for (l, (x, y)) in x_rest.iter().zip(y_rest).enumerate() {
        let terms = f(x.as_f64(), y.as_f64());
        for k in 0..K {
            lanes[k][l] += terms[k];
        }
    }
    lanes.map(fold)
}
