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
//! the two passes also computes the adjoints of the scores, ⟨gyᵢ, vⱼ⟩ among them: by rows where k = v, since
//! both of its sums read the rows vⱼ; else by columns, since the adjoint of v reads the rows gyᵢ too.
//! Where an edge and its reverse compare the same rows, the second pass is by rows too, and one sum serves
//! a node as target and as source.
//!
//! A pass takes a block of rows through several steps. The steps that call f are compiled once per score, the
//! others once.

mod blocks;
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
use super::{accumulate, par, simd};
use crate::real::Real;
use crate::sparse::Pattern;
use crate::tensor::memory::{self, Buffer};
use heads::dot_heads;

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

impl Attention<'_> {
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
                    for (k, out) in block.chunks_exact_mut(heads).enumerate() {
                        let at = (first + k) * w;
                        dot_heads(self.width, &x[at..][..w], &y[at..][..w], out);
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

    /// H D, the number of elements per node.
    fn row_len(&self) -> usize {
        self.heads * self.width
    }
}

/// a + b.
fn add<F: Real>(mut a: Vec<F>, b: Vec<F>) -> Vec<F> {
    accumulate(&mut a, &b);
    a
}
