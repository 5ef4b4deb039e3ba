//! The scores of one tile, and the views of one head.

use super::{Dense, Operands};
use crate::kernels::gemm::{Left, Right, product};
use crate::kernels::par;
use crate::real::Real;
use ndarray::{ArrayView2, ShapeBuilder};
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
    if range.is_empty() || width == 0 {
        return ArrayView2::from_shape((range.len(), width), &[]).expect("no elements");
    }
    let shape = (range.len(), width).strides((heads * width, 1));
    let x = &x[start(x, [rows, heads, width], item, head, range.start)..];
    ArrayView2::from_shape(shape, x).expect("rows of the tensor")
}

/// The same rows as the left factor of a product.
#[inline(always)]
pub(super) fn left_of<F: Real>(
    x: &[F],
    [rows, heads, width]: [usize; 3],
    item: usize,
    head: usize,
    range: Range<usize>,
) -> Left<'_, F> {
    let start = start(x, [rows, heads, width], item, head, range.start);
    Left::with_gaps(&x[start..], range.len(), heads * width)
}

/// The element that a row of a head begins with; the end of a tensor without elements.
#[inline(always)]
fn start<F>(
    x: &[F],
    [rows, heads, width]: [usize; 3],
    item: usize,
    head: usize,
    row: usize,
) -> usize {
    (((item * rows + row) * heads + head) * width).min(x.len())
}

/// An operand as the right factor of the products of each head of each item; packed once, since every tile
/// needs it.
pub(super) struct HeadBlocks<F: Real> {
    all: Vec<Right<'static, F>>,
    heads: usize,
}

impl<F: Real> HeadBlocks<F> {
    /// The rows of each head, or their transpose.
    pub fn of(x: &[F], batch: usize, axes: [usize; 3], transposed: bool) -> Self {
        let [rows, heads, width] = axes;
        let each = (0..batch * heads).collect();
        let all = par::map(each, 2 * batch * rows * heads * width, |number| {
            let view = rows_of(x, axes, number / heads, number % heads, 0..rows);
            Right::packed(if transposed {
                view.reversed_axes()
            } else {
                view
            })
        });
        Self { all, heads }
    }

    /// That of one head.
    #[inline(always)]
    pub fn get(&self, item: usize, head: usize) -> &Right<'static, F> {
        &self.all[item * self.heads + head]
    }
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

    /// q · k of a tile, row by row into `s`; `keys` are those of all heads, transposed.
    pub(super) fn products(&self, q: &[F], keys: &HeadBlocks<F>, tile: &Tile, s: &mut [F]) {
        let (item, head, queries) = (tile.item, tile.head, tile.queries.clone());
        let q = left_of(q, self.query_axes(), item, head, queries);
        let k = keys.get(item, self.group(head));
        let columns = tile.keys.clone();
        product(q, k, 0..self.width, columns, s, tile.keys.len(), false);
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
        for j in 0..space.len() {
            let key = tile.item * self.keys + tile.keys.start + j;
            space[j] = beta[key * self.groups + group];
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
            let allowed = &allowed[tile.keys.clone()];
            for j in 0..row.len().min(allowed.len()) {
                row[j] = if allowed[j] {
                    row[j]
                } else {
                    F::neg_infinity()
                };
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
