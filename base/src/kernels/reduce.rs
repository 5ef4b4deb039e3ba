//! Sums and extrema over axes.
//!
//! A sum runs in sixteen lanes over blocks of fixed size: the order, and with it every bit, is fixed. Within
//! 2¹⁶ contiguous elements the sums of blocks are added in pairs, so the rounding error grows with the
//! logarithm of the length. Sums of 2¹⁶ elements each, and sums of 64 rows each, are added one after the
//! other.

use super::{LANES, accumulate, fold, fold_by, padded, par, simd};
use crate::real::Real;
use crate::tensor::{Tensor, broadcast_shapes, contiguous, tensor};
use ndarray::IxDyn;

/// Elements (or rows) summed in order before pairing begins.
const RUN: usize = 64;

/// Elements of one task of a parallel sum.
const CHUNK: usize = 1 << 16;

/// y = Σ x over the given axes, which stay with size 1.
///
/// # Panics
/// If an axis is out of range.
#[track_caller]
#[inline(never)]
pub fn sum<F: Real>(x: &Tensor<F>, axes: &[usize]) -> Tensor<F> {
    over(x, axes, F::zero(), sum_slice, sum_rows)
}

/// Sums x down to a `shape` that broadcasts to that of x: the adjoint of broadcasting.
///
/// # Panics
/// If `shape` does not broadcast to the shape of x.
#[track_caller]
#[inline(never)]
pub fn sum_to<F: Real>(x: &Tensor<F>, shape: &[usize]) -> Tensor<F> {
    assert!(
        shape.len() <= x.ndim() && broadcast_shapes("sum_to", x.shape(), shape) == x.shape(),
        "sum_to: {shape:?} does not broadcast to {:?}",
        x.shape()
    );
    let leading = x.ndim() - shape.len();
    let stretched =
        |axis: usize| axis < leading || (shape[axis - leading] == 1 && x.shape()[axis] != 1);
    let axes: Vec<usize> = (0..x.ndim()).filter(|&axis| stretched(axis)).collect();
    if axes.is_empty() {
        return x.clone();
    }
    let sums = sum(x, &axes);
    sums.into_shape_with_order(IxDyn(shape))
        .expect("axes of size 1 more or less")
}

/// y = max x over the given axes, which stay with size 1; −∞ over no elements, NaN if one of them is NaN. If
/// the largest elements are +0 and −0, y is one of them.
///
/// # Panics
/// If an axis is out of range.
#[track_caller]
#[inline(never)]
pub fn max<F: Real>(x: &Tensor<F>, axes: &[usize]) -> Tensor<F> {
    let init = F::neg_infinity();
    let pick = |m: F, x: F| if x > m || x.is_nan() { x } else { m };
    extremum(x, axes, init, pick)
}

/// y = min x over the given axes, which stay with size 1; ∞ over no elements, NaN if one of them is NaN.
///
/// # Panics
/// If an axis is out of range.
#[track_caller]
#[inline(never)]
pub fn min<F: Real>(x: &Tensor<F>, axes: &[usize]) -> Tensor<F> {
    let pick = |m: F, x: F| if x < m || x.is_nan() { x } else { m };
    extremum(x, axes, F::infinity(), pick)
}

/// Σ x, in a fixed order.
#[inline(never)]
pub fn sum_slice<F: Real>(x: &[F]) -> F {
    if x.len() <= RUN * LANES {
        return simd(
            #[inline(always)]
            || of_run(x),
        );
    }
    let part = |x: &[F]| {
        simd(
            #[inline(always)]
            || pairwise(x),
        )
    };
    par::reduce(x.len(), CHUNK, 1, |r| part(&x[r]), |a, b| a + b).unwrap_or_else(F::zero)
}

/// Σ x by halves down to runs of [`RUN`] elements per lane.
#[inline(always)]
fn pairwise<F: Real>(x: &[F]) -> F {
    let mut sums = Vec::with_capacity(x.len() / (RUN * LANES) + 1);
    for run in x.chunks(RUN * LANES) {
        sums.push(of_run(run));
    }
    while sums.len() > 1 {
        for k in 0..sums.len() / 2 {
            sums[k] = sums[2 * k] + sums[2 * k + 1];
        }
        if sums.len() % 2 == 1 {
            let last = sums.len() - 1;
            sums[last / 2] = sums[last];
        }
        sums.truncate(sums.len().div_ceil(2));
    }
    sums.first().copied().unwrap_or_else(F::zero)
}

/// Σ x in lanes, for at most [`RUN`] elements per lane.
#[inline(always)]
fn of_run<F: Real>(x: &[F]) -> F {
    let mut lanes = [F::zero(); LANES];
    let (rows, rest) = x.as_chunks::<LANES>();
    for row in rows {
        for l in 0..LANES {
            lanes[l] += row[l];
        }
    }
    if !rest.is_empty() {
        let rest = padded(rest);
        for l in 0..LANES {
            lanes[l] += rest[l];
        }
    }
    fold(lanes)
}

/// out ← Σ over the rows of x, each of the length of `out`.
fn sum_rows<F: Real>(x: &[F], out: &mut [F]) {
    let w = out.len();
    let part = |r: std::ops::Range<usize>| {
        simd(
            #[inline(always)]
            || {
                let mut total = vec![F::zero(); w];
                let mut run = vec![F::zero(); w];
                for rows in x[r.start * w..r.end * w].chunks(RUN * w) {
                    run.fill(F::zero());
                    for row in rows.chunks_exact(w) {
                        accumulate(&mut run, row);
                    }
                    accumulate(&mut total, &run);
                }
                total
            },
        )
    };
    let total = par::reduce(
        x.len() / w,
        (CHUNK / w).max(1).next_multiple_of(RUN),
        w,
        part,
        |mut a, b| {
            accumulate(&mut a, &b);
            a
        },
    );
    if let Some(total) = total {
        out.copy_from_slice(&total);
    }
}

/// The largest or smallest element over axes, whichever `pick` keeps.
#[track_caller]
fn extremum<F: Real>(
    x: &Tensor<F>,
    axes: &[usize],
    init: F,
    pick: impl Fn(F, F) -> F + Copy + Sync,
) -> Tensor<F> {
    let slice = |x: &[F]| {
        simd(
            #[inline(always)]
            || {
                let mut lanes = [init; LANES];
                let (rows, rest) = x.as_chunks::<LANES>();
                for row in rows {
                    for l in 0..LANES {
                        lanes[l] = pick(lanes[l], row[l]);
                    }
                }
                // Through memory: the compiler would cut the lanes of the loop into the pieces that are
                // combined here.
                let lanes = std::hint::black_box(lanes);
                let mut picked = fold_by(lanes, pick);
                for &x in rest {
                    picked = pick(picked, x);
                }
                picked
            },
        )
    };
    let rows = |x: &[F], out: &mut [F]| {
        simd(
            #[inline(always)]
            || {
                for row in x.chunks_exact(out.len()) {
                    for i in 0..out.len().min(row.len()) {
                        out[i] = pick(out[i], row[i]);
                    }
                }
            },
        )
    };
    over(x, axes, init, slice, rows)
}

/// Reduces the given axes to size 1: by `slice` where a run of neighbouring elements becomes one, by `rows`
/// where the rows of a matrix are combined into one.
#[track_caller]
fn over<F: Real>(
    x: &Tensor<F>,
    axes: &[usize],
    init: F,
    slice: impl Fn(&[F]) -> F + Sync,
    rows: impl Fn(&[F], &mut [F]) + Sync,
) -> Tensor<F> {
    for &axis in axes {
        assert!(
            axis < x.ndim(),
            "reduction: axis {axis} is outside a tensor of {} dimensions",
            x.ndim()
        );
    }
    let mut x = contiguous(x);
    // Groups of neighbouring reduced axes, the last one first: each leaves less for the next.
    let mut end = x.ndim();
    while end > 0 {
        let start = (0..end)
            .rev()
            .take_while(|a| axes.contains(a) == axes.contains(&(end - 1)))
            .last()
            .expect("the range is not empty");
        if axes.contains(&(end - 1)) {
            let shape = x.shape();
            let n: usize = shape[start..end].iter().product();
            let w: usize = shape[end..].iter().product();
            let small: Vec<usize> = (0..shape.len())
                .map(|a| {
                    if (start..end).contains(&a) {
                        1
                    } else {
                        shape[a]
                    }
                })
                .collect();
            if n != 1 {
                let mut out = vec![init; small.iter().product()];
                let data = x.as_slice().expect("contiguous");
                if n > 0 && w == 1 {
                    par::rows(&mut out, 1, n, |first, part| {
                        for (k, y) in part.iter_mut().enumerate() {
                            *y = slice(&data[(first + k) * n..][..n]);
                        }
                    });
                } else if n > 0 {
                    par::rows(&mut out, w, n * w, |first, part| {
                        for (k, y) in part.chunks_exact_mut(w).enumerate() {
                            rows(&data[(first + k) * n * w..][..n * w], y);
                        }
                    });
                }
                x = tensor(&small, out);
            }
        }
        end = start;
    }
    x
}
