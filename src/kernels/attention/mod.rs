//! Graph attention, fused: scores, softmax over the neighbours and the weighted sum in one pass over the edges, and its adjoint in
//! two. Nothing of size edges × width is ever written.
//!
//! | letter | shape | meaning |
//! |---|---|---|
//! | pattern | n × m, nnz entries | entry e = (i, j): target i hears source j |
//! | z, zs | [m, H, D] | projected sources |
//! | zt | [n, H, D] | projected targets |
//! | a | [H, D] | attention vector (GATv2) |
//! | s_src, s_tgt | [m, H], [n, H] | halves of the score (GAT) |
//! | α | [nnz, H] | coefficients after softmax, before dropout |
//! | y, gy | [n, H, D] | output and its adjoint |
//!
//! Dropout multiplies coefficient (e, h) by the factor of element e H + h. A target without neighbours gets zeros.
//!
//! The cost is the traffic of the edges: each pass fetches the row of the neighbour once an edge. The adjoint needs two passes, by
//! rows for what belongs to targets and by columns for what belongs to sources, so that each thread writes rows of its own.

mod gat;
mod gatv2;
#[cfg(test)]
mod tests;

pub use gat::{Gat, GatAdjoints};
pub use gatv2::{GatV2, GatV2Adjoints};

use super::random::Dropout;
use super::spmm::check;
use super::{axpy, par, simd};
use crate::real::Real;
use crate::sparse::Pattern;
use std::ops::Range;

/// What every fused attention needs to know besides its operands.
#[derive(Debug, Clone, Copy)]
pub struct Attention<'a, F> {
    /// The edges.
    pub pattern: &'a Pattern,
    /// H, the number of heads.
    pub heads: usize,
    /// D, the width of a head.
    pub width: usize,
    /// The slope of the LeakyReLU for negative arguments.
    pub slope: F,
    /// Dropout of the coefficients.
    pub dropout: Dropout,
}

/// A block of rows of a pattern and their entries.
struct Block {
    rows: Range<usize>,
    entries: Range<usize>,
}

/// An output of a pass, with the number of its elements a row and an entry; one of the two is 0.
struct Output<'a, T> {
    data: &'a mut [T],
    row: usize,
    entry: usize,
}

impl<'a, T> Output<'a, T> {
    fn by_row(data: &'a mut [T], row: usize) -> Self {
        Self {
            data,
            row,
            entry: 0,
        }
    }

    fn by_entry(data: &'a mut [T], entry: usize) -> Self {
        Self {
            data,
            row: 0,
            entry,
        }
    }

    fn cut(self, blocks: &[Block]) -> Vec<&'a mut [T]> {
        let size = |b: &Block| b.rows.len() * self.row + b.entries.len() * self.entry;
        par::carve(self.data, blocks.iter().map(size))
    }
}

impl<F: Real> Attention<'_, F> {
    /// One pass over the rows of `pattern` (the edges, or their transpose), in parallel: calls
    /// `f(heads, width, block, part of first, part of second)` and returns the results in order.
    fn pass<A: Send, B: Send, R: Send>(
        &self,
        pattern: &Pattern,
        first: Output<A>,
        second: Output<B>,
        f: impl Fn(usize, usize, Block, &mut [A], &mut [B]) -> R + Sync,
    ) -> Vec<R> {
        let indptr = pattern.indptr();
        // A row costs a load and a store of its own, an entry a few operations on each element of its neighbour.
        let (row, entry) = (2 * self.row_len() + 10, 3 * self.row_len() + 10);
        let blocks: Vec<_> = par::row_blocks(pattern, row, entry)
            .into_iter()
            .map(|rows| Block {
                entries: indptr[rows.start]..indptr[rows.end],
                rows,
            })
            .collect();
        let parts = first.cut(&blocks).into_iter().zip(second.cut(&blocks));
        let tasks: Vec<_> = blocks.into_iter().zip(parts).collect();
        let work = pattern.rows() * row + pattern.nnz() * entry;
        par::map(tasks, work, |(block, (first, second))| {
            simd(
                #[inline(always)]
                || match (self.heads, self.width) {
                    // Common sizes as constants, so that the inner loops unroll.
                    (1, 64) => f(1, 64, block, first, second),
                    (8, 8) => f(8, 8, block, first, second),
                    (heads, width) => f(heads, width, block, first, second),
                },
            )
        })
    }

    /// H × D, the elements of one node.
    fn row_len(&self) -> usize {
        self.heads * self.width
    }

    #[track_caller]
    fn check_sources(&self, op: &str, name: &str, x: &[F]) {
        check(op, name, x, &[self.pattern.cols(), self.heads, self.width]);
    }

    #[track_caller]
    fn check_targets(&self, op: &str, name: &str, x: &[F]) {
        check(op, name, x, &[self.pattern.rows(), self.heads, self.width]);
    }

    #[track_caller]
    fn check_backward(&self, op: &str, back: &Backward<F>) {
        check(op, "alpha", back.alpha, &[self.pattern.nnz(), self.heads]);
        self.check_targets(op, "y", back.y);
        self.check_targets(op, "gy", back.gy);
    }

    /// The factor of dropout on head `h` of entry `e`.
    #[inline(always)]
    fn factor(&self, e: usize, h: usize) -> F {
        if self.dropout.is_none() {
            F::one()
        } else {
            self.dropout.factor(e * self.heads + h)
        }
    }
}

/// What the adjoints are made from besides the operands: what the forward kernel returned, and the adjoint of y.
#[derive(Debug, Clone, Copy)]
pub struct Backward<'a, F> {
    /// The coefficients, shape [nnz, H].
    pub alpha: &'a [F],
    /// The output, shape [n, H, D].
    pub y: &'a [F],
    /// Its adjoint, shape [n, H, D].
    pub gy: &'a [F],
}

/// y[h, :] ← y[h, :] + c[h] x[h, :] for every head.
#[inline(always)]
fn axpy_heads<F: Real>(heads: usize, d: usize, c: &[F], x: &[F], y: &mut [F]) {
    for h in 0..heads {
        axpy(c[h], &x[h * d..(h + 1) * d], &mut y[h * d..(h + 1) * d]);
    }
}

/// LeakyReLU: x for x > 0, else slope · x.
#[inline(always)]
fn leaky<F: Real>(x: F, slope: F) -> F {
    if x > F::zero() { x } else { slope * x }
}

/// Its derivative: 1 for x > 0, else the slope.
#[inline(always)]
fn leaky_gate<F: Real>(x: F, slope: F) -> F {
    if x > F::zero() { F::one() } else { slope }
}
