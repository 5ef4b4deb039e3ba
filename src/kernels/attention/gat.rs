//! The attention of GAT: the score is LeakyReLU(s_src + s_tgt), a function of one number per end of the edge
//! (Veličković et al., "Graph Attention Networks", 2018, Eq. (1) to (6)). Letters: see the table of [the
//! parent module](super).

use super::heads::{dot_heads, leaky, leaky_gate};
use super::{Attention, Backward, Output};
use crate::kernels::rows::{self, Out, part};
use crate::kernels::segment;
use crate::kernels::spmm::check;
use crate::real::Real;
use crate::sparse::Pattern;
use crate::tensor::memory::{self, Buffer};

/// The operands of [`Attention::gat`].
#[derive(Debug, Clone, Copy)]
pub struct Gat<'a, F> {
    /// Projected sources, shape [m, H, D].
    pub z: &'a [F],
    /// The half of the score that belongs to the source, shape [m, H].
    pub s_src: &'a [F],
    /// The half of the score that belongs to the target, shape [n, H].
    pub s_tgt: &'a [F],
    /// The inverse temperature, shape [n, H]; `None` stands for 1.
    pub t: Option<&'a [F]>,
}

/// The adjoints of the operands of [`Attention::gat`], each of the shape of its operand.
#[derive(Debug, Clone, PartialEq)]
pub struct GatAdjoints<F: Real> {
    /// Of z.
    pub z: Buffer<F>,
    /// Of s_src.
    pub s_src: Buffer<F>,
    /// Of s_tgt.
    pub s_tgt: Buffer<F>,
    /// Of t; empty without a temperature.
    pub t: Buffer<F>,
}

impl<F: Real> Attention<'_, F> {
    /// y[i, h, :] = Σⱼ drop(α)ᵢⱼₕ z[j, h, :],   α = softmaxⱼ(t[i, h] LeakyReLU(s_src[j, h] + s_tgt[i, h])).
    /// Returns y and α.
    ///
    /// # Panics
    /// If the length of an operand is not that of its shape.
    #[track_caller]
    #[inline(never)]
    pub fn gat(&self, args: Gat<F>) -> (Buffer<F>, Buffer<F>) {
        self.check_gat("gat", &args);
        let Gat { z, s_src, s_tgt, t } = args;
        self.attend(
            z,
            t,
            #[inline(always)]
            |i, j, score| {
                let heads = score.len();
                let (s_i, s_j) = (&s_tgt[i * heads..][..heads], &s_src[j * heads..][..heads]);
                for h in 0..heads {
                    score[h] = leaky(s_j[h] + s_i[h], self.slope);
                }
            },
        )
    }

    /// The adjoints of the operands of [`Attention::gat`].
    ///
    /// Let ᾱ = drop ⟨gyᵢ, zⱼ⟩ per head. Then Σⱼ α ᾱ = ⟨gyᵢ, yᵢ⟩, and the adjoints are:
    ///
    /// - g = α (ᾱ − Σⱼ α ᾱ) of the score t e after the temperature,
    /// - tᵢ g of the score e, and from it those of s_src and s_tgt,
    /// - Σⱼ g e of tᵢ,
    /// - Σᵢ drop(α) gyᵢ of zⱼ.
    ///
    /// One pass by columns computes g and the adjoint of z: it fetches gyᵢ, while zⱼ stays in cache. With a
    /// temperature a second pass by columns, over H numbers per entry, multiplies by t and e.
    ///
    /// # Panics
    /// If the length of an operand is not that of its shape.
    #[track_caller]
    #[inline(never)]
    pub fn gat_backward(&self, args: Gat<F>, back: Backward<F>) -> GatAdjoints<F> {
        self.check_gat("gat_backward", &args);
        self.check_backward("gat_backward", &back);
        let Gat { z, s_src, s_tgt, t } = args;
        let Backward { alpha, y, gy } = back;
        let (p, w) = (&self.pattern.transposed().pattern, self.row_len());
        let mut space = Buffer::default();
        let kept = self.kept(alpha, &mut space);
        let mean = self.dots(y, gy);
        let mut gz = memory::scratch(z.len());
        // The adjoint of s_src + s_tgt, per entry of the transposed pattern; the pass leaves out the factor
        // t.
        let mut gs = memory::scratch(p.nnz() * self.heads);
        self.pass(
            p,
            Output::by_row(&mut gz, w),
            Output::by_entry(&mut gs, self.heads),
            #[inline(always)]
            |heads, d, block, gz, gs| {
                let w = heads * d;
                let (mut alphas, mut kepts) = (Vec::new(), Vec::new());
                let alpha = self.of_columns(&block, alpha, &mut alphas);
                let kept = if self.dropout.is_none() {
                    alpha
                } else {
                    self.of_columns(&block, kept, &mut kepts)
                };
                for (row, j) in block.rows.clone().enumerate() {
                    let (targets, own) = block.row(p, j, heads);
                    let z = &z[j * w..][..w];
                    let gs = &mut gs[own.clone()];
                    for (&i, dots) in targets.iter().zip(gs.chunks_exact_mut(heads)) {
                        dot_heads(d, &gy[i as usize * w..][..w], z, dots);
                    }
                    let kept = &kept[own.clone()];
                    let scores = Scores {
                        targets,
                        alpha: &alpha[own],
                        kept,
                        mean: &mean,
                        s_src: &s_src[j * heads..][..heads],
                        s_tgt,
                        slope: self.slope,
                    };
                    scores.adjoints(gs);
                    let gz = Out::Set(&mut gz[row * w..][..w]);
                    rows::weighted_sum(targets, kept, gy, heads, gz);
                }
            },
        );
        let gt = t.map(|t| {
            let through_t = self.gat_temper(p, (s_src, s_tgt), t, &mut gs);
            segment::segment_sum_t(p, &through_t, self.heads)
        });
        GatAdjoints {
            z: gz,
            s_src: segment::segment_sum(p, &gs, self.heads),
            s_tgt: segment::segment_sum_t(p, &gs, self.heads),
            t: gt.unwrap_or_default(),
        }
    }

    /// Returns g e and multiplies gs by t, per entry of the transposed pattern `p` and per head.
    ///
    /// gs holds g LeakyReLU'(s) with s = s_src + s_tgt. Since e = LeakyReLU(s) = LeakyReLU'(s) s, the product
    /// g e is gs s.
    fn gat_temper(
        &self,
        p: &Pattern,
        (s_src, s_tgt): (&[F], &[F]),
        t: &[F],
        gs: &mut [F],
    ) -> Buffer<F> {
        let mut through_t = memory::scratch(gs.len());
        self.pass(
            p,
            Output::by_entry(gs, self.heads),
            Output::by_entry(&mut through_t, self.heads),
            #[inline(always)]
            |heads, _, block, gs, through_t| {
                for j in block.rows.clone() {
                    let s_src = &s_src[j * heads..][..heads];
                    let (targets, own) = block.row(p, j, heads);
                    let of_entries = gs[own.clone()]
                        .chunks_exact_mut(heads)
                        .zip(through_t[own].chunks_exact_mut(heads));
                    for (&i, (gs, through_t)) in targets.iter().zip(of_entries) {
                        let i = i as usize * heads;
                        let (s_tgt, t) = (&s_tgt[i..][..heads], &t[i..][..heads]);
                        for h in 0..heads {
                            through_t[h] = gs[h] * (s_src[h] + s_tgt[h]);
                            gs[h] *= t[h];
                        }
                    }
                }
            },
        );
        through_t
    }

    #[track_caller]
    fn check_gat(&self, op: &str, args: &Gat<F>) {
        self.check_sources(op, "z", args.z);
        check(op, "s_src", args.s_src, &[self.pattern.cols(), self.heads]);
        check(op, "s_tgt", args.s_tgt, &[self.pattern.rows(), self.heads]);
        self.check_temperature(op, args.t);
    }
}

/// The operands of the adjoints of the scores of one source: the targets, α and drop(α) of its entries,
/// ⟨gy, y⟩ of all targets, and the halves of the scores.
struct Scores<'a, F> {
    targets: &'a [u32],
    alpha: &'a [F],
    kept: &'a [F],
    mean: &'a [F],
    s_src: &'a [F],
    s_tgt: &'a [F],
    slope: F,
}

impl<F: Real> Scores<'_, F> {
    /// Replaces ⟨gyᵢ, zⱼ⟩, per entry and head, by the adjoint of s_src + s_tgt without the factor t.
    #[inline(always)]
    fn adjoints(&self, g: &mut [F]) {
        let (heads, mut at) = (self.s_src.len(), 0);
        while at < heads {
            at += match heads - at {
                8.. => self.of_heads::<8>(at, g),
                4.. => self.of_heads::<4>(at, g),
                2.. => self.of_heads::<2>(at, g),
                _ => self.of_heads::<1>(at, g),
            };
        }
    }

    /// The same for C heads from `at` on. Returns C.
    #[inline(always)]
    fn of_heads<const C: usize>(&self, at: usize, g: &mut [F]) -> usize {
        let heads = self.s_src.len();
        let s_src: [F; C] = *part(self.s_src, at);
        let weights = (self.alpha.chunks_exact(heads)).zip(self.kept.chunks_exact(heads));
        let ends = self.targets.iter().zip(weights);
        for ((&i, (alpha, kept)), g) in ends.zip(g.chunks_exact_mut(heads)) {
            let i = i as usize * heads + at;
            let (alpha, kept) = (*part::<F, C>(alpha, at), *part::<F, C>(kept, at));
            let (mean, s_tgt) = (*part::<F, C>(self.mean, i), *part::<F, C>(self.s_tgt, i));
            let dots = *part::<F, C>(g, at);
            let g = g[at..].first_chunk_mut::<C>().expect("a whole row");
            for l in 0..C {
                let adjoint = kept[l] * dots[l] - alpha[l] * mean[l];
                g[l] = adjoint * leaky_gate(s_src[l] + s_tgt[l], self.slope);
            }
        }
        C
    }
}
