//! Passes over blocks of rows, and the steps of a pass that do not call the score. Letters: see the table of
//! [the parent module](super).
//!
//! These steps are marked `#[inline(never)]`: the compiler makes one copy per type of numbers, and not one per
//! score.

use super::Attention;
use super::heads::{dot_heads, scale_entries};
use crate::kernels::par::{self, RowBlock};
use crate::kernels::rows::{self, part, part_mut};
use crate::kernels::spmm::weighted_sums;
use crate::kernels::{pairs, segment, simd};
use crate::real::Real;
use crate::sparse::Pattern;

/// An output of a pass, with its number of elements per row and per entry; at least one of the two is 0.
pub(super) struct Output<'a, F> {
    data: &'a mut [F],
    row: usize,
    entry: usize,
}

impl<'a, F> Output<'a, F> {
    pub fn by_row(data: &'a mut [F], row: usize) -> Self {
        Self {
            data,
            row,
            entry: 0,
        }
    }

    pub fn by_entry(data: &'a mut [F], entry: usize) -> Self {
        Self {
            data,
            row: 0,
            entry,
        }
    }

    fn cut(self, blocks: &[RowBlock]) -> impl Iterator<Item = &'a mut [F]> + use<'a, F> {
        let size = |b: &RowBlock| b.rows.len() * self.row + b.entries.len() * self.entry;
        par::carve(self.data, blocks.iter().map(size)).into_iter()
    }
}

/// The operands of [`Attention::score_adjoints`].
pub(super) struct ScoreAdjoints<'a, F> {
    /// gy and v, both of the shape [.., H, D]. The first is read by row of the pattern: gy for the edges, v for
    /// their transpose.
    pub ends: [&'a [F]; 2],
    /// α and drop(α) of the entries of the block.
    pub weights: [&'a [F]; 2],
    /// The target i of every entry of the block.
    pub targets: &'a [u32],
    /// ⟨gyᵢ, yᵢ⟩, shape [n, H].
    pub means: &'a [F],
}

impl Attention<'_> {
    /// One parallel pass over the rows of `pattern` (the edges or their transpose): calls `f(block, parts of
    /// the outputs)` for each block of rows and returns the results in order.
    pub(super) fn pass<'p, F: Real, R: Send, const N: usize>(
        &self,
        pattern: &'p Pattern,
        outputs: [Output<F>; N],
        f: impl Fn(RowBlock<'p>, [&mut [F]; N]) -> R + Sync,
    ) -> Vec<R> {
        if self.heads == 0 {
            return Vec::new();
        }
        // A row costs its own load and store, an entry a few operations per element of the neighbour.
        let (row, entry) = (2 * self.row_len() + 10, 3 * self.row_len() + 10);
        let blocks = par::row_blocks(pattern, row, entry);
        let mut parts = outputs.map(|output| output.cut(&blocks));
        let mut next = || {
            parts
                .each_mut()
                .map(|parts| parts.next().expect("a part per block"))
        };
        let tasks = blocks.into_iter().map(|block| (block, next())).collect();
        let work = pattern.rows() * row + pattern.nnz() * entry;
        par::map(tasks, work, |(block, parts)| f(block, parts))
    }

    /// Replaces the scores e of a block, in `alpha`, by α, and writes the rows of y: Σⱼ drop(α)ᵢⱼ vⱼ.
    #[inline(never)]
    pub(super) fn softmax_and_sums<F: Real>(
        &self,
        block: &RowBlock,
        t: Option<&[F]>,
        v: &[F],
        [y, alpha]: [&mut [F]; 2],
    ) {
        let heads = self.heads;
        simd(
            #[inline(always)]
            || {
                if let Some(t) = t {
                    let targets = &block.pattern.rows_of()[block.entries.clone()];
                    scale_entries(heads, targets, t, alpha);
                }
                segment::softmax_block(block, alpha, heads);
            },
        );
        let mut dropped = Vec::new();
        let kept = if self.dropout.is_none() {
            &*alpha
        } else {
            dropped.resize(alpha.len(), F::zero());
            let first = block.entries.start * heads;
            self.dropout.apply(alpha, first, &mut dropped);
            &dropped
        };
        weighted_sums(block, heads, kept, v, y, false);
    }

    /// The adjoints g of the scores t e of a block: drop(α) ⟨gyᵢ, vⱼ⟩ − α ⟨gyᵢ, yᵢ⟩ per entry and head, and 0
    /// where α = 1.
    #[inline(never)]
    pub(super) fn score_adjoints<F: Real>(
        &self,
        block: &RowBlock,
        x: ScoreAdjoints<F>,
        g: &mut [F],
    ) {
        let (heads, d, w) = (self.heads, self.width, self.row_len());
        let [of_row, of_entry] = x.ends;
        simd(
            #[inline(always)]
            || {
                let entries = block.entries.clone();
                let rows = block.pattern.rows_of()[entries.clone()].iter();
                let ends = pairs(rows, block.pattern.indices()[entries].iter());
                for ((&i, &j), g) in pairs(ends, g.chunks_exact_mut(heads)) {
                    let (i, j) = (i as usize * w, j as usize * w);
                    dot_heads(d, &of_row[i..][..w], &of_entry[j..][..w], g);
                }
                from_products(heads, x.targets, x.weights, x.means, g);
            },
        );
    }

    /// The values of x for the entries of a block of columns, in their order, copied to `space`.
    ///
    /// One short loop copies them all, so that the scattered fetches overlap.
    pub(super) fn of_columns<'s, F: Real>(
        &self,
        block: &RowBlock,
        x: &[F],
        space: &'s mut Vec<F>,
    ) -> &'s mut [F] {
        let entries = &self.pattern.transposed().entry[block.entries.clone()];
        rows::collect(entries, x, self.heads, space)
    }
}

/// Replaces ⟨gyᵢ, vⱼ⟩ of some entries by the adjoint of their scores. `targets` are their rows i, `weights` their
/// α and drop(α), `means` the numbers ⟨gyᵢ, yᵢ⟩ of all targets.
///
/// Where α = 1, y is drop(1) vⱼ with every element rounded, so the two products differ by rounding alone. The
/// exact adjoint is 0, and later factors may be large, so it is set to 0.
#[inline(always)]
fn from_products<F: Real>(
    heads: usize,
    targets: &[u32],
    weights: [&[F]; 2],
    means: &[F],
    g: &mut [F],
) {
    let mut at = 0;
    while at < heads {
        at += match heads - at {
            8.. => of_heads::<F, 8>((heads, at), targets, weights, means, g),
            4.. => of_heads::<F, 4>((heads, at), targets, weights, means, g),
            2.. => of_heads::<F, 2>((heads, at), targets, weights, means, g),
            _ => of_heads::<F, 1>((heads, at), targets, weights, means, g),
        };
    }
}

/// The same for C heads from `at` on. Returns C.
#[inline(always)]
fn of_heads<F: Real, const C: usize>(
    (heads, at): (usize, usize),
    targets: &[u32],
    [alpha, kept]: [&[F]; 2],
    means: &[F],
    g: &mut [F],
) -> usize {
    let weights = pairs(alpha.chunks_exact(heads), kept.chunks_exact(heads));
    let own = pairs(targets.iter(), g.chunks_exact_mut(heads));
    for ((&i, g), (alpha, kept)) in pairs(own, weights) {
        let (alpha, kept) = (*part::<F, C>(alpha, at), *part::<F, C>(kept, at));
        let mean = *part::<F, C>(means, i as usize * heads + at);
        let g = part_mut::<F, C>(g, at);
        for l in 0..C {
            let difference = kept[l] * g[l] - alpha[l] * mean[l];
            g[l] = if alpha[l] == F::one() {
                F::zero()
            } else {
                difference
            };
        }
    }
    C
}
