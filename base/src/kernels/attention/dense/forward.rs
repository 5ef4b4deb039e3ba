//! The forward pass.

use super::tile::{HeadBlocks, Tile};
use super::{Dense, Operands, TILE};
use crate::kernels::gemm::{Left, product};
use crate::kernels::softmax::{exponentials, larger, largest};
use crate::kernels::{par, simd};
use crate::real::Real;
use crate::tensor::memory::{self, Buffer};

/// ℓ per query, `[B, H, n]`.
#[derive(Debug)]
pub struct LogSums<F: Real> {
    /// ℓ, rounded.
    pub rounded: Buffer<F>,
    /// What rounding took from ℓ where |ℓ| ≥ 2⁹, else 0. Without it the coefficients that are computed again
    /// from ℓ would have a relative error of |ℓ| units of rounding.
    pub rest: Buffer<F>,
}

/// |ℓ| from which the rest is kept.
const LARGE: f64 = 512.0;

/// The queries of one tile, with the part of the output that they write.
struct Task<'a, F> {
    item: usize,
    head: usize,
    first: usize,
    /// The rows of y, one after the other, of this head alone.
    y: &'a mut [F],
    /// ℓ, and its rest.
    lse: [&'a mut [F]; 2],
}

impl<F: Real> Dense<'_, F> {
    /// y [B, n, H, e] and ℓ [B, H, n].
    #[inline(never)]
    pub fn forward(&self, x: &Operands<'_, F>) -> (Buffer<F>, LogSums<F>) {
        let (n, e) = (self.queries, self.value_width);
        let rows = self.batch * self.heads * n;
        // Each task writes rows of one head, so y is first made head by head: [B, H, n, e].
        let mut by_head = memory::scratch(rows * e);
        let (mut rounded, mut rest) = (memory::scratch(rows), memory::scratch(rows));
        let sizes = |width: usize| {
            let tiles = (0..self.batch * self.heads).flat_map(move |_| par::chunks(n, TILE[0]));
            tiles.map(move |tile| tile.len() * width)
        };
        let parts = par::carve(&mut by_head, sizes(e)).into_iter();
        let lse =
            (par::carve(&mut rounded, sizes(1)).into_iter()).zip(par::carve(&mut rest, sizes(1)));
        let parts = parts.zip(lse);
        let starts = (0..self.batch * self.heads)
            .flat_map(|bh| (0..n).step_by(TILE[0]).map(move |first| (bh, first)));
        let tasks: Vec<_> = (starts.zip(parts))
            .map(|((bh, first), (y, lse))| Task {
                item: bh / self.heads,
                head: bh % self.heads,
                first,
                y,
                lse: lse.into(),
            })
            .collect();
        let keys = HeadBlocks::of(x.k, self.batch, self.key_axes(), true);
        let values = HeadBlocks::of(x.v, self.batch, self.value_axes(), false);
        par::map(tasks, self.work(), |task| {
            self.rows(x, [&keys, &values], task)
        });
        let y = self.heads_last(&by_head);
        (y, LogSums { rounded, rest })
    }

    /// Multiply-adds of the forward pass.
    pub(super) fn work(&self) -> usize {
        let pairs = self.batch * self.heads * self.queries * self.keys;
        pairs.saturating_mul(self.width + self.value_width + 16)
    }

    /// [B, H, n, e] → [B, n, H, e].
    fn heads_last(&self, by_head: &[F]) -> Buffer<F> {
        let (n, heads, e) = (self.queries, self.heads, self.value_width);
        let mut out = memory::scratch(by_head.len());
        if e > 0 && heads > 0 {
            par::rows(&mut out, heads * e, heads * e, |first, block| {
                for (row, out) in block.chunks_exact_mut(heads * e).enumerate() {
                    let (item, i) = ((first + row) / n, (first + row) % n);
                    for (h, out) in out.chunks_exact_mut(e).enumerate() {
                        let at = ((item * heads + h) * n + i) * e;
                        out.copy_from_slice(&by_head[at..at + e]);
                    }
                }
            });
        }
        out
    }

    /// The rows of one tile of queries: all tiles of keys in turn.
    fn rows(&self, x: &Operands<'_, F>, [k, v]: [&HeadBlocks<F>; 2], task: Task<'_, F>) {
        let Task {
            item,
            head,
            first,
            y,
            lse: [top, rest],
        } = task;
        let (rows, e) = (top.len(), self.value_width);
        let queries = first..first + rows;
        let reach = self.reach(item, &queries);
        let wide = reach.min(TILE[1]);
        let mut s = memory::scratch::<F>(rows * wide);
        let mut dropped = None;
        let mut space = vec![F::zero(); wide];
        // The running maximum is ℓ until the sum is known.
        let mut sum = vec![F::zero(); rows];
        rest.fill(F::zero());
        top.fill(F::neg_infinity());
        for keys in par::chunks(reach, TILE[1]) {
            let tile = Tile {
                item,
                head,
                queries: queries.clone(),
                keys,
            };
            self.products(x.q, k, &tile, &mut s);
            let w = tile.keys.len();
            let beta = self.offsets(x, &tile, &mut space);
            let begun = tile.keys.start > 0;
            simd(
                #[inline(always)]
                || {
                    for (r, s) in s[..rows * w].chunks_exact_mut(w).enumerate() {
                        let i = first + r;
                        scores(s, beta, self.factor(x, item, head, i));
                        self.hide(&tile, i, s);
                        let new = larger(top[r], largest(s));
                        // No key so far: nothing to add, and nothing to rescale.
                        if new == F::neg_infinity() {
                            s.fill(F::zero());
                            continue;
                        }
                        let old = (top[r] - new).exp_v();
                        top[r] = new;
                        let added = exponentials(s, new);
                        sum[r] = sum[r] * old + added;
                        if begun {
                            y[r * e..(r + 1) * e].iter_mut().for_each(|y| *y *= old);
                        }
                    }
                },
            );
            if !self.dropout.is_none() {
                let dropped = dropped.get_or_insert_with(|| memory::scratch(rows * wide));
                for (r, s) in s[..rows * w].chunks_exact(w).enumerate() {
                    let out = &mut dropped[r * w..][..w];
                    self.dropout.apply(s, self.number(&tile, first + r), out);
                }
                std::mem::swap(&mut s, dropped);
            }
            let v = v.get(item, self.group(head));
            let p = Left::rows(&s[..rows * w], w);
            product(p, v, tile.keys, 0..e, y, e, begun);
        }
        if reach == 0 {
            y.fill(F::zero());
        }
        for (r, (top, sum)) in top.iter_mut().zip(sum).enumerate() {
            let y = &mut y[r * e..(r + 1) * e];
            if *top == F::neg_infinity() {
                y.fill(F::zero());
            } else {
                let share = sum.recip();
                y.iter_mut().for_each(|y| *y *= share);
                let (largest, added) = (*top, sum.ln());
                *top = largest + added;
                if top.abs() >= F::of(LARGE) {
                    rest[r] = (largest - *top) + added;
                }
            }
        }
    }
}

/// s ← f (s + β).
#[inline(always)]
pub(super) fn scores<F: Real>(s: &mut [F], beta: Option<&[F]>, factor: F) {
    match beta {
        Some(beta) => {
            for j in 0..s.len().min(beta.len()) {
                s[j] = factor * (s[j] + beta[j]);
            }
        }
        None => s.iter_mut().for_each(|s| *s *= factor),
    }
}
