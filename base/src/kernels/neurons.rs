//! Sums over the entries of each neuron, in `f64` for either type of numbers.

use super::{LANES, fold, simd};
use crate::real::Real;
use std::ops::Range;

/// The entries of a parameter that belong to neurons: in each of the stretches, run j of `inner` entries
/// belongs to neuron j.
#[derive(Debug, Clone)]
pub struct Entries {
    /// Ranges of entries, each of one run per neuron.
    pub stretches: Vec<Range<usize>>,
    /// The entries of a run; at least 1.
    pub inner: usize,
}

/// Adds Σ w x y and Σ |w x y| over the entries of neuron j to `out[0][j]` and `out[1][j]`.
///
/// ```
/// use emmy::kernels::neurons::{Entries, products};
/// // Rows of a matrix [2, 2].
/// let rows = Entries { stretches: vec![0..4], inner: 2 };
/// let (mut sums, mut sizes) = ([0.0; 2], [0.0; 2]);
/// products(&rows, 2.0, &[1.0, 2.0, 3.0, 4.0], &[1.0, -1.0, 1.0, 1.0], [&mut sums, &mut sizes]);
/// assert_eq!((sums, sizes), ([-2.0, 14.0], [6.0, 14.0]));
/// ```
///
/// # Panics
/// If a stretch is not within x and y, an `out` has fewer numbers than a stretch has runs, or `inner` is 0.
#[inline(never)]
pub fn products<F: Real>(of: &Entries, w: f64, x: &[F], y: &[F], out: [&mut [f64]; 2]) {
    add_pairs(of, x, y, out, move |x, y| {
        let product = w * x * y;
        [product, product.abs()]
    });
}

/// Adds Σ w x and Σ |x| over the entries of neuron j to `out[0][j]` and `out[1][j]`.
///
/// # Panics
/// As [`products`].
#[inline(never)]
pub fn sums<F: Real>(of: &Entries, w: f64, x: &[F], out: [&mut [f64]; 2]) {
    add_pairs(of, x, x, out, move |x, _| [w * x, x.abs()]);
}

/// Adds both numbers of f(x, y) to their sums. The order of a sum is fixed: by stretches, and within a run
/// in sixteen lanes.
#[inline(always)]
fn add_pairs<F: Real>(
    &Entries {
        ref stretches,
        inner,
    }: &Entries,
    x: &[F],
    y: &[F],
    mut out: [&mut [f64]; 2],
    f: impl Fn(f64, f64) -> [f64; 2],
) {
    simd(
        #[inline(always)]
        || {
            for stretch in stretches.iter().cloned() {
                let (x, y) = (&x[stretch.clone()], &y[stretch]);
                let runs = x.len() / inner;
                // Cut to one length, so that the loop needs no bounds check per entry.
                let out = out.each_mut().map(|sums| &mut sums[..runs]);
                if inner == 1 {
                    let y = &y[..runs];
                    for j in 0..runs {
                        let terms = f(x[j].as_f64(), y[j].as_f64());
                        for k in 0..2 {
                            out[k][j] += terms[k];
                        }
                    }
                } else {
                    let pairs = x.chunks_exact(inner).zip(y.chunks_exact(inner));
                    for (j, (x, y)) in pairs.enumerate() {
                        let sums = sum_pairs(x, y, &f);
                        for k in 0..2 {
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
fn sum_pairs<F: Real>(x: &[F], y: &[F], f: &impl Fn(f64, f64) -> [f64; 2]) -> [f64; 2] {
    let (x, x_rest) = x.as_chunks::<LANES>();
    let (y, y_rest) = y.as_chunks::<LANES>();
    let mut lanes = [[0.0; LANES]; 2];
    for (x, y) in x.iter().zip(y) {
        for l in 0..LANES {
            let terms = f(x[l].as_f64(), y[l].as_f64());
            for k in 0..2 {
                lanes[k][l] += terms[k];
            }
        }
    }
    for (l, (x, y)) in x_rest.iter().zip(y_rest).enumerate() {
        let terms = f(x.as_f64(), y.as_f64());
        for k in 0..2 {
            lanes[k][l] += terms[k];
        }
    }
    lanes.map(fold)
}
