//! The attention of GAT: score LeakyReLU(s_src + s_tgt), linear in what the two ends contribute (Veličković et al., "Graph
//! Attention Networks", 2018, Eq. (1) to (6)). Letters: see the table of [the parent module](super).

use super::{Attention, Backward, Output, axpy_heads, leaky, leaky_gate};
use crate::kernels::dot;
use crate::kernels::segment::softmax_row;
use crate::kernels::spmm::check;
use crate::real::Real;

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

impl<F: Real> Attention<'_, F> {
    /// y[i, h, :] = Σⱼ drop(α)ᵢⱼₕ z[j, h, :],   α = softmaxⱼ LeakyReLU(s_src[j, h] + s_tgt[i, h]). Returns y and α.
    ///
    /// # Panics
    /// If the length of an operand is not that of its shape.
    #[track_caller]
    pub fn gat(&self, args: Gat<F>) -> (Vec<F>, Vec<F>) {
        self.check_gat("gat", &args);
        let Gat { z, s_src, s_tgt } = args;
        let (p, w) = (self.pattern, self.row_len());
        let mut y = vec![F::zero(); p.rows() * w];
        let mut alpha = vec![F::zero(); p.nnz() * self.heads];
        self.pass(
            p,
            Output::by_row(&mut y, w),
            Output::by_entry(&mut alpha, self.heads),
            #[inline(always)]
            |heads, d, block, y, alpha| {
                let w = heads * d;
                let (mut space, mut c) = (vec![F::zero(); heads], vec![F::zero(); heads]);
                for (row, i) in block.rows.enumerate() {
                    let entries = p.row(i);
                    let first = entries.start - block.entries.start;
                    let alpha = &mut alpha[first * heads..][..entries.len() * heads];
                    let s_i = &s_tgt[i * heads..][..heads];
                    for (k, &j) in p.indices()[entries.clone()].iter().enumerate() {
                        let s_j = &s_src[j as usize * heads..][..heads];
                        for h in 0..heads {
                            alpha[k * heads + h] = leaky(s_j[h] + s_i[h], self.slope);
                        }
                    }
                    softmax_row(alpha, &mut space);
                    let y = &mut y[row * w..][..w];
                    for (k, e) in entries.enumerate() {
                        for h in 0..heads {
                            c[h] = alpha[k * heads + h] * self.factor(e, h);
                        }
                        let j = p.indices()[e] as usize;
                        axpy_heads(heads, d, &c, &z[j * w..][..w], y);
                    }
                }
            },
        );
        (y, alpha)
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
        let mut edges = vec![[F::zero(); 2]; p.nnz() * self.heads];
        let mut gs_tgt = vec![F::zero(); p.rows() * self.heads];
        self.pass(
            p,
            Output::by_row(&mut gs_tgt, self.heads),
            Output::by_entry(&mut edges, self.heads),
            #[inline(always)]
            |heads, d, block, gs_tgt, edges| {
                let w = heads * d;
                let mut mean = vec![F::zero(); heads];
                for (row, i) in block.rows.enumerate() {
                    let (y, gy) = (&y[i * w..][..w], &gy[i * w..][..w]);
                    for h in 0..heads {
                        mean[h] = dot(&gy[h * d..(h + 1) * d], &y[h * d..(h + 1) * d]);
                    }
                    let gs_tgt = &mut gs_tgt[row * heads..][..heads];
                    for e in p.row(i) {
                        let j = p.indices()[e] as usize;
                        let z = &z[j * w..][..w];
                        let edge = &mut edges[(e - block.entries.start) * heads..][..heads];
                        for h in 0..heads {
                            let (alpha, factor) = (alpha[e * heads + h], self.factor(e, h));
                            let g_alpha =
                                factor * dot(&gy[h * d..(h + 1) * d], &z[h * d..(h + 1) * d]);
                            let s = s_src[j * heads + h] + s_tgt[i * heads + h];
                            let gs = alpha * (g_alpha - mean[h]) * leaky_gate(s, self.slope);
                            edge[h] = [alpha * factor, gs];
                            gs_tgt[h] += gs;
                        }
                    }
                }
            },
        );
        let (gz, gs_src) = self.gat_columns(gy, &edges);
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
        let mut gz = vec![F::zero(); p.rows() * w];
        let mut gs = vec![F::zero(); p.rows() * self.heads];
        self.pass(
            p,
            Output::by_row(&mut gz, w),
            Output::by_row(&mut gs, self.heads),
            #[inline(always)]
            |heads, d, block, gz, gs| {
                let w = heads * d;
                let mut c = vec![F::zero(); heads];
                for (row, j) in block.rows.enumerate() {
                    let gs = &mut gs[row * heads..][..heads];
                    let gz = &mut gz[row * w..][..w];
                    for k in p.row(j) {
                        let edge = &edges[entry[k] as usize * heads..][..heads];
                        for h in 0..heads {
                            c[h] = edge[h][0];
                            gs[h] += edge[h][1];
                        }
                        let i = p.indices()[k] as usize;
                        axpy_heads(heads, d, &c, &gy[i * w..][..w], gz);
                    }
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
