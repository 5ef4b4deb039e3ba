//! The two factors of a product, in the orders in which the microkernels read them.

use super::panels::{CUT, ROWS, widths};
use crate::kernels::{copy_few, par, simd};
use crate::real::Real;
use crate::tensor::memory::{self, Buffer};
use crate::tensor::transpose;
use ndarray::ArrayView2;
use std::ops::Range;

/// The most bytes of a row of a right factor of several panels that is read in place for more than 12 rows.
/// If rows begin further apart, the lines of a panel fall into few sets of the cache.
const SHORT: usize = 2048;

/// The most bytes of the output of such a product. In a taller one each panel serves so many rows that it is
/// copied.
const SMALL: usize = 96 << 10;

/// Which elements of a matrix have no gaps between them.
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

/// The right factor in panels of as many columns as a microkernel takes. The last panel of a copy is filled
/// up with zeros as far as a microkernel reads it.
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

    /// A copy of some of its columns in `space`, in rows that begin `room` elements apart.
    #[inline(always)]
    pub fn copied(self, columns: Range<usize>, space: &mut [F], room: usize) -> Left<'_, F> {
        match self.order {
            Order::Rows => {
                for (r, out) in (0..self.rows).zip(space.chunks_exact_mut(room)) {
                    let row = &self.data[r * self.stride..][columns.clone()];
                    out[..row.len()].copy_from_slice(row);
                }
            }
            Order::Columns => {
                let line = |p| &self.data[p * self.stride..][..self.rows];
                transpose(&columns.map(line).collect::<Vec<_>>(), space, room);
            }
        }
        Left::with_gaps(space, self.rows, room)
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
    /// The factor of a product with `rows` rows. It is copied into panels, except where that takes longer
    /// than it saves. A factor of one panel is read as it lies in memory, and so is any factor if the product
    /// has up to 12 rows, or is small and the rows of the factor are short.
    pub fn of(b: ArrayView2<'a, F>, rows: usize) -> Self {
        let (n, widths) = (b.ncols(), widths::<F>());
        let panel = widths[0];
        let bytes = n * size_of::<F>();
        let few = rows <= 2 * ROWS || (bytes <= SHORT && rows.saturating_mul(bytes) <= SMALL);
        // A microkernel reads whole vectors, also in the last row.
        let ends = n.is_multiple_of(panel) || widths.contains(&(n % panel));
        match b.to_slice() {
            Some(data) if (few || n <= panel) && ends => Self {
                data: Data::Borrowed(data),
                panel,
                apart: panel,
                stride: n,
            },
            _ => Self::packed(b),
        }
    }

    /// Whether it is read as it lies in memory.
    pub fn in_place(&self) -> bool {
        matches!(self.data, Data::Borrowed(_))
    }

    /// A copy in panels, for several products.
    pub fn packed(b: ArrayView2<F>) -> Right<'static, F> {
        let ([k, n], widths) = ([b.nrows(), b.ncols()], widths::<F>());
        let panel = widths[0];
        let mut data = memory::scratch(n.div_ceil(panel) * panel * k);
        let lines = Lines::of(b);
        // A task fills panels of neighbouring columns, so that it reads longer pieces of a row. Of a factor
        // with few panels it fills one, so that threads can share them.
        let together = if n < 8 * CUT { panel } else { CUT };
        let tasks = data.chunks_mut((together * k).max(1)).enumerate().collect();
        par::map(tasks, n * k, |(number, out)| {
            let first = number * together;
            let columns = first..n.min(first + together);
            let mut panels: Vec<_> = out.chunks_mut((panel * k).max(1)).collect();
            // The microkernel for the last panel reads whole vectors, beyond its columns too.
            if let (Some(last), rest @ 1..) = (panels.last_mut(), columns.len() % panel) {
                let enough = widths.into_iter().filter(|&width| width >= rest);
                let read = rest..enough.min().unwrap_or(panel);
                last.chunks_mut(panel)
                    .for_each(|row| row[read.clone()].fill(F::zero()));
            }
            lines.copy(columns, &mut panels, panel);
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

/// A matrix with its rows as slices, or its columns, or neither.
enum Lines<'a, F> {
    Rows(Vec<&'a [F]>),
    Columns(Vec<&'a [F]>),
    Neither(ArrayView2<'a, F>),
}

impl<'a, F: Real> Lines<'a, F> {
    fn of(x: ArrayView2<'a, F>) -> Self {
        let lines = |x: ArrayView2<'a, F>| -> Option<Vec<&'a [F]>> {
            match x.to_slice() {
                Some(all) if !all.is_empty() => Some(all.chunks_exact(x.ncols()).collect()),
                _ => x.into_outer_iter().map(|line| line.to_slice()).collect(),
            }
        };
        match lines(x) {
            Some(rows) => Self::Rows(rows),
            None => lines(x.reversed_axes()).map_or(Self::Neither(x), Self::Columns),
        }
    }

    /// Copies some columns to panels of `panel` columns.
    fn copy(&self, columns: Range<usize>, panels: &mut [&mut [F]], panel: usize) {
        match self {
            Self::Rows(lines) => simd(
                #[inline(always)]
                || {
                    for (k, line) in lines.iter().enumerate() {
                        let row = &line[columns.clone()];
                        for number in 0..panels.len() {
                            let part = &row[number * panel..row.len().min((number + 1) * panel)];
                            copy_few(part, &mut panels[number][k * panel..][..part.len()]);
                        }
                    }
                },
            ),
            Self::Columns(lines) => {
                for (lines, out) in lines[columns].chunks(panel).zip(panels) {
                    simd(
                        #[inline(always)]
                        || transpose(lines, out, panel),
                    );
                }
            }
            Self::Neither(x) => {
                for (k, row) in x.rows().into_iter().enumerate() {
                    for (l, j) in columns.clone().enumerate() {
                        panels[l / panel][k * panel + l % panel] = row[j];
                    }
                }
            }
        }
    }
}
