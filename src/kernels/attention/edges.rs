//! The attention along edges with a score Σ_c a[h, c] f(k[j, h, c], q[i, h, c]), for any function f of two
//! numbers. Letters: see the table of [the parent module](super).

use super::heads::{dot_heads, scale_entries, scale_heads, sum_heads};
use super::steps::{OfSource, OfTarget, score_adjoints};
use super::{Attention, Block, Output, add};
use crate::kernels::rows::{self, Out};
use crate::kernels::spmm::check;
use crate::kernels::{axpy, segment};
use crate::real::Real;
use crate::sparse::Pattern;
use crate::tensor::memory::{self, Buffer};

/// The operands of [`Attention::forward`].
#[derive(Debug, Clone, Copy)]
pub struct Operands<'a, F> {
    /// The values, shape [m, H, D].
    pub v: &'a [F],
    /// The rows that the score reads.
    pub rows: Rows<'a, F>,
    /// The attention vector, shape [H, K].
    pub a: &'a [F],
    /// The inverse temperature, shape [n, H]; `None` stands for 1.
    pub t: Option<&'a [F]>,
}

/// The rows that a score reads.
#[derive(Debug, Clone, Copy)]
pub enum Rows<'a, F> {
    /// Those of the values at both ends of an edge, k = q = v; the pattern is square.
    Values,
    /// Those of the values at the source, k = v, and these q at the target, shape [n, H, D].
    Targets(&'a [F]),
    /// Other rows than those of the values.
    Apart {
        /// Of the sources, shape [m, H, K].
        k: &'a [F],
        /// Of the targets, shape [n, H, K].
        q: &'a [F],
        /// K.
        width: usize,
    },
}

/// The results of the forward kernel and the adjoint of y.
#[derive(Debug, Clone, Copy)]
pub struct Backward<'a, F> {
    /// The coefficients, shape [nnz, H].
    pub alpha: &'a [F],
    /// The output, shape [n, H, D].
    pub y: &'a [F],
    /// The adjoint of y, shape [n, H, D].
    pub gy: &'a [F],
}

/// The adjoints of the operands of [`Attention::forward`], each of the shape of its operand.
#[derive(Debug, Clone, PartialEq)]
pub struct Adjoints<F: Real> {
    /// Of v, and of what is the same as v.
    pub v: Buffer<F>,
    /// Of k; empty if k = v.
    pub k: Buffer<F>,
    /// Of q; empty if q = v.
    pub q: Buffer<F>,
    /// Of a.
    pub a: Buffer<F>,
    /// Of t; empty without a temperature.
    pub t: Buffer<F>,
}

impl<'a, F> Operands<'a, F> {
    fn k(&self) -> &'a [F] {
        match self.rows {
            Rows::Values | Rows::Targets(_) => self.v,
            Rows::Apart { k, .. } => k,
        }
    }

    fn q(&self) -> &'a [F] {
        match self.rows {
            Rows::Values => self.v,
            Rows::Targets(q) | Rows::Apart { q, .. } => q,
        }
    }
}

impl Attention<'_> {
    /// y[i, h, :] = Σⱼ drop(α)ᵢⱼₕ v[j, h, :] with α = softmaxⱼ(t[i, h] eᵢⱼₕ). Returns y and α.
    ///
    /// # Panics
    /// If the length of an operand is not that of its shape.
    #[track_caller]
    #[inline(never)]
    pub fn forward<F: Real>(
        &self,
        x: Operands<F>,
        f: impl Fn(F, F) -> F + Sync,
    ) -> (Buffer<F>, Buffer<F>) {
        self.check("edge attention", &x);
        let (p, w, wide) = (self.pattern, self.row_len(), self.score_width(&x));
        let (v, k, q, a) = (x.v, x.k(), x.q(), x.a);
        let mut y = memory::scratch(p.rows() * w);
        let mut alpha = memory::scratch(p.nnz() * self.heads);
        let outputs = [
            Output::by_row(&mut y, w),
            Output::by_entry(&mut alpha, self.heads),
        ];
        self.pass(
            p,
            outputs,
            #[inline(always)]
            |heads, d, block, [y, alpha]| {
                let (w, own_w) = (heads * d, heads * wide);
                for i in block.rows.clone() {
                    let (sources, own) = block.row(p, i, heads);
                    let (own, q) = (&mut alpha[own], &q[i * own_w..][..own_w]);
                    for (&j, scores) in sources.iter().zip(own.chunks_exact_mut(heads)) {
                        let k = &k[j as usize * own_w..][..own_w];
                        sum_heads(
                            wide,
                            [a, k, q],
                            scores,
                            #[inline(always)]
                            |[a, k, q]| a * f(k, q),
                        );
                    }
                    if let Some(t) = x.t {
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
                    rows::weighted_sum(sources, &kept[own], v, heads, y);
                }
            },
        );
        (y, alpha)
    }

    /// The adjoints of the operands of [`Attention::forward`], where `pull(g, k, q)` returns g f, g ∂f/∂k and
    /// g ∂f/∂q.
    ///
    /// Let ᾱ = drop ⟨gyᵢ, vⱼ⟩ per head. Then Σⱼ α ᾱ = ⟨gyᵢ, yᵢ⟩, and g = α (ᾱ − Σⱼ α ᾱ) is the adjoint of
    /// the score t e after the temperature. With uᵢ = Σⱼ g f the adjoints are:
    ///
    /// - Σⱼ g e = ⟨a, uᵢ⟩ of tᵢ,
    /// - Σᵢ tᵢ uᵢ of a,
    /// - a ⊙ Σⱼ tᵢ g ∂f/∂q of qᵢ,
    /// - a ⊙ Σᵢ tᵢ g ∂f/∂k of kⱼ,
    /// - Σᵢ drop(α) gyᵢ of vⱼ.
    ///
    /// # Panics
    /// If the length of an operand is not that of its shape.
    #[track_caller]
    #[inline(never)]
    pub fn backward<F: Real>(
        &self,
        x: Operands<F>,
        back: Backward<F>,
        pull: impl Fn(F, F, F) -> [F; 3] + Sync,
    ) -> Adjoints<F> {
        let op = "adjoints of edge attention";
        self.check(op, &x);
        let (n, nnz) = (self.pattern.rows(), self.pattern.nnz());
        check(op, "alpha", back.alpha, &[nnz, self.heads]);
        check(op, "y", back.y, &[n, self.heads, self.width]);
        check(op, "gy", back.gy, &[n, self.heads, self.width]);
        let mut space = Buffer::default();
        let kept = self.kept(back.alpha, &mut space);
        let width = self.score_width(&x);
        let run = Run {
            attention: self,
            x,
            back,
            kept,
            width,
            pull,
        };
        let mut g = memory::scratch(nnz * self.heads);
        let (mut k, mut q) = (Buffer::default(), Buffer::default());
        let (v, (a, t)) = match x.rows {
            Rows::Values => {
                let mut v = memory::scratch(x.v.len());
                let others = run.targets(&mut v, G::Unknown(&mut g));
                run.sources(&mut v, &mut [], G::Known(&g));
                (v, others)
            }
            Rows::Targets(_) => {
                q = memory::scratch(x.q().len());
                let mut v = memory::zeros(x.v.len());
                let others = run.targets(&mut q, G::Unknown(&mut g));
                run.sources(&mut v, &mut [], G::Known(&g));
                (v, others)
            }
            Rows::Apart { .. } => {
                let mut v = memory::scratch(x.v.len());
                (k, q) = (memory::scratch(x.k().len()), memory::scratch(x.q().len()));
                run.sources(&mut v, &mut k, G::Unknown(&mut g));
                (v, run.targets(&mut q, G::Known(&g)))
            }
        };
        Adjoints { v, k, q, a, t }
    }

    /// K.
    fn score_width<F>(&self, x: &Operands<F>) -> usize {
        match x.rows {
            Rows::Values | Rows::Targets(_) => self.width,
            Rows::Apart { width, .. } => width,
        }
    }

    #[track_caller]
    fn check<F>(&self, op: &str, x: &Operands<F>) {
        let ((n, m), h, width) = (self.pattern.shape(), self.heads, self.score_width(x));
        check(op, "v", x.v, &[m, h, self.width]);
        check(op, "k", x.k(), &[m, h, width]);
        check(op, "q", x.q(), &[n, h, width]);
        check(op, "a", x.a, &[h, width]);
        if let Some(t) = x.t {
            check(op, "t", t, &[n, h]);
        }
    }
}

/// The adjoints g of the scores t e, per entry and head: the first pass computes them, by rows in the order of
/// the entries, by columns in that of the transposed pattern. The second reads them.
enum G<'a, F> {
    Unknown(&'a mut [F]),
    Known(&'a [F]),
}

impl<'a, F> G<'a, F> {
    /// The output of the pass that computes them, and what the other pass reads.
    fn parts(self, heads: usize) -> (Output<'a, F>, Option<&'a [F]>) {
        match self {
            Self::Unknown(g) => (Output::by_entry(g, heads), None),
            Self::Known(g) => (Output::none(), Some(g)),
        }
    }
}

/// What both passes of [`Attention::backward`] read.
struct Run<'a, F, P> {
    attention: &'a Attention<'a>,
    x: Operands<'a, F>,
    back: Backward<'a, F>,
    /// drop(α).
    kept: &'a [F],
    /// K.
    width: usize,
    pull: P,
}

impl<F: Real, P: Fn(F, F, F) -> [F; 3] + Sync> Run<'_, F, P> {
    /// The pass by rows: writes the adjoint of q and returns those of a and of t.
    fn targets(&self, gq: &mut [F], g: G<F>) -> (Buffer<F>, Buffer<F>) {
        let (p, x, wide) = (self.attention.pattern, &self.x, self.width);
        let (k, q) = (x.k(), x.q());
        let own_w = self.attention.heads * wide;
        let (out, known) = g.parts(self.attention.heads);
        let parts = self.attention.pass(
            p,
            [Output::by_row(gq, own_w), out],
            #[inline(always)]
            |heads, d, block, [gq, g]| {
                let own_w = heads * wide;
                let mut space = Vec::new();
                let known = known.map(|g| of_rows(p, &block, g, heads, &mut space));
                let mut ga = vec![F::zero(); own_w];
                let mut mean = vec![F::zero(); heads];
                // Used with a temperature: uᵢ of one target, and the adjoint of t for the rows of the block.
                let mut u = vec![F::zero(); if x.t.is_some() { own_w } else { 0 }];
                let mut gt = vec![F::zero(); x.t.map_or(0, |_| block.rows.len() * heads)];
                for (row, i) in block.rows.clone().enumerate() {
                    let (sources, own) = block.row(p, i, heads);
                    let g = match known {
                        Some(g) => &g[own],
                        None => {
                            let g = &mut g[own];
                            self.of_row(i, (heads, d), sources, &mut mean, g);
                            g
                        }
                    };
                    let (q, pull) = (&q[i * own_w..][..own_w], &self.pull);
                    let gq = &mut gq[row * own_w..][..own_w];
                    // Two calls, so that each loop is compiled for its kinds of output.
                    match x.t {
                        None => {
                            let step = OfTarget::<_, _, false> { q, t: &[], pull };
                            let out = [Out::Set(&mut *gq), Out::Add(&mut ga[..])];
                            rows::over_entries(sources, g, k, heads, out, &step);
                        }
                        Some(t) => {
                            let t = &t[i * heads..][..heads];
                            let step = OfTarget::<_, _, true> { q, t, pull };
                            let out = [Out::Set(&mut *gq), Out::Set(&mut u[..])];
                            rows::over_entries(sources, g, k, heads, out, &step);
                            dot_heads(wide, x.a, &u, &mut gt[row * heads..][..heads]);
                            scale_heads(wide, &mut u, t);
                            axpy(F::one(), &u, &mut ga);
                        }
                    }
                    for (g, &a) in gq.iter_mut().zip(x.a) {
                        *g *= a;
                    }
                }
                (ga, gt)
            },
        );
        let (gas, gts): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
        let ga = gas.into_iter().reduce(add);
        let ga = ga.unwrap_or_else(|| vec![F::zero(); own_w]);
        (ga.into(), gts.concat().into())
    }

    /// The adjoints of the scores of target i. `mean` is space for ⟨gyᵢ, yᵢ⟩.
    #[inline(always)]
    fn of_row(
        &self,
        i: usize,
        (heads, d): (usize, usize),
        sources: &[u32],
        mean: &mut [F],
        g: &mut [F],
    ) {
        let (w, Backward { alpha, y, gy }) = (heads * d, self.back);
        let (y, gy) = (&y[i * w..][..w], &gy[i * w..][..w]);
        dot_heads(d, gy, y, mean);
        for (&j, dots) in sources.iter().zip(g.chunks_exact_mut(heads)) {
            dot_heads(d, gy, &self.x.v[j as usize * w..][..w], dots);
        }
        let entries = self.attention.pattern.row(i);
        let own = entries.start * heads..entries.end * heads;
        let mean = &*mean;
        score_adjoints(heads, &alpha[own.clone()], &self.kept[own], |_| mean, g);
    }

    /// The pass by columns: writes the adjoints of v and of k; where k = v, adds both to `gv`.
    fn sources(&self, gv: &mut [F], gk: &mut [F], g: G<F>) {
        let (x, wide) = (&self.x, self.width);
        let (k, q, Backward { alpha, y, gy }) = (x.k(), x.q(), self.back);
        let p = &self.attention.pattern.transposed().pattern;
        let (out, known) = g.parts(self.attention.heads);
        let means = match known {
            Some(_) => Buffer::default(),
            None => self.attention.dots(y, gy),
        };
        let outputs = [
            Output::by_row(gv, self.attention.row_len()),
            match x.rows {
                Rows::Apart { .. } => Output::by_row(gk, self.attention.heads * wide),
                Rows::Values | Rows::Targets(_) => Output::none(),
            },
            out,
        ];
        self.attention.pass(
            p,
            outputs,
            #[inline(always)]
            |heads, d, block, [gv, gk, g]| {
                let (w, own_w) = (heads * d, heads * wide);
                let spaces = &mut [Vec::new(), Vec::new(), Vec::new()];
                let [alphas, kepts, gs] = spaces;
                let kept = self.attention.of_columns(&block, self.kept, kepts);
                let known = known.map(|g| &*self.attention.of_columns(&block, g, gs));
                let alpha = match known.is_none() && !self.attention.dropout.is_none() {
                    true => self.attention.of_columns(&block, alpha, alphas),
                    false => kept,
                };
                let mut through = vec![F::zero(); own_w];
                for (row, j) in block.rows.clone().enumerate() {
                    let (targets, own) = block.row(p, j, heads);
                    let kept = &kept[own.clone()];
                    let g = match known {
                        Some(g) => &g[own],
                        None => {
                            let (v, g) = (&x.v[j * w..][..w], &mut g[own.clone()]);
                            for (&i, dots) in targets.iter().zip(g.chunks_exact_mut(heads)) {
                                dot_heads(d, &gy[i as usize * w..][..w], v, dots);
                            }
                            let mean = |k: usize| &means[targets[k] as usize * heads..][..heads];
                            score_adjoints(heads, &alpha[own], kept, mean, g);
                            g
                        }
                    };
                    let (k, pull) = (&k[j * own_w..][..own_w], &self.pull);
                    let out = [Out::Set(&mut through)];
                    match x.t {
                        None => {
                            let t = &[];
                            let step = OfSource::<_, _, false> { k, t, heads, pull };
                            rows::over_entries(targets, g, q, heads, out, &step);
                        }
                        Some(t) => {
                            let step = OfSource::<_, _, true> { k, t, heads, pull };
                            rows::over_entries(targets, g, q, heads, out, &step);
                        }
                    }
                    let gv = &mut gv[row * w..][..w];
                    let through = x.a.iter().zip(&through).map(|(&a, &sum)| a * sum);
                    match x.rows {
                        Rows::Apart { .. } => {
                            rows::weighted_sum(targets, kept, gy, heads, Out::Set(gv));
                            let gk = &mut gk[row * own_w..][..own_w];
                            gk.iter_mut().zip(through).for_each(|(g, term)| *g = term);
                        }
                        Rows::Values | Rows::Targets(_) => {
                            rows::weighted_sum(targets, kept, gy, heads, Out::Add(gv));
                            gv.iter_mut().zip(through).for_each(|(g, term)| *g += term);
                        }
                    }
                }
            },
        );
    }
}

/// The values for the entries of a block of rows, in their order, of what a pass by columns computed, copied
/// to `space`.
#[inline(always)]
fn of_rows<'s, F: Real>(
    pattern: &Pattern,
    block: &Block,
    x: &[F],
    heads: usize,
    space: &'s mut Vec<F>,
) -> &'s [F] {
    let entries = &pattern.transposed().pattern.transposed().entry[block.entries.clone()];
    rows::collect(entries, x, heads, space)
}
