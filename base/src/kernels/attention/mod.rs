//! Graph attention, fused: one pass over the edges computes the scores, their softmax over the neighbours and
//! the weighted sum; one or two passes compute the adjoints. No array of size edges × width is written.
//!
//! | letter | shape | meaning |
//! |---|---|---|
//! | pattern | n × m, nnz entries | entry k = (i, j): target i hears source j |
//! | k | [m, H, K] | rows of the sources that a score reads |
//! | q | [n, H, K] | rows of the targets that it reads |
//! | a | [H, K] | attention vector |
//! | f | | a function of two numbers |
//! | e | [nnz, H] | scores Σ_c a[h, c] f(k[j, h, c], q[i, h, c]) |
//! | v | [m, H, D] | values: rows of the sources of which means are taken |
//! | t | [n, H] | inverse temperature: multiplies all scores of a target; optional, 1 if absent |
//! | α | [nnz, H] | coefficients softmaxⱼ(tᵢ eᵢⱼ), before dropout |
//! | y, gy | [n, H, D] | output and its adjoint |
//!
//! Dropout multiplies coefficient (k, h) by the factor of element k H + h. A target without neighbours gets
//! zeros.
//!
//! GAT has K = 1 and f = LeakyReLU(k + q), where k and q are the two [halves](half_scores) of its score;
//! GATv2 has the same f with k = v, and for shared weights k = q = v. Dot products have f = s k q.
//!
//! The cost is memory traffic: a pass fetches rows of neighbours for each edge. The adjoints of targets are
//! computed by rows and those of sources by columns, so that each thread writes rows of its own. The first of
//! the two passes also computes the adjoints of the scores, ⟨gyᵢ, vⱼ⟩ among them: by rows where k = v, so
//! that one fetch of vⱼ serves both; else by columns, where the fetch of gyᵢ serves the adjoint of v too.

pub mod dense;
mod edges;
mod halves;
mod heads;
mod mask;
mod operands;
mod passes;
mod steps;

pub mod symmetric;

pub use halves::{half_scores, half_scores_backward};
pub use mask::Mask;
pub use operands::{Adjoints, Backward, Operands};

use super::random::DropMask;
use super::{axpy, par, rows, simd};
use crate::real::Real;
use crate::sparse::Pattern;
use crate::tensor::memory::{self, Buffer};
use heads::dot_heads;
use std::ops::Range;

/// The edges, sizes and options of a fused attention.
#[derive(Debug, Clone, Copy)]
pub struct Attention<'a> {
    /// The edges.
    pub pattern: &'a Pattern,
    /// H, the number of heads.
    pub heads: usize,
    /// D, the width of each head of the values.
    pub width: usize,
    /// Dropout of the coefficients.
    pub dropout: DropMask,
}

/// A block of rows of a pattern and their entries.
struct Block {
    rows: Range<usize>,
    entries: Range<usize>,
}

/// An output of a pass, with its number of elements per row and per entry; at least one of the two is 0.
struct Output<'a, F> {
    data: &'a mut [F],
    row: usize,
    entry: usize,
}

impl Block {
    /// Row i of `pattern`: the columns of its entries, and the range within the block of their elements, H
    /// each.
    #[inline(always)]
    fn row<'a>(&self, pattern: &'a Pattern, i: usize, heads: usize) -> (&'a [u32], Range<usize>) {
        let entries = pattern.row(i);
        let [start, end] = [entries.start, entries.end].map(|e| (e - self.entries.start) * heads);
        (&pattern.indices()[entries], start..end)
    }
}

impl<'a, F> Output<'a, F> {
    fn by_row(data: &'a mut [F], row: usize) -> Self {
        Self {
            data,
            row,
            entry: 0,
        }
    }

    fn by_entry(data: &'a mut [F], entry: usize) -> Self {
        Self {
            data,
            row: 0,
            entry,
        }
    }

    fn cut(self, blocks: &[Block]) -> impl Iterator<Item = &'a mut [F]> + use<'a, F> {
        let size = |b: &Block| b.rows.len() * self.row + b.entries.len() * self.entry;
        par::carve(self.data, blocks.iter().map(size)).into_iter()
    }
}

impl Attention<'_> {
    /// One parallel pass over the rows of `pattern` (the edges or their transpose): calls `f(heads, width,
    /// block, parts of the outputs)` for each block of rows and returns the results in order.
    fn pass<F: Real, R: Send, const N: usize>(
        &self,
        pattern: &Pattern,
        outputs: [Output<F>; N],
        f: impl Fn(usize, usize, Block, [&mut [F]; N]) -> R + Sync,
    ) -> Vec<R> {
        if self.heads == 0 {
            return Vec::new();
        }
        let indptr = pattern.indptr();
        // A row costs its own load and store, an entry a few operations per element of the neighbour.
        let (row, entry) = (2 * self.row_len() + 10, 3 * self.row_len() + 10);
        let blocks: Vec<_> = par::row_blocks(pattern, row, entry)
            .into_iter()
            .map(|rows| Block {
                entries: indptr[rows.start]..indptr[rows.end],
                rows,
            })
            .collect();
        let mut parts = outputs.map(|output| output.cut(&blocks));
        let mut next = || {
            parts
                .each_mut()
                .map(|parts| parts.next().expect("a part per block"))
        };
        let tasks = blocks.into_iter().map(|block| (block, next())).collect();
        let work = pattern.rows() * row + pattern.nnz() * entry;
        par::map(tasks, work, |(block, parts)| {
            simd(
                #[inline(always)]
                || f(self.heads, self.width, block, parts),
            )
        })
    }

    /// ⟨x[i, h, :], y[i, h, :]⟩ per target and head, shape [n, H].
    fn dots<F: Real>(&self, x: &[F], y: &[F]) -> Buffer<F> {
        let (heads, w) = (self.heads, self.row_len());
        let mut out = memory::zeros(self.pattern.rows() * heads);
        if w == 0 {
            return out;
        }
        par::rows(&mut out, heads, w, |first, block| {
            simd(
                #[inline(always)]
                || {
                    let rows = x[first * w..]
                        .chunks_exact(w)
                        .zip(y[first * w..].chunks_exact(w));
                    for (out, (x, y)) in block.chunks_exact_mut(heads).zip(rows) {
                        dot_heads(self.width, x, y, out);
                    }
                },
            )
        });
        out
    }

    /// drop(α): α itself without dropout, otherwise computed into `space`.
    fn kept<'a, F: Real>(&self, alpha: &'a [F], space: &'a mut Buffer<F>) -> &'a [F] {
        if self.dropout.is_none() {
            return alpha;
        }
        *space = memory::scratch(alpha.len());
        par::rows(space, 1, 2, |first, part| {
            self.dropout
                .apply(&alpha[first..][..part.len()], first, part)
        });
        space
    }

    /// The values of x for the entries of a block of columns, in their order, copied to `space`.
    ///
    /// One short loop copies them all, so that the scattered fetches overlap.
    #[inline(always)]
    fn of_columns<'s, F: Real>(
        &self,
        block: &Block,
        x: &[F],
        space: &'s mut Vec<F>,
    ) -> &'s mut [F] {
        let entries = &self.pattern.transposed().entry[block.entries.clone()];
        rows::collect(entries, x, self.heads, space)
    }

    /// H D, the number of elements per node.
    fn row_len(&self) -> usize {
        self.heads * self.width
    }
}

/// a + b.
fn add<F: Real>(mut a: Vec<F>, b: Vec<F>) -> Vec<F> {
    axpy(F::one(), &b, &mut a);
    a
}
