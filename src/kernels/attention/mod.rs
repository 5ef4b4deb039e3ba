//! Graph attention, fused: one pass over the edges computes the scores, their softmax over the neighbours and
//! the weighted sum; one or two passes compute the adjoints. No array of size edges × width is written.
//!
//! | letter | shape | meaning |
//! |---|---|---|
//! | pattern | n × m, nnz entries | entry k = (i, j): target i hears source j |
//! | z, zs | [m, H, D] | projected sources |
//! | zt | [n, H, D] | projected targets |
//! | a | [H, D] | attention vector (GATv2) |
//! | s_src, s_tgt | [m, H], [n, H] | halves of the score (GAT) |
//! | e | [nnz, H] | scores |
//! | t | [n, H] | inverse temperature: multiplies all scores of a target; optional, 1 if absent |
//! | α | [nnz, H] | coefficients softmaxⱼ(tᵢ eᵢⱼ), before dropout |
//! | y, gy | [n, H, D] | output and its adjoint |
//!
//! Dropout multiplies coefficient (k, h) by the factor of element k H + h. A target without neighbours gets
//! zeros.
//!
//! The cost is memory traffic: each pass fetches one row of a neighbour per edge. The adjoints of targets are
//! computed by rows and those of sources by columns, so that each thread writes rows of its own. GATv2 needs
//! a pass of each kind. The adjoints of targets in GAT have one number per head, so that one pass by columns
//! is enough.

pub mod dense;
mod gat;
mod gatv2;
mod halves;
mod heads;
mod options;
pub mod symmetric;
#[cfg(test)]
mod tests;

pub use gat::{Gat, GatAdjoints};
pub use gatv2::{GatV2, GatV2Adjoints};
pub use halves::{half_scores, half_scores_backward};
pub use options::{DenseAttention, Mask};

use super::random::Dropout;
use super::rows::Out;
use super::spmm::check;
use super::{axpy, par, rows, segment, simd};
use crate::real::Real;
use crate::sparse::Pattern;
use crate::tensor::memory::{self, Buffer};
use heads::{dot_heads, scale_entries};
use std::ops::Range;

/// The edges, sizes and options of a fused attention.
#[derive(Debug, Clone, Copy)]
pub struct Attention<'a, F> {
    /// The edges.
    pub pattern: &'a Pattern,
    /// H, the number of heads.
    pub heads: usize,
    /// D, the width of each head.
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

/// An output of a pass, with its number of elements per row and per entry; one of the two is 0.
struct Output<'a, T> {
    data: &'a mut [T],
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
    /// One parallel pass over the rows of `pattern` (the edges or their transpose): calls `f(heads, width,
    /// block, part of first, part of second)` for each block of rows and returns the results in order.
    fn pass<A: Send, B: Send, R: Send>(
        &self,
        pattern: &Pattern,
        first: Output<A>,
        second: Output<B>,
        f: impl Fn(usize, usize, Block, &mut [A], &mut [B]) -> R + Sync,
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
        let parts = first.cut(&blocks).into_iter().zip(second.cut(&blocks));
        let tasks: Vec<_> = blocks.into_iter().zip(parts).collect();
        let work = pattern.rows() * row + pattern.nnz() * entry;
        par::map(tasks, work, |(block, (first, second))| {
            simd(
                #[inline(always)]
                || f(self.heads, self.width, block, first, second),
            )
        })
    }

    /// yᵢₕ = Σⱼ drop(α)ᵢⱼₕ zⱼₕ with α = softmaxⱼ(tᵢₕ eᵢⱼₕ), where `score(i, j, e)` writes the H scores of an
    /// edge to e. Returns y and α.
    fn attend(
        &self,
        z: &[F],
        t: Option<&[F]>,
        score: impl Fn(usize, usize, &mut [F]) + Sync,
    ) -> (Buffer<F>, Buffer<F>) {
        let (p, w) = (self.pattern, self.row_len());
        let mut y = memory::scratch(p.rows() * w);
        let mut alpha = memory::scratch(p.nnz() * self.heads);
        self.pass(
            p,
            Output::by_row(&mut y, w),
            Output::by_entry(&mut alpha, self.heads),
            #[inline(always)]
            |heads, d, block, y, alpha| {
                let w = heads * d;
                for i in block.rows.clone() {
                    let (sources, own) = block.row(p, i, heads);
                    let own = &mut alpha[own];
                    for (&j, scores) in sources.iter().zip(own.chunks_exact_mut(heads)) {
                        score(i, j as usize, scores);
                    }
                    if let Some(t) = t {
                        scale_entries(own, &t[i * heads..][..heads]);
                    }
                }
                segment::softmax_block(p, block.rows.clone(), alpha, heads);
                let mut dropped = Vec::new();
                let kept = if self.dropout.is_none() {
                    alpha
                } else {
                    dropped.resize(alpha.len(), F::zero());
                    let first = block.entries.start * heads;
                    self.dropout.apply(alpha, first, &mut dropped);
                    &mut dropped
                };
                for (row, i) in block.rows.clone().enumerate() {
                    let (sources, own) = block.row(p, i, heads);
                    let y = Out::Set(&mut y[row * w..][..w]);
                    rows::weighted_sum(sources, &kept[own], z, heads, y);
                }
            },
        );
        (y, alpha)
    }

    /// ⟨x[i, h, :], y[i, h, :]⟩ per target and head, shape [n, H].
    fn dots(&self, x: &[F], y: &[F]) -> Buffer<F> {
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
    fn kept<'a>(&self, alpha: &'a [F], space: &'a mut Buffer<F>) -> &'a [F] {
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
    fn of_columns<'s>(&self, block: &Block, x: &[F], space: &'s mut Vec<F>) -> &'s [F] {
        let entries = &self.pattern.transposed().entry[block.entries.clone()];
        rows::collect(entries, x, self.heads, space)
    }

    /// H D, the number of elements per node.
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
    fn check_temperature(&self, op: &str, t: Option<&[F]>) {
        if let Some(t) = t {
            check(op, "t", t, &[self.pattern.rows(), self.heads]);
        }
    }

    #[track_caller]
    fn check_backward(&self, op: &str, back: &Backward<F>) {
        check(op, "alpha", back.alpha, &[self.pattern.nnz(), self.heads]);
        self.check_targets(op, "y", back.y);
        self.check_targets(op, "gy", back.gy);
    }
}

/// The operands of the adjoints besides those of the forward kernel: its results, and the adjoint of y.
#[derive(Debug, Clone, Copy)]
pub struct Backward<'a, F> {
    /// The coefficients, shape [nnz, H].
    pub alpha: &'a [F],
    /// The output, shape [n, H, D].
    pub y: &'a [F],
    /// The adjoint of y, shape [n, H, D].
    pub gy: &'a [F],
}

/// a + b.
fn add<F: Real>(mut a: Vec<F>, b: Vec<F>) -> Vec<F> {
    axpy(F::one(), &b, &mut a);
    a
}
