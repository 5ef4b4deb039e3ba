//! The attention of GATv2: score ⟨a, LeakyReLU(zs + zt)⟩, in which the ranking of the neighbours depends on the target (Brody, Alon,
//! Yahav, "How Attentive are Graph Attention Networks?", 2022, Eq. (7)). Letters: see the table of [the parent module](super).

use super::{Attention, Backward, Output, dot_heads, score_heads};
use crate::kernels::rows;
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
}

/// The adjoints of the operands of [`Attention::gatv2`], with their shapes.
#[derive(Debug, Clone, PartialEq)]
pub struct GatV2Adjoints<F> {
    /// Of zs; with shared weights, where zs = zt = z, of z.
    pub zs: Vec<F>,
    /// Of zt; with shared weights empty.
    pub zt: Vec<F>,
    /// Of a.
    pub a: Vec<F>,
}

impl<F: Real> Attention<'_, F> {
    /// yᵢₕ = Σⱼ drop(α)ᵢⱼₕ zsⱼₕ,   α = softmaxⱼ ⟨aₕ, LeakyReLU(zsⱼₕ + ztᵢₕ)⟩. Returns y and α.
    ///
    /// # Panics
    /// If the length of an operand is not that of its shape.
    #[track_caller]
    pub fn gatv2(&self, args: GatV2<F>) -> (Vec<F>, Vec<F>) {
        self.check_gatv2("gatv2", &args);
        let GatV2 { zs, zt, a } = args;
        let (d, w) = (self.width, self.row_len());
        self.attend(
            zs,
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
    /// With ᾱ = drop ⟨gyᵢ, zsⱼ⟩ per head, the adjoint of a score is g = α (ᾱ − Σⱼ α ᾱ), and Σⱼ α ᾱ = ⟨gyᵢ, yᵢ⟩. Then
    /// with t = zsⱼ + ztᵢ: the adjoint of a is Σₑ g LeakyReLU(t), that of ztᵢ a ⊙ Σⱼ g LeakyReLU'(t), and that of zsⱼ
    /// Σᵢ drop(α) gyᵢ + a ⊙ Σᵢ g LeakyReLU'(t).
    ///
    /// # Panics
    /// If the length of an operand is not that of its shape.
    #[track_caller]
    pub fn gatv2_backward(&self, args: GatV2<F>, back: Backward<F>) -> GatV2Adjoints<F> {
        self.check_gatv2("gatv2_backward", &args);
        self.check_backward("gatv2_backward", &back);
        let mut zt = memory::zeros(args.zt.len());
        let (edges, a) = self.gatv2_rows(args, back, &mut zt);
        let mut zs = memory::zeros(args.zs.len());
        self.gatv2_columns(args, back.gy, edges.as_chunks().0, &mut zs);
        GatV2Adjoints { zs, zt, a }
    }

    /// [`Attention::gatv2_backward`] for shared weights, zs = zt = z: the adjoint of z as both is summed as it is made.
    ///
    /// # Panics
    /// If the pattern is not square, or the length of an operand is not that of its shape.
    #[track_caller]
    pub fn gatv2_backward_shared(&self, z: &[F], a: &[F], back: Backward<F>) -> GatV2Adjoints<F> {
        let args = GatV2 { zs: z, zt: z, a };
        self.check_gatv2("gatv2_backward_shared", &args);
        self.check_backward("gatv2_backward_shared", &back);
        let mut gz = memory::zeros(z.len());
        let (edges, a) = self.gatv2_rows(args, back, &mut gz);
        self.gatv2_columns(args, back.gy, edges.as_chunks().0, &mut gz);
        let zt = Vec::new();
        GatV2Adjoints { zs: gz, zt, a }
    }

    /// What belongs to the targets: writes the adjoint of zt, and returns for every entry and head the coefficient after dropout
    /// and the adjoint of the score, and the adjoint of a.
    fn gatv2_rows(&self, args: GatV2<F>, back: Backward<F>, gzt: &mut [F]) -> (Buffer<F>, Vec<F>) {
        let GatV2 { zs, zt, a } = args;
        let Backward { alpha, y, gy } = back;
        let (p, w) = (self.pattern, self.row_len());
        let mut pairs = Buffer::from(memory::scratch(2 * p.nnz() * self.heads));
        let (edges, _) = pairs.as_chunks_mut::<2>();
        let parts = self.pass(
            p,
            Output::by_row(gzt, w),
            Output::by_entry(edges, self.heads),
            #[inline(always)]
            |heads, d, block, gzt, edges| {
                let w = heads * d;
                let mut ga = vec![F::zero(); w];
                let mask = self.dropout.mask::<F>();
                let (mut mean, mut dots) = (vec![F::zero(); heads], vec![F::zero(); heads]);
                for (row, i) in block.rows.enumerate() {
                    let (y, gy, zt) = (&y[i * w..][..w], &gy[i * w..][..w], &zt[i * w..][..w]);
                    dot_heads(d, gy, y, &mut mean);
                    let gzt = &mut gzt[row * w..][..w];
                    for e in p.row(i) {
                        let zs = &zs[p.indices()[e] as usize * w..][..w];
                        let edge = &mut edges[(e - block.entries.start) * heads..][..heads];
                        dot_heads(d, gy, zs, &mut dots);
                        for h in 0..heads {
                            let k = e * heads + h;
                            let (alpha, factor) = (alpha[k], mask.factor(k));
                            edge[h] = [alpha * factor, alpha * (factor * dots[h] - mean[h])];
                        }
                    }
                    let first = block.entries.start;
                    let sources = p.row(i).map(|e| (e - first, p.indices()[e] as usize));
                    let g = |k: usize, h: usize| edges[k * heads + h][1];
                    rows::score_adjoints(sources, g, zs, zt, (d, self.slope), gzt, &mut ga);
                    for (g, &a) in gzt.iter_mut().zip(a) {
                        *g *= a;
                    }
                }
                ga
            },
        );
        let ga = parts.into_iter().reduce(|mut sum, part| {
            for (s, x) in sum.iter_mut().zip(part) {
                *s += x;
            }
            sum
        });
        (pairs, ga.unwrap_or_else(|| vec![F::zero(); w]))
    }

    /// What belongs to the sources: adds the adjoint of zs to `gzs`.
    fn gatv2_columns(&self, args: GatV2<F>, gy: &[F], edges: &[[F; 2]], gzs: &mut [F]) {
        let GatV2 { zs, zt, a } = args;
        let transposed = self.pattern.transposed();
        let (p, entry) = (&transposed.pattern, &transposed.entry);
        self.pass(
            p,
            Output::by_row(gzs, self.row_len()),
            Output::by_row(&mut [] as &mut [F], 0),
            #[inline(always)]
            |heads, d, block, gzs, _| {
                let w = heads * d;
                let mut through_score = vec![F::zero(); w];
                for (row, j) in block.rows.enumerate() {
                    let zs = &zs[j * w..][..w];
                    let gzs = &mut gzs[row * w..][..w];
                    through_score.fill(F::zero());
                    let targets = p
                        .row(j)
                        .map(|k| (entry[k] as usize, p.indices()[k] as usize));
                    let of = |part: usize| move |e: usize, h: usize| edges[e * heads + h][part];
                    rows::weighted_sum(targets.clone(), of(0), gy, d, gzs);
                    let shape = (d, self.slope);
                    rows::source_adjoints(targets, of(1), zs, zt, shape, &mut through_score);
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
    }
}
