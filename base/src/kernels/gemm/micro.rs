//! The innermost loops of a product: a few rows of the left factor times a panel of the right one, whose sums
//! stay in registers.
//!
//! | letter | meaning |
//! |---|---|
//! | M | rows of a microkernel |
//! | V | vectors in a row of a panel of the right factor |
//! | K | length of a part of the inner dimension |
//!
//! The inner dimension is cut into parts of K terms. Each part is summed in order, and each term is added by a
//! fused multiply-add; then the sums of the parts are added in order. So the bits of an element depend neither
//! on its place, nor on how the product is cut, nor on the width of the vectors. They differ only on a
//! processor that has no fused multiply-add.

use super::factors::{Left, Order, Right};
use super::panels::{CUT, ROWS, vectors};
use crate::real::Real;
use crate::tensor::memory;
use pulp::{Simd, WithSimd};
use std::ops::Range;

/// K. A microkernel reads a part of a panel once per M rows, so a part of this length stays in the cache.
pub(super) const INNER: usize = 512;

/// BLOCKS · M rows of the left factor are copied at a time. The right factor is read once per such block; a
/// large one comes from beyond the second-level cache.
const BLOCKS: usize = 32;

/// Columns of the right factor that are finished for the copied rows before the next columns begin. So many
/// columns with K elements have 0.5 MiB in `f32`, and the copied rows 0.4 MiB; a second-level cache of 1 MiB
/// holds both.
const ACROSS: usize = 256;

/// The number of terms after which a microkernel checks the lengths of its operands again. With fewer, the
/// instructions of the checks take time; we think, most where another program uses the second hardware thread
/// of the core. With four terms the compiler no longer keeps all sums in registers.
const STEP: usize = 3;

/// Elements between copied rows, so that the rows begin in different lines of the cache.
const PAD: usize = 16;

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
        // M and V are such that the sums, a row of the panel and an element of the left factor fit into the
        // registers. The numbers of vectors are those of `vectors`. A microkernel takes the same time for
        // fewer than M rows, so products of few rows have microkernels of their own.
        match (S::IS_SCALAR, S::F32_LANES, self.left.rows) {
            (true, ..) => self.run::<S, 4, 8, 4, 2>(simd),
            (_, 16, 1) => self.run::<S, 1, 4, 2, 1>(simd),
            (_, 16, 2..=4) => self.run::<S, 4, 4, 2, 1>(simd),
            (_, 16, _) => self.run::<S, ROWS, 4, 2, 1>(simd),
            (.., 1) => self.run::<S, 1, 2, 1, 1>(simd),
            (.., 2..=4) => self.run::<S, 4, 2, 1, 1>(simd),
            _ => self.run::<S, ROWS, 2, 1, 1>(simd),
        }
    }
}

impl<F: Real> Product<'_, F> {
    /// All parts of the product, with V vectors per row of a panel.
    #[inline(always)]
    fn run<S: Simd, const M: usize, const V: usize, const HALF: usize, const QUARTER: usize>(
        mut self,
        simd: S,
    ) {
        let (left, columns) = (self.left, self.columns.clone());
        let wide = V * F::lanes::<S>();
        // Rows or columns of the left factor that begin many elements apart may share a few lines of the
        // cache, and the first access to each waits for the memory. So rows are copied if there are several
        // panels to use the copies.
        let copies = columns.len() > 4 * wide;
        let ragged = left.order == Order::Columns && !left.rows.is_multiple_of(M);
        let height = if copies { BLOCKS * M } else { left.rows.max(1) };
        let room = INNER.min(self.inner.len()) + PAD;
        let mut corner = [F::zero(); ROWS * CUT];
        let [near, end] = match (copies, ragged) {
            (true, _) => [height.min(left.rows), 0],
            (false, true) => [0, M],
            (false, false) => [0, 0],
        };
        let [mut near, mut end] = [near, end].map(|rows| memory::scratch(rows * room));
        for part in self.inner.clone().step_by(INNER) {
            let from = part - self.inner.start;
            let terms = from..from + INNER.min(self.inner.end - part);
            for first in (0..left.rows).step_by(height) {
                let rows = left.part(first..left.rows.min(first + height));
                let rows = match copies {
                    true => rows.copied(terms.clone(), &mut near, room),
                    false => rows.beyond(from),
                };
                for across in columns.clone().step_by(ACROSS) {
                    let across = across..columns.end.min(across + ACROSS);
                    for i in (0..rows.rows).step_by(M) {
                        let mut tile = rows.part(i..rows.rows.min(i + M));
                        if tile.order == Order::Columns && tile.rows < M {
                            tile = tile.copied(0..terms.len(), &mut end, room);
                        }
                        self.tile::<S, M, V, HALF, QUARTER>(
                            simd,
                            tile,
                            first + i,
                            part,
                            across.clone(),
                            &mut corner,
                        );
                    }
                }
            }
        }
    }

    /// At most M rows of the left factor, whose first is row `i` of the output, times some panels, over the
    /// part of the inner dimension that begins at `part`.
    #[inline(always)]
    fn tile<S: Simd, const M: usize, const V: usize, const HALF: usize, const QUARTER: usize>(
        &mut self,
        simd: S,
        tile: Left<F>,
        i: usize,
        part: usize,
        across: Range<usize>,
        corner: &mut [F; ROWS * CUT],
    ) {
        let lanes = F::lanes::<S>();
        let widths = [V * lanes, HALF * lanes, QUARTER * lanes];
        let [wide, half, quarter] = widths;
        debug_assert_eq!([V, HALF, QUARTER], vectors::<S>(), "the panels of a factor");
        let k = INNER.min(self.inner.end - part);
        let add = self.add || part > self.inner.start;
        let (right, stride, columns) = (self.right, self.stride, self.columns.clone());
        let out = &mut *self.out;
        // There may be fewer than M rows: the last one then takes the places left over, and their sums are
        // not used.
        let mut rows = [&tile.data[..0]; M];
        if tile.order == Order::Rows {
            for r in 0..M {
                rows[r] = &tile.data[r.min(tile.rows - 1) * tile.stride..][..k];
            }
        }
        let below = (tile.data, tile.stride);
        for j in across.step_by(wide) {
            let width = wide.min(columns.end - j);
            let b = (right.from(part, j), right.stride);
            let at = i * stride + j - columns.start;
            let whole = tile.rows == M && widths.contains(&width);
            let to = match whole {
                true => (&mut out[at..], stride, add),
                false => (&mut corner[..], wide, false),
            };
            // A narrower microkernel computes the last panel if that is enough.
            match (tile.order, width <= half, width <= quarter) {
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
            for (r, sums) in corner.chunks_exact(wide).take(tile.rows).enumerate() {
                let row = &mut out[at + r * stride..][..width];
                for (out, &sum) in row.iter_mut().zip(sums) {
                    *out = if add { *out + sum } else { sum };
                }
            }
        }
    }
}

/// Multiplies M rows of equal length by V vectors of a panel. The rows of the panel, and of the output, begin a
/// stride apart.
#[inline(always)]
fn by_rows<F: Real, S: Simd, const M: usize, const V: usize>(
    simd: S,
    rows: [&[F]; M],
    (b, stride): (&[F], usize),
    to: (&mut [F], usize, bool),
) {
    let (k, mut sums) = (rows[0].len(), [[F::splat(simd, F::zero()); V]; M]);
    // From here on the stride counts vectors. Terms come in groups, which are checked once. The last row of
    // the panel may be shorter than a stride, so the last term is in no group.
    let (b, stride) = (F::vectors::<S>(b), stride / F::lanes::<S>());
    let steps = k.saturating_sub(1) / STEP;
    let mut terms = [&[][..]; M];
    for r in 0..M {
        terms[r] = &rows[r].as_chunks::<STEP>().0[..steps];
    }
    let mut rest = b;
    if steps > 0 {
        // The pieces have the same lengths in each step: checked here once, they are not checked in the loop.
        pieces::<F::Vector<S>, V>(&b[..STEP * stride], stride);
    }
    for q in 0..steps {
        let lines;
        (lines, rest) = rest.split_at(STEP * stride);
        let lines = pieces(lines, stride);
        for u in 0..STEP {
            add_term(simd, &mut sums, lines[u], |r| terms[r][q][u]);
        }
    }
    for p in STEP * steps..k {
        let b = b[p * stride..].first_chunk().expect("a row of a panel");
        add_term(simd, &mut sums, b, |r| rows[r][p]);
    }
    write(simd, sums, to);
}

/// The same for M rows of a factor whose columns have no gaps: column p begins at p times its stride.
#[inline(always)]
fn by_columns<F: Real, S: Simd, const M: usize, const V: usize>(
    simd: S,
    k: usize,
    (a, a_stride): (&[F], usize),
    (b, stride): (&[F], usize),
    to: (&mut [F], usize, bool),
) {
    let mut sums = [[F::splat(simd, F::zero()); V]; M];
    let (b, stride) = (F::vectors::<S>(b), stride / F::lanes::<S>());
    // The last column and the last row may be shorter than a stride, so the last term is in no group.
    let steps = k.saturating_sub(1) / STEP;
    let (mut a_rest, mut b_rest) = (a, b);
    if steps > 0 {
        // The pieces have the same lengths in each step: checked here once, they are not checked in the loop.
        pieces::<F, M>(&a[..STEP * a_stride], a_stride);
        pieces::<F::Vector<S>, V>(&b[..STEP * stride], stride);
    }
    for _ in 0..steps {
        let (columns, lines);
        (columns, a_rest) = a_rest.split_at(STEP * a_stride);
        (lines, b_rest) = b_rest.split_at(STEP * stride);
        let (columns, lines) = (pieces::<F, M>(columns, a_stride), pieces(lines, stride));
        for u in 0..STEP {
            add_term(simd, &mut sums, lines[u], |r| columns[u][r]);
        }
    }
    for p in STEP * steps..k {
        let a: &[F; M] = a[p * a_stride..].first_chunk().expect("M rows");
        let b = b[p * stride..].first_chunk().expect("a row of a panel");
        add_term(simd, &mut sums, b, |r| a[r]);
    }
    write(simd, sums, to);
}

/// The first N elements of each of STEP parts that begin `length` elements apart.
#[inline(always)]
fn pieces<T, const N: usize>(x: &[T], length: usize) -> [&[T; N]; STEP] {
    let mut rest = x;
    let mut pieces = [x.first_chunk().expect("a piece"); STEP];
    for piece in &mut pieces[1..] {
        rest = &rest[length..];
        *piece = rest.first_chunk().expect("a piece");
    }
    pieces
}

/// sums ← sums + a b, for a column a, whose element r is `a(r)`, and a row b of V vectors.
#[inline(always)]
pub(super) fn add_term<F: Real, S: Simd, const M: usize, const V: usize>(
    simd: S,
    sums: &mut [[F::Vector<S>; V]; M],
    b: &[F::Vector<S>; V],
    a: impl Fn(usize) -> F,
) {
    for r in 0..M {
        let a = F::splat(simd, a(r));
        for v in 0..V {
            sums[r][v] = F::multiply_add(simd, a, b[v], sums[r][v]);
        }
    }
}

/// Sets a part of the output to the sums, or adds them to it.
#[inline(always)]
pub(super) fn write<F: Real, S: Simd, const M: usize, const V: usize>(
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
