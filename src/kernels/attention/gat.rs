//! The attention of GAT: score LeakyReLU(s_src + s_tgt), linear in what the two ends contribute (Veličković et al., "Graph
//! Attention Networks", 2018, Eq. (1) to (6)). Letters: see the table of [the parent module](super).

use super::{Attention, Backward, Output, axpy_heads, dot_heads, leaky, leaky_gate};
use crate::kernels::spmm::check;
use crate::kernels::{par, rows, simd};
use crate::real::Real;
use crate::tensor::memory::{self, Buffer};

/// The operands of [`Attention::gat`].
#[derive(Debug, Clone, Copy)]
pub struct Gat<'a, F> {
    /// Projected sources, shape [m, H, D].
    pub z: &'a [F],
    /// The source's half of the score, shape [m, H].
    pub s_src: &'a [F],
    /// The target's half of the score, shape [n, H].
    pub s_tgt: &'a [F],
}

/// The adjoints of the operands of [`Attention::gat`], with their shapes.
#[derive(Debug, Clone, PartialEq)]
pub struct GatAdjoints<F> {
    /// Of z.
    pub z: Vec<F>,
    /// Of s_src.
    pub s_src: Vec<F>,
    /// Of s_tgt.
    pub s_tgt: Vec<F>,
}

/// Half of a score, s[i, h] = ⟨a[h, :], z[i, h, :]⟩, shape [n, H], from z of shape [n, H, D].
///
/// # Panics
/// If the length of `z` is not a multiple of that of `a`, or that of `a` not of `heads`.
#[track_caller]
pub fn half_scores<F: Real>(z: &[F], a: &[F], heads: usize) -> Vec<F> {
    let (w, d) = row_of(z, a, heads);
    let mut s = memory::zeros(z.len().checked_div(w).unwrap_or(0) * heads);
    par::rows(&mut s, heads, w, |first, block| {
        simd(
            #[inline(always)]
            || {
                let z = z[first * w..].chunks_exact(w);
                for (z, s) in z.zip(block.chunks_exact_mut(heads)) {
                    dot_heads(d, z, a, s);
                }
            },
        )
    });
    s
}

/// The adjoints of [`half_scores`] from the adjoint gs of s: adds gs[i, h] a[h, :] to gz, and returns Σᵢ gs[i, h] z[i, h, :].
///
/// # Panics
/// If the lengths do not fit.
#[track_caller]
pub fn half_scores_backward<F: Real>(
    z: &[F],
    a: &[F],
    heads: usize,
    gs: &[F],
    gz: &mut [F],
) -> Vec<F> {
    let (w, d) = row_of(z, a, heads);
    check("half_scores_backward", "gz", gz, &[z.len()]);
    if z.is_empty() {
        return vec![F::zero(); w];
    }
    let n = z.len() / w;
    check("half_scores_backward", "gs", gs, &[n, heads]);
    let rows = par::chunks(n, ROWS);
    let parts = par::carve(gz, rows.iter().map(|r| r.len() * w));
    let tasks: Vec<_> = rows.into_iter().zip(parts).collect();
    let parts = par::map(tasks, 2 * z.len(), |(rows, gz)| {
        simd(
            #[inline(always)]
            || {
                let mut ga = vec![F::zero(); w];
                for (i, gz) in rows.zip(gz.chunks_exact_mut(w)) {
                    let gs = &gs[i * heads..][..heads];
                    axpy_heads(heads, d, gs, a, gz);
                    axpy_heads(heads, d, gs, &z[i * w..][..w], &mut ga);
                }
                ga
            },
        )
    });
    let sum = parts.into_iter().reduce(|mut sum, part| {
        for (s, x) in sum.iter_mut().zip(part) {
            *s += x;
        }
        sum
    });
    sum.expect("there is a row")
}

/// Rows in one task of [`half_scores_backward`].
const ROWS: usize = 512;

/// The elements of a node, and of a head.
#[track_caller]
fn row_of<F>(z: &[F], a: &[F], heads: usize) -> (usize, usize) {
    let w = a.len();
    let fits = (heads > 0 && w.is_multiple_of(heads))
        && (w > 0 && z.len().is_multiple_of(w) || z.is_empty());
    assert!(
        fits,
        "half_scores: {} elements of z, {w} of a, {heads} heads",
        z.len()
    );
    (w, w / heads)
}

impl<F: Real> Attention<'_, F> {
    /// y[i, h, :] = Σⱼ drop(α)ᵢⱼₕ z[j, h, :],   α = softmaxⱼ LeakyReLU(s_src[j, h] + s_tgt[i, h]). Returns y and α.
    ///
    /// # Panics
    /// If the length of an operand is not that of its shape.
    #[track_caller]
    pub fn gat(&self, args: Gat<F>) -> (Vec<F>, Vec<F>) {
        self.check_gat("gat", &args);
        let Gat { z, s_src, s_tgt } = args;
        self.attend(
            z,
            #[inline(always)]
            |i, j, score| {
                let (s_i, s_j) = (&s_tgt[i * score.len()..], &s_src[j * score.len()..]);
                for (score, (&s_i, &s_j)) in score.iter_mut().zip(s_i.iter().zip(s_j)) {
                    *score = leaky(s_j + s_i, self.slope);
                }
            },
        )
    }

    /// The adjoints of the operands of [`Attention::gat`].
    ///
    /// With ᾱ = drop ⟨gyᵢ, zⱼ⟩ per head, the adjoint of a score is α (ᾱ − Σⱼ α ᾱ), and Σⱼ α ᾱ = ⟨gyᵢ, yᵢ⟩.
    ///
    /// # Panics
    /// If the length of an operand is not that of its shape.
    #[track_caller]
    pub fn gat_backward(&self, args: Gat<F>, back: Backward<F>) -> GatAdjoints<F> {
        self.check_gat("gat_backward", &args);
        self.check_backward("gat_backward", &back);
        let Gat { z, s_src, s_tgt } = args;
        let Backward { alpha, y, gy } = back;
        let p = self.pattern;
        // For every entry and head: the coefficient after dropout, and the adjoint of the sum under the LeakyReLU.
        let mut pairs = Buffer::from(memory::scratch(2 * p.nnz() * self.heads));
        let (edges, _) = pairs.as_chunks_mut::<2>();
        let mut gs_tgt = memory::zeros(p.rows() * self.heads);
        self.pass(
            p,
            Output::by_row(&mut gs_tgt, self.heads),
            Output::by_entry(edges, self.heads),
            #[inline(always)]
            |heads, d, block, gs_tgt, edges| {
                let w = heads * d;
                let mask = self.dropout.mask::<F>();
                let (mut mean, mut dots) = (vec![F::zero(); heads], vec![F::zero(); heads]);
                for (row, i) in block.rows.enumerate() {
                    let (y, gy) = (&y[i * w..][..w], &gy[i * w..][..w]);
                    dot_heads(d, gy, y, &mut mean);
                    let gs_tgt = &mut gs_tgt[row * heads..][..heads];
                    for e in p.row(i) {
                        let j = p.indices()[e] as usize;
                        let z = &z[j * w..][..w];
                        let edge = &mut edges[(e - block.entries.start) * heads..][..heads];
                        dot_heads(d, gy, z, &mut dots);
                        for h in 0..heads {
                            let (alpha, factor) =
                                (alpha[e * heads + h], mask.factor(e * heads + h));
                            let s = s_src[j * heads + h] + s_tgt[i * heads + h];
                            let gs =
                                alpha * (factor * dots[h] - mean[h]) * leaky_gate(s, self.slope);
                            edge[h] = [alpha * factor, gs];
                            gs_tgt[h] += gs;
                        }
                    }
                }
            },
        );
        let (gz, gs_src) = self.gat_columns(gy, pairs.as_chunks().0);
        GatAdjoints {
            z: gz,
            s_src: gs_src,
            s_tgt: gs_tgt,
        }
    }

    /// What belongs to the sources: gz[j] = Σᵢ drop(α) gy[i], and the sum of the adjoints of the scores.
    fn gat_columns(&self, gy: &[F], edges: &[[F; 2]]) -> (Vec<F>, Vec<F>) {
        let transposed = self.pattern.transposed();
        let (p, entry) = (&transposed.pattern, &transposed.entry);
        let w = self.row_len();
        let mut gz = memory::zeros(p.rows() * w);
        let mut gs = memory::zeros(p.rows() * self.heads);
        self.pass(
            p,
            Output::by_row(&mut gz, w),
            Output::by_row(&mut gs, self.heads),
            #[inline(always)]
            |heads, d, block, gz, gs| {
                let w = heads * d;
                for (row, j) in block.rows.enumerate() {
                    let gs = &mut gs[row * heads..][..heads];
                    let gz = &mut gz[row * w..][..w];
                    for k in p.row(j) {
                        let edge = &edges[entry[k] as usize * heads..][..heads];
                        for (gs, edge) in gs.iter_mut().zip(edge) {
                            *gs += edge[1];
                        }
                    }
                    let targets = p
                        .row(j)
                        .map(|k| (entry[k] as usize, p.indices()[k] as usize));
                    rows::weighted_sum(targets, |e, h| edges[e * heads + h][0], gy, d, gz);
                }
            },
        );
        (gz, gs)
    }

    #[track_caller]
    fn check_gat(&self, op: &str, args: &Gat<F>) {
        self.check_sources(op, "z", args.z);
        check(op, "s_src", args.s_src, &[self.pattern.cols(), self.heads]);
        check(op, "s_tgt", args.s_tgt, &[self.pattern.rows(), self.heads]);
    }
}
