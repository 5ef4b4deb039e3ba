//! The scores of one tile, and the views of one head.

use super::{Dense, Operands};
use crate::kernels::gemm::{Into, block};
use crate::real::Real;
use ndarray::{ArrayView2, ArrayViewMut2, ShapeBuilder};
use std::ops::Range;

/// One tile: queries and keys of one head of one item.
#[derive(Debug, Clone)]
pub(super) struct Tile {
    pub item: usize,
    pub head: usize,
    pub queries: Range<usize>,
    pub keys: Range<usize>,
}

/// Rows of one head in a tensor [B, rows, heads, width]: a matrix whose rows lie `heads` · `width` apart.
#[inline(always)]
pub(super) fn rows_of<F>(
    x: &[F],
    [rows, heads, width]: [usize; 3],
    item: usize,
    head: usize,
    range: Range<usize>,
) -> ArrayView2<'_, F> {
    let start = ((item * rows + range.start) * heads + head) * width;
    let shape = (range.len(), width).strides((heads * width, 1));
    ArrayView2::from_shape(shape, &x[start..]).expect("rows of the tensor")
}

/// The first rows × columns elements of a buffer as a matrix.
pub(in super::super) fn matrix<F>(x: &[F], rows: usize, columns: usize) -> ArrayView2<'_, F> {
    ArrayView2::from_shape((rows, columns), &x[..rows * columns]).expect("as many elements")
}

/// The same, to be written.
pub(in super::super) fn matrix_mut<F>(
    x: &mut [F],
    rows: usize,
    columns: usize,
) -> ArrayViewMut2<'_, F> {
    let x = &mut x[..rows * columns];
    ArrayViewMut2::from_shape((rows, columns), x).expect("as many elements")
}

impl<F: Real> Dense<'_, F> {
    /// The group of a head.
    #[inline(always)]
    pub(super) fn group(&self, head: usize) -> usize {
        head / (self.heads / self.groups)
    }

    /// [n, H, d] and [m, G, d]: the axes of queries and keys without the batch.
    pub(super) fn query_axes(&self) -> [usize; 3] {
        [self.queries, self.heads, self.width]
    }

    pub(super) fn key_axes(&self) -> [usize; 3] {
        [self.keys, self.groups, self.width]
    }

    pub(super) fn value_axes(&self) -> [usize; 3] {
        [self.keys, self.groups, self.value_width]
    }

    pub(super) fn output_axes(&self) -> [usize; 3] {
        [self.queries, self.heads, self.value_width]
    }

    /// The number of keys that the queries of a range see at most: keys beyond are in no tile.
    pub(super) fn reach(&self, item: usize, queries: &Range<usize>) -> usize {
        let seen = |i| self.mask.reach(item, i, self.queries, self.keys);
        queries.clone().map(seen).max().unwrap_or(0)
    }

    /// q · k of a tile, row by row into `s`.
    pub(super) fn products(&self, x: &Operands<'_, F>, tile: &Tile, s: &mut [F]) {
        let (item, group) = (tile.item, self.group(tile.head));
        let q = rows_of(
            x.q,
            self.query_axes(),
            item,
            tile.head,
            tile.queries.clone(),
        );
        let k = rows_of(x.k, self.key_axes(), item, group, tile.keys.clone());
        let out = matrix_mut(s, tile.queries.len(), tile.keys.len());
        block(q, k.reversed_axes(), out, Into::Set);
    }

    /// β of the keys of a tile, one after the other in `space`.
    pub(super) fn offsets<'s>(
        &self,
        x: &Operands<'_, F>,
        tile: &Tile,
        space: &'s mut [F],
    ) -> Option<&'s [F]> {
        let beta = x.beta?;
        let group = self.group(tile.head);
        let space = &mut space[..tile.keys.len()];
        for (j, out) in tile.keys.clone().zip(&mut *space) {
            *out = beta[(tile.item * self.keys + j) * self.groups + group];
        }
        Some(space)
    }

    /// c tᵢ of query i.
    #[inline(always)]
    pub(super) fn factor(&self, x: &Operands<'_, F>, item: usize, head: usize, i: usize) -> F {
        match x.t {
            Some(t) => self.scale * t[(item * self.queries + i) * self.heads + head],
            None => self.scale,
        }
    }

    /// −∞ in place of the scores of row i that the mask forbids; `row` holds the keys of the tile.
    #[inline(always)]
    pub(super) fn hide(&self, tile: &Tile, i: usize, row: &mut [F]) {
        let reach = self.mask.reach(tile.item, i, self.queries, self.keys);
        let seen = reach.saturating_sub(tile.keys.start).min(row.len());
        row[seen..].fill(F::neg_infinity());
        if let Some(allowed) = self.mask.row(tile.item, i, self.queries, self.keys) {
            for (x, &keep) in row.iter_mut().zip(&allowed[tile.keys.clone()]) {
                *x = if keep { *x } else { F::neg_infinity() };
            }
        }
        for &j in self.mask.excepted(i, &tile.keys) {
            row[j as usize - tile.keys.start] = F::neg_infinity();
        }
    }

    /// The number of the first coefficient of row i of a tile among all of α.
    #[inline(always)]
    pub(super) fn number(&self, tile: &Tile, i: usize) -> usize {
        ((tile.item * self.heads + tile.head) * self.queries + i) * self.keys + tile.keys.start
    }
}
