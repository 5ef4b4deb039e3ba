//! The attention of GATv2: the score is ⟨a, LeakyReLU(zs + zt)⟩, and the ranking of the neighbours depends on
//! the target (Brody, Alon, Yahav, "How Attentive are Graph Attention Networks?", 2022, Eq. (7)). Letters:
//! see the table of [the parent module](super).

use super::heads::{dot_heads, scale_entries, scale_heads, score_heads};
use super::{Attention, Backward, Output, add};
use crate::kernels::axpy;
use crate::kernels::rows::{self, Out, ScoreAdjoints, SourceAdjoints};
use crate::kernels::spmm::check;
use crate::real::Real;
use crate::tensor::memory::{self, Buffer};

/// The operands of [`Attention::gatv2`].
#[derive(Debug, Clone, Copy)]
pub struct GatV2<'a, F> {
    /// Projected sources, shape [m, H, D].
    pub zs: &'a [F],
    /// Projected targets, shape [n, H, D].
    pub zt: &'a [F],
    /// The attention vector, shape [H, D].
    pub a: &'a [F],
    /// The inverse temperature, shape [n, H]; `None` stands for 1.
    pub t: Option<&'a [F]>,
}

/// The adjoints of the operands of [`Attention::gatv2`], each of the shape of its operand.
#[derive(Debug, Clone, PartialEq)]
pub struct GatV2Adjoints<F: Real> {
    /// Of zs; of z with shared weights, where zs = zt = z.
    pub zs: Buffer<F>,
    /// Of zt; empty with shared weights.
    pub zt: Buffer<F>,
    /// Of a.
    pub a: Buffer<F>,
    /// Of t; empty without a temperature.
    pub t: Buffer<F>,
}

impl<F: Real> Attention<'_, F> {
    /// yᵢₕ = Σⱼ drop(α)ᵢⱼₕ zsⱼₕ,   α = softmaxⱼ(tᵢₕ ⟨aₕ, LeakyReLU(zsⱼₕ + ztᵢₕ)⟩). Returns y and α.
    ///
    /// # Panics
    /// If the length of an operand is not that of its shape.
    #[track_caller]
    #[inline(never)]
    pub fn gatv2(&self, args: GatV2<F>) -> (Buffer<F>, Buffer<F>) {
        self.check_gatv2("gatv2", &args);
        let GatV2 { zs, zt, a, t } = args;
        let (d, w) = (self.width, self.row_len());
        self.attend(
            zs,
            t,
            #[inline(always)]
            |i, j, score| {
                score_heads(
                    d,
                    &zs[j * w..][..w],
                    &zt[i * w..][..w],
                    a,
                    self.slope,
                    score,
                );
            },
        )
    }

    /// The adjoints of the operands of [`Attention::gatv2`].
    ///
    /// Let ᾱ = drop ⟨gyᵢ, zsⱼ⟩ per head. Then Σⱼ α ᾱ = ⟨gyᵢ, yᵢ⟩, and g = α (ᾱ − Σⱼ α ᾱ) is the adjoint of
    /// the score t e after the temperature. With u = zsⱼ + ztᵢ and vᵢ = Σⱼ g LeakyReLU(u) the adjoints are:
    ///
    /// - Σⱼ g e = ⟨a, vᵢ⟩ of tᵢ,
    /// - Σᵢ tᵢ vᵢ of a,
    /// - tᵢ a ⊙ Σⱼ g LeakyReLU'(u) of ztᵢ,
    /// - Σᵢ drop(α) gyᵢ + a ⊙ Σᵢ tᵢ g LeakyReLU'(u) of zsⱼ.
    ///
    /// # Panics
    /// If the length of an operand is not that of its shape.
    #[track_caller]
    #[inline(never)]
    pub fn gatv2_backward(&self, args: GatV2<F>, back: Backward<F>) -> GatV2Adjoints<F> {
        self.check_gatv2("gatv2_backward", &args);
        self.check_backward("gatv2_backward", &back);
        let mut space = Buffer::default();
        let kept = self.kept(back.alpha, &mut space);
        let mut zt = memory::scratch(args.zt.len());
        let mut zs = memory::zeros(args.zs.len());
        let (g, a, t) = self.gatv2_rows(args, back, kept, &mut zt);
        self.gatv2_columns(args, back.gy, kept, &g, &mut zs);
        GatV2Adjoints { zs, zt, a, t }
    }

    /// [`Attention::gatv2_backward`] for shared weights, zs = zt = z: both parts of the adjoint of z go to
    /// one buffer.
    ///
    /// # Panics
    /// If the pattern is not square, or the length of an operand is not that of its shape.
    #[track_caller]
    #[inline(never)]
    pub fn gatv2_backward_shared(
        &self,
        z: &[F],
        a: &[F],
        t: Option<&[F]>,
        back: Backward<F>,
    ) -> GatV2Adjoints<F> {
        let args = GatV2 { zs: z, zt: z, a, t };
        self.check_gatv2("gatv2_backward_shared", &args);
        self.check_backward("gatv2_backward_shared", &back);
        let mut space = Buffer::default();
        let kept = self.kept(back.alpha, &mut space);
        let mut gz = memory::scratch(z.len());
        let (g, a, t) = self.gatv2_rows(args, back, kept, &mut gz);
        self.gatv2_columns(args, back.gy, kept, &g, &mut gz);
        let zt = Buffer::default();
        GatV2Adjoints { zs: gz, zt, a, t }
    }

    /// The pass by rows: writes the adjoint of zt and returns the adjoints of the scores e, per entry and
    /// head, of a and of t.
    fn gatv2_rows(
        &self,
        args: GatV2<F>,
        back: Backward<F>,
        kept: &[F],
        gzt: &mut [F],
    ) -> (Buffer<F>, Buffer<F>, Buffer<F>) {
        let GatV2 { zs, zt, a, t } = args;
        let Backward { alpha, y, gy } = back;
        let (p, w) = (self.pattern, self.row_len());
        let mut g = memory::scratch(p.nnz() * self.heads);
        let parts = self.pass(
            p,
            Output::by_row(gzt, w),
            Output::by_entry(&mut g, self.heads),
            #[inline(always)]
            |heads, d, block, gzt, g| {
                let w = heads * d;
                let mut ga = vec![F::zero(); w];
                let mut mean = vec![F::zero(); heads];
                // Used with a temperature: vᵢ of one target, and the adjoint of t for the rows of the block.
                let mut v = vec![F::zero(); if t.is_some() { w } else { 0 }];
                let mut gt = vec![F::zero(); t.map_or(0, |_| block.rows.len() * heads)];
                for (row, i) in block.rows.clone().enumerate() {
                    let (y, gy, zt) = (&y[i * w..][..w], &gy[i * w..][..w], &zt[i * w..][..w]);
                    dot_heads(d, gy, y, &mut mean);
                    let (sources, own) = block.row(p, i, heads);
                    let g = &mut g[own];
                    for (&j, dots) in sources.iter().zip(g.chunks_exact_mut(heads)) {
                        dot_heads(d, gy, &zs[j as usize * w..][..w], dots);
                    }
                    let own = p.row(i).start * heads..p.row(i).end * heads;
                    let weights = alpha[own.clone()]
                        .chunks_exact(heads)
                        .zip(kept[own].chunks_exact(heads));
                    for (g, (alpha, kept)) in g.chunks_exact_mut(heads).zip(weights) {
                        for h in 0..heads {
                            g[h] = kept[h] * g[h] - alpha[h] * mean[h];
                        }
                    }
                    let gzt = &mut gzt[row * w..][..w];
                    let slope = self.slope;
                    let step = ScoreAdjoints { zt, slope };
                    // Two calls, so that each loop is compiled for its kinds of output.
                    match t {
                        None => {
                            let out = [Out::Set(&mut *gzt), Out::Add(&mut ga[..])];
                            rows::over_entries(sources, g, zs, heads, out, &step);
                        }
                        Some(_) => {
                            let out = [Out::Set(&mut *gzt), Out::Set(&mut v[..])];
                            rows::over_entries(sources, g, zs, heads, out, &step);
                        }
                    }
                    for (g, &a) in gzt.iter_mut().zip(a) {
                        *g *= a;
                    }
                    if let Some(t) = t {
                        let t = &t[i * heads..][..heads];
                        dot_heads(d, a, &v, &mut gt[row * heads..][..heads]);
                        scale_heads(d, &mut v, t);
                        axpy(F::one(), &v, &mut ga);
                        scale_heads(d, gzt, t);
                        scale_entries(g, t);
                    }
                }
                (ga, gt)
            },
        );
        let (gas, gts): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
        let ga = gas.into_iter().reduce(add);
        let ga = ga.unwrap_or_else(|| vec![F::zero(); w]);
        (g, ga.into(), gts.concat().into())
    }

    /// The pass by columns: adds the adjoint of zs to `gzs`.
    fn gatv2_columns(&self, args: GatV2<F>, gy: &[F], kept: &[F], g: &[F], gzs: &mut [F]) {
        let GatV2 { zs, zt, a, .. } = args;
        let p = &self.pattern.transposed().pattern;
        self.pass(
            p,
            Output::by_row(gzs, self.row_len()),
            Output::by_row(&mut [] as &mut [F], 0),
            #[inline(always)]
            |heads, d, block, gzs, _| {
                let w = heads * d;
                let (mut kepts, mut gs) = (Vec::new(), Vec::new());
                let kept = self.of_columns(&block, kept, &mut kepts);
                let g = self.of_columns(&block, g, &mut gs);
                let mut through_score = vec![F::zero(); w];
                for (row, j) in block.rows.clone().enumerate() {
                    let (zs, gzs) = (&zs[j * w..][..w], &mut gzs[row * w..][..w]);
                    let (targets, own) = block.row(p, j, heads);
                    let own_kept = &kept[own.clone()];
                    rows::weighted_sum(targets, own_kept, gy, heads, Out::Add(gzs));
                    let slope = self.slope;
                    let step = SourceAdjoints { zs, slope };
                    rows::over_entries(
                        targets,
                        &g[own],
                        zt,
                        heads,
                        [Out::Set(&mut through_score)],
                        &step,
                    );
                    for ((g, &a), &through) in gzs.iter_mut().zip(a).zip(&through_score) {
                        *g += a * through;
                    }
                }
            },
        );
    }

    #[track_caller]
    fn check_gatv2(&self, op: &str, args: &GatV2<F>) {
        self.check_sources(op, "zs", args.zs);
        self.check_targets(op, "zt", args.zt);
        check(op, "a", args.a, &[self.heads, self.width]);
        self.check_temperature(op, args.t);
    }
}
