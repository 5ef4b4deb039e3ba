//! The innermost loops of a product: a few rows of the left factor times a panel of the right one, whose sums
//! stay in registers.
//!
//! | letter | meaning |
//! |---|---|
//! | M | rows of a microkernel |
//! | V | vectors in a row of a panel of the right factor |
//! | K | length of a part of the inner dimension |
//!
//! Every element of a product is the sum of parts of K terms, and each part is a sum in the order of the inner
//! dimension, each term fused with its addition. So its bits depend neither on where the element lies, nor on
//! how the product is cut, nor on the width of the vectors; only where a processor fuses nothing they differ.

use super::CUT;
use super::factors::{Left, Order, Right};
use crate::real::Real;
use crate::tensor::memory;
use pulp::{Simd, WithSimd};
use std::ops::Range;

/// K: the part of a panel that a microkernel reads again for each M rows stays near.
pub(super) const INNER: usize = 512;

/// Columns of the right factor that come one after another before the next rows of the left: their part of
/// `INNER` rows stays in the second-level cache.
const ACROSS: usize = 512;

/// Elements between copied rows, so that they begin in different lines of the cache.
const PAD: usize = 16;

/// The largest M: fewer rows than twice as many do not repay that the right factor is brought into panels.
pub(super) const ROWS: usize = 6;

/// Columns of a panel on this processor.
pub(super) fn panel<F: Real>() -> usize {
    struct Ask;
    impl WithSimd for Ask {
        type Output = usize;

        #[inline(always)]
        fn with_simd<S: Simd>(self, _: S) -> usize {
            // Where there are no vectors, a vector is one number of either type.
            match (S::IS_SCALAR, S::F32_LANES) {
                (true, _) => 0,
                (_, 16) => 64,
                (_, lanes) => 2 * lanes,
            }
        }
    }
    match pulp::Arch::new().dispatch(Ask) {
        0 => 8,
        singles => singles * size_of::<f32>() / size_of::<F>(),
    }
}

/// A product of the rows of a left factor with some columns of a right one, over a range of the inner
/// dimension; see [`super::product`].
pub(super) struct Product<'a, F: Real> {
    pub left: Left<'a, F>,
    pub right: &'a Right<'a, F>,
    /// Rows of the right factor, to which the columns of the left one belong.
    pub inner: Range<usize>,
    pub columns: Range<usize>,
    pub out: &'a mut [F],
    /// Elements from a row of `out` to the next.
    pub stride: usize,
    /// Whether the product is added to `out`.
    pub add: bool,
}

impl<F: Real> WithSimd for Product<'_, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        // The sums leave registers for a row of the panel and an element of the left factor, and the addresses
        // of M rows fit into the others. Where there are no vectors, the compiler may find some for eight.
        match (S::IS_SCALAR, S::F32_LANES) {
            (true, _) => self.run::<S, 4, 8, 4, 2>(simd),
            (_, 16) => self.run::<S, ROWS, 4, 2, 1>(simd),
            _ => self.run::<S, ROWS, 2, 1, 1>(simd),
        }
    }
}

impl<F: Real> Product<'_, F> {
    /// All parts of the product, with V vectors per row of a panel.
    #[inline(always)]
    fn run<S: Simd, const M: usize, const V: usize, const HALF: usize, const QUARTER: usize>(
        self,
        simd: S,
    ) {
        let Product {
            left,
            right,
            inner,
            columns,
            out,
            stride,
            add,
        } = self;
        let [wide, half, quarter] = [V, HALF, QUARTER].map(|v| v * F::lanes::<S>());
        let mut corner = [F::zero(); ROWS * CUT];
        // Where several panels repay it, M rows are copied: as they lie they may share a few lines of the cache.
        let copies = columns.len() > 4 * wide && left.order == Order::Rows;
        let room = INNER.min(inner.len()) + PAD;
        let needed = copies || left.order == Order::Columns && !left.rows.is_multiple_of(M);
        let mut near = memory::scratch(if needed { M * room } else { 0 });
        for part in inner.clone().step_by(INNER) {
            let k = INNER.min(inner.end - part);
            let (add, from) = (add || part > inner.start, part - inner.start);
            for first in columns.clone().step_by(ACROSS) {
                let across = first..columns.end.min(first + ACROSS);
                for i in (0..left.rows).step_by(M) {
                    let height = M.min(left.rows - i);
                    // Where rows lack at the end, the last one is taken again in their place.
                    let mut rows = [&left.data[..0]; M];
                    let mut below = (&left.data[..0], left.stride);
                    match left.order {
                        Order::Rows => {
                            for r in 0..M {
                                let row = i + r.min(height - 1);
                                rows[r] = &left.data[row * left.stride + from..][..k];
                            }
                            if copies {
                                for (near, row) in near.chunks_exact_mut(room).zip(rows) {
                                    near[..k].copy_from_slice(row);
                                }
                                for r in 0..M {
                                    rows[r] = &near[r * room..][..k];
                                }
                            }
                        }
                        Order::Columns if height == M => {
                            below.0 = &left.data[from * left.stride + i..];
                        }
                        Order::Columns => {
                            for (p, near) in near.chunks_exact_mut(M).take(k).enumerate() {
                                let column = &left.data[(from + p) * left.stride + i..];
                                near[..height].copy_from_slice(&column[..height]);
                                near[height..].fill(F::zero());
                            }
                            below = (&near, M);
                        }
                    }
                    for j in across.clone().step_by(wide) {
                        let width = wide.min(columns.end - j);
                        let b = (right.from(part, j), right.stride);
                        let at = i * stride + j - columns.start;
                        let whole = height == M && [wide, half, quarter].contains(&width);
                        let to = match whole {
                            true => (&mut out[at..], stride, add),
                            false => (&mut corner[..], wide, false),
                        };
                        // The last panel may need but some of its vectors.
                        match (left.order, width <= half, width <= quarter) {
                            (Order::Rows, false, _) => by_rows::<F, S, M, V>(simd, rows, b, to),
                            (Order::Rows, _, false) => by_rows::<F, S, M, HALF>(simd, rows, b, to),
                            (Order::Rows, ..) => by_rows::<F, S, M, QUARTER>(simd, rows, b, to),
                            (_, false, _) => by_columns::<F, S, M, V>(simd, k, below, b, to),
                            (_, _, false) => by_columns::<F, S, M, HALF>(simd, k, below, b, to),
                            _ => by_columns::<F, S, M, QUARTER>(simd, k, below, b, to),
                        }
                        if whole {
                            continue;
                        }
                        for (r, sums) in corner.chunks_exact(wide).take(height).enumerate() {
                            let out = &mut out[at + r * stride..][..width];
                            for (out, &sum) in out.iter_mut().zip(sums) {
                                *out = if add { *out + sum } else { sum };
                            }
                        }
                    }
                }
            }
        }
    }
}

/// M rows of equal length times V vectors of a panel, whose rows begin a stride apart, to a part of the output.
#[inline(always)]
fn by_rows<F: Real, S: Simd, const M: usize, const V: usize>(
    simd: S,
    rows: [&[F]; M],
    (b, b_stride): (&[F], usize),
    to: (&mut [F], usize, bool),
) {
    let (k, mut sums) = (rows[0].len(), [[F::splat(simd, F::zero()); V]; M]);
    for p in 0..k {
        let b = F::vectors::<S>(&b[p * b_stride..]);
        let b: &[F::Vector<S>; V] = b.first_chunk().expect("a row of a panel");
        for r in 0..M {
            let a = F::splat(simd, rows[r][p]);
            for v in 0..V {
                sums[r][v] = F::multiply_add(simd, a, b[v], sums[r][v]);
            }
        }
    }
    write(simd, sums, to);
}

/// The same where the M elements of a column of the left factor lie one behind the other.
#[inline(always)]
fn by_columns<F: Real, S: Simd, const M: usize, const V: usize>(
    simd: S,
    k: usize,
    (a, a_stride): (&[F], usize),
    (b, b_stride): (&[F], usize),
    to: (&mut [F], usize, bool),
) {
    let mut sums = [[F::splat(simd, F::zero()); V]; M];
    for p in 0..k {
        let b = F::vectors::<S>(&b[p * b_stride..]);
        let b: &[F::Vector<S>; V] = b.first_chunk().expect("a row of a panel");
        let a: &[F; M] = a[p * a_stride..].first_chunk().expect("M rows");
        for r in 0..M {
            let a = F::splat(simd, a[r]);
            for v in 0..V {
                sums[r][v] = F::multiply_add(simd, a, b[v], sums[r][v]);
            }
        }
    }
    write(simd, sums, to);
}

#[inline(always)]
fn write<F: Real, S: Simd, const M: usize, const V: usize>(
    simd: S,
    sums: [[F::Vector<S>; V]; M],
    (out, stride, add): (&mut [F], usize, bool),
) {
    for r in 0..M {
        let out = F::vectors_mut::<S>(&mut out[r * stride..]);
        let out: &mut [F::Vector<S>; V] = out.first_chunk_mut().expect("a row of sums");
        for v in 0..V {
            let sum = sums[r][v];
            out[v] = if add { F::plus(simd, out[v], sum) } else { sum };
        }
    }
}
