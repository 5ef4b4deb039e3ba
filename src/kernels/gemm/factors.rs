//! The two factors of a product, in the orders in which the microkernels read them.

use super::micro::{ROWS, panel};
use crate::kernels::{par, simd};
use crate::real::Real;
use crate::tensor::memory::{self, Buffer};
use ndarray::{ArrayView2, Axis};
use std::ops::Range;

/// Which elements of a matrix lie one behind the other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Order {
    /// Those of a row.
    Rows,
    /// Those of a column.
    Columns,
}

/// The left factor: rows or columns that begin `stride` elements apart.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Left<'a, F> {
    pub data: &'a [F],
    pub rows: usize,
    pub stride: usize,
    pub order: Order,
}

/// The right factor in panels of as many columns as a microkernel takes, the last one filled up with zeros.
#[derive(Debug)]
pub(crate) struct Right<'a, F: Real> {
    data: Data<'a, F>,
    /// Columns of a panel.
    panel: usize,
    /// Elements from a panel to the next.
    apart: usize,
    /// Elements from a row of a panel to the next.
    pub stride: usize,
}

/// Elements that a factor owns or borrows.
#[derive(Debug)]
enum Data<'a, F: Real> {
    Own(Buffer<F>),
    Borrowed(&'a [F]),
}

impl<F: Real> Data<'_, F> {
    #[inline(always)]
    fn elements(&self) -> &[F] {
        match self {
            Self::Own(data) => data,
            Self::Borrowed(data) => data,
        }
    }
}

impl<'a, F: Real> Left<'a, F> {
    /// Rows of `width` elements without gaps.
    pub fn rows(data: &'a [F], width: usize) -> Self {
        Self {
            rows: data.len().checked_div(width).unwrap_or(0),
            data,
            stride: width,
            order: Order::Rows,
        }
    }

    /// So many rows that begin `stride` elements apart.
    pub fn with_gaps(data: &'a [F], rows: usize, stride: usize) -> Self {
        Self {
            data,
            rows,
            stride,
            order: Order::Rows,
        }
    }

    /// The transpose of rows of `width` elements without gaps.
    pub fn columns(data: &'a [F], width: usize) -> Self {
        Self {
            data,
            rows: width,
            stride: width,
            order: Order::Columns,
        }
    }

    /// Some of its rows.
    pub fn part(self, rows: Range<usize>) -> Self {
        let first = match self.order {
            Order::Rows => rows.start * self.stride,
            Order::Columns => rows.start,
        };
        Self {
            data: &self.data[first..],
            rows: rows.len(),
            ..self
        }
    }

    /// Its columns from one on.
    pub fn beyond(self, column: usize) -> Self {
        let first = match self.order {
            Order::Rows => column,
            Order::Columns => column * self.stride,
        };
        Self {
            data: &self.data[first..],
            ..self
        }
    }

    /// A matrix as it lies in memory, or a copy in `space` if both its rows and its columns have gaps.
    pub fn of(a: ArrayView2<'a, F>, space: &'a mut Buffer<F>) -> Self {
        let [m, k] = [a.nrows(), a.ncols()];
        if let Some(data) = a.to_slice() {
            return Self::with_gaps(data, m, k);
        }
        let transposed = a.reversed_axes();
        if let Some(data) = transposed.to_slice() {
            return Self::columns(data, m);
        }
        *space = memory::scratch(m * k);
        for (out, &x) in space.iter_mut().zip(&a) {
            *out = x;
        }
        Self::with_gaps(space, m, k)
    }
}

impl<'a, F: Real> Right<'a, F> {
    /// A factor for a product with so many rows: as it lies in memory where nothing is gained by panels.
    pub fn of(b: ArrayView2<'a, F>, rows: usize) -> Self {
        let (n, panel) = (b.ncols(), panel::<F>());
        let few = rows <= 2 * ROWS || n <= panel;
        match b.to_slice() {
            Some(data) if few && [0, panel / 4, panel / 2].contains(&(n % panel)) => Self {
                data: Data::Borrowed(data),
                panel,
                apart: panel,
                stride: n,
            },
            _ => Self::packed(b),
        }
    }

    /// A copy in panels, for several products.
    pub fn packed(b: ArrayView2<F>) -> Right<'static, F> {
        let ([k, n], panel) = ([b.nrows(), b.ncols()], panel::<F>());
        let mut data = memory::scratch(n.div_ceil(panel) * panel * k);
        let lines = Lines::of(b);
        let panels = data.chunks_mut((panel * k).max(1)).enumerate().collect();
        par::map(panels, n * k, |(number, out)| {
            let columns = number * panel..n.min((number + 1) * panel);
            if columns.len() < panel {
                out.fill(F::zero());
            }
            lines.copy(0..k, columns, out, panel);
        });
        Right {
            data: Data::Own(data),
            panel,
            apart: panel * k,
            stride: panel,
        }
    }

    /// The elements from row `k` of the panel of column `j` on.
    #[inline(always)]
    pub fn from(&self, k: usize, j: usize) -> &[F] {
        &self.data.elements()[j / self.panel * self.apart + k * self.stride..]
    }
}

/// Rows and columns that are copied together, so that both stay in the first-level cache.
const BLOCK: usize = 16;

/// A matrix with its rows as slices, or its columns, or neither.
enum Lines<'a, F> {
    Rows(Vec<&'a [F]>),
    Columns(Vec<&'a [F]>),
    Neither(ArrayView2<'a, F>),
}

impl<'a, F: Real> Lines<'a, F> {
    fn of(x: ArrayView2<'a, F>) -> Self {
        let slices = |axis: usize| -> Option<Vec<&'a [F]>> {
            let line = |i| x.index_axis_move(Axis(axis), i).to_slice();
            (0..x.len_of(Axis(axis))).map(line).collect()
        };
        match slices(0) {
            Some(rows) => Self::Rows(rows),
            None => slices(1).map_or(Self::Neither(x), Self::Columns),
        }
    }

    /// Copies some rows and columns to rows that begin `stride` elements apart.
    fn copy(&self, rows: Range<usize>, columns: Range<usize>, out: &mut [F], stride: usize) {
        match self {
            Self::Rows(lines) => {
                for (line, out) in lines[rows].iter().zip(out.chunks_mut(stride)) {
                    out[..columns.len()].copy_from_slice(&line[columns.clone()]);
                }
            }
            Self::Columns(lines) => across(&lines[columns], rows, out, stride),
            Self::Neither(x) => {
                for (i, out) in rows.zip(out.chunks_mut(stride)) {
                    for (j, out) in columns.clone().zip(out) {
                        *out = x[[i, j]];
                    }
                }
            }
        }
    }
}

/// out[p, l] = lines[l][range.start + p], with rows of `out` that begin `stride` elements apart: whole blocks in
/// vectors, the rest one by one.
fn across<F: Real>(lines: &[&[F]], range: Range<usize>, out: &mut [F], stride: usize) {
    simd(
        #[inline(always)]
        || {
            for (number, lines) in lines.chunks(BLOCK).enumerate() {
                let (first, mut p) = (number * BLOCK, 0);
                if let Ok(lines) = <&[&[F]; BLOCK]>::try_from(lines) {
                    while p + BLOCK <= range.len() {
                        let mut block = [[F::zero(); BLOCK]; BLOCK];
                        for (block, line) in block.iter_mut().zip(lines) {
                            let line = line[range.start + p..].first_chunk();
                            *block = *line.expect("a block");
                        }
                        for q in 0..BLOCK {
                            let out = &mut out[(p + q) * stride + first..];
                            let out: &mut [F; BLOCK] = out.first_chunk_mut().expect("a block");
                            for l in 0..BLOCK {
                                out[l] = block[l][q];
                            }
                        }
                        p += BLOCK;
                    }
                }
                for p in p..range.len() {
                    for (l, line) in lines.iter().enumerate() {
                        out[p * stride + first + l] = line[range.start + p];
                    }
                }
            }
        },
    );
}
