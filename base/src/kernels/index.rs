//! Slices chosen by index along an axis, and added up by index.
//!
//! A tensor is seen as three axes `[outer, n, w]`, row-major: the middle one is indexed, and the last holds
//! the elements that lie side by side.

use super::accumulate;
use super::{par, simd};
use crate::real::Real;
use crate::tensor::memory::{self, Buffer};

/// `y[o, k, :] = x[o, indices[k], :]`
///
/// # Panics
/// If `x` does not have this shape, or an index is not below n.
#[inline(never)]
pub fn select<F: Real>(x: &[F], shape: [usize; 3], indices: &[usize]) -> Buffer<F> {
    let [outer, n, w] = check(x, shape);
    let chosen = indices.len();
    let mut y = memory::scratch(outer * chosen * w);
    par::rows(&mut y, w.max(1), w, |first, block| {
        let (mut o, mut k) = (first / chosen, first % chosen);
        for y in block.chunks_exact_mut(w) {
            let at = (o * n + indices[k]) * w;
            // A call that copies one number takes longer than the copy.
            match y {
                [y] => *y = x[at],
                _ => y.copy_from_slice(&x[at..at + w]),
            }
            k += 1;
            if k == chosen {
                (o, k) = (o + 1, 0);
            }
        }
    });
    y
}

/// y of shape `[outer, size, w]`, zero but for `y[o, indices[k], :] += x[o, k, :]`, in the order of k.
///
/// # Panics
/// If `x` does not have this shape, an index is not below `size`, or there is not one index per slice.
#[inline(never)]
pub fn add<F: Real>(x: &[F], shape: [usize; 3], indices: &[usize], size: usize) -> Buffer<F> {
    let [outer, n, w] = check(x, shape);
    assert_eq!(indices.len(), n, "index: one index per slice");
    let mut y = memory::zeros(outer * size * w);
    if x.is_empty() {
        return y;
    }
    par::rows(&mut y, size * w, n * w, |first, block| {
        simd(
            #[inline(always)]
            || {
                for (o, y) in block.chunks_exact_mut(size * w).enumerate() {
                    let x = &x[(first + o) * n * w..][..n * w];
                    for (k, &i) in indices.iter().enumerate() {
                        accumulate(&mut y[i * w..][..w], &x[k * w..][..w]);
                    }
                }
            },
        )
    });
    y
}

#[track_caller]
fn check<F>(x: &[F], shape: [usize; 3]) -> [usize; 3] {
    assert_eq!(
        x.len(),
        shape.iter().product::<usize>(),
        "index: {shape:?} does not have as many elements as x"
    );
    shape
}
