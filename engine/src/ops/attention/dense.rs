//! Attention between queries and keys.

use super::{DenseAttention, EdgeAttention, Mask, slice};
use crate::autodiff::{Fused, Kind, Var, fused};
use crate::kernels::attention::dense::{Dense, LogSums, Operands, Outcome};
use crate::kernels::random::DropMask;
use crate::ops::sparse::{gather_columns, gather_rows, sddmm, segment_softmax};
use crate::real::Real;
use crate::tensor::{Tensor, contiguous, tensor};

/// Queries, keys and values, with optional β and t.
///
/// ```
/// use emmy::ops::attention::{DenseAttention, Mask, Qkv};
/// use emmy::{Tape, tensor::tensor};
///
/// // One query and two keys of width 1: the scores are 0 and ln 3, so the weights are ¼ and ¾.
/// let tape = Tape::new();
/// let q = tape.var(tensor(&[1, 1, 1], vec![1.0_f64]));
/// let k = tape.var(tensor(&[2, 1, 1], vec![0.0, 3.0_f64.ln()]));
/// let v = tape.var(tensor(&[2, 1, 1], vec![0.0, 8.0]));
/// let y = DenseAttention::new(1, Mask::none()).attend(Qkv::new(q, k, v));
/// assert!((y.value()[[0, 0, 0]] - 6.0).abs() < 1e-12);
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Qkv<'t, F: Real> {
    /// q.
    pub q: Var<'t, F>,
    /// k.
    pub k: Var<'t, F>,
    /// v.
    pub v: Var<'t, F>,
    /// β.
    pub beta: Option<Var<'t, F>>,
    /// t.
    pub t: Option<Var<'t, F>>,
}

impl<'t, F: Real> Qkv<'t, F> {
    /// Without β and t.
    pub fn new(q: Var<'t, F>, k: Var<'t, F>, v: Var<'t, F>) -> Self {
        Self {
            q,
            k,
            v,
            beta: None,
            t: None,
        }
    }

    fn operands(&self) -> Vec<Var<'t, F>> {
        let all = [self.q, self.k, self.v].into_iter();
        all.chain(self.beta).chain(self.t).collect()
    }
}

impl DenseAttention {
    /// c = 1/√d for queries of width d, and no dropout.
    pub fn new(width: usize, mask: Mask) -> Self {
        Self {
            scale: (width as f64).sqrt().recip(),
            mask,
            dropout: None,
        }
    }

    /// y.
    ///
    /// One query and two keys, one head of width 1. The scores are 0 and ln 3, so the mean has the weights ¼
    /// and ¾.
    ///
    /// ```
    /// use emmy::ops::attention::{DenseAttention, Mask, Qkv};
    /// use emmy::{Tape, tensor::tensor};
    ///
    /// let tape = Tape::new();
    /// let q = tape.var(tensor(&[1, 1, 1], vec![1.0]));
    /// let k = tape.var(tensor(&[2, 1, 1], vec![0.0, 3.0_f64.ln()]));
    /// let v = tape.var(tensor(&[2, 1, 1], vec![0.0, 4.0]));
    /// let attention = DenseAttention::new(1, Mask::none());
    /// let x = Qkv::new(q, k, v);
    /// assert!((attention.attend(x).item() - 3.0).abs() < 1e-12);
    /// assert_eq!(attention.attention_coefficients(x).shape(), [1, 1, 2]);
    /// ```
    ///
    /// # Panics
    /// If the shapes do not fit, the tapes differ, or the probability of dropout is not within 0 ≤ p ≤ 1.
    #[track_caller]
    pub fn attend<'t, F: Real>(&self, x: Qkv<'t, F>) -> Var<'t, F> {
        let sizes = self.check("attend", &x);
        if self.mask.pattern().is_some() {
            return self.along_edges(&x, sizes);
        }
        fused(self.operation(&x), &x.operands())
    }

    /// α before dropout, shape `[.., H, n, m]`; under a set of edges `[nnz, H]`.
    ///
    /// # Panics
    /// If the shapes do not fit, or the tapes differ.
    #[track_caller]
    pub fn attention_coefficients<'t, F: Real>(&self, x: Qkv<'t, F>) -> Var<'t, F> {
        let sizes = self.check("attention_coefficients", &x);
        if self.mask.pattern().is_some() {
            return self.edge_coefficients(&x, sizes);
        }
        let lead = x.q.ndim() - 3;
        let shape = [&x.q.shape()[..lead], &[sizes.heads, sizes.n, sizes.m]].concat();
        self.dense_coefficients(&x, sizes).reshape(&shape)
    }

    pub(super) fn operation<F: Real>(&self, x: &Qkv<'_, F>) -> FusedAttention {
        FusedAttention {
            attention: self.clone(),
            with_beta: x.beta.is_some(),
            with_t: x.t.is_some(),
        }
    }

    #[track_caller]
    pub(super) fn check<F: Real>(&self, op: &str, x: &Qkv<'_, F>) -> Sizes {
        let all = x.operands();
        x.q.tape().accept(op, &all[1..]);
        let (q, k, v) = (x.q.shape(), x.k.shape(), x.v.shape());
        let fits = q.len() >= 3 && k.len() == q.len() && v.len() == q.len();
        let lead = q.len().saturating_sub(3);
        let fits = fits
            && q[..lead] == k[..lead]
            && k[..lead + 2] == v[..lead + 2]
            && q[lead + 2] == k[lead + 2]
            && match k[lead + 1] {
                0 => q[lead + 1] == 0,
                groups => q[lead + 1].is_multiple_of(groups),
            };
        assert!(
            fits,
            "{op}: q {q:?}, k {k:?}, v {v:?}: they must be [.., n, H, d], [.., m, G, d] and [.., m, G, e] with H a \
             multiple of G"
        );
        for (name, extra, of) in [("β", &x.beta, &k), ("t", &x.t, &q)] {
            if let Some(extra) = extra {
                let (found, expected) = (extra.shape(), &of[..lead + 2]);
                assert!(
                    found == expected,
                    "{op}: {name} has shape {found:?}, it must be {expected:?}"
                );
            }
        }
        if let Some((p, _)) = self.dropout {
            assert!(
                (0.0..=1.0).contains(&p),
                "{op}: the dropout probability {p} is not within 0 ≤ p ≤ 1"
            );
        }
        let sizes = Sizes {
            items: q[..lead].iter().product(),
            n: q[lead],
            m: k[lead],
            heads: q[lead + 1],
            groups: k[lead + 1],
            width: q[lead + 2],
            value_width: v[lead + 2],
        };
        self.mask.check(op, sizes.items, sizes.n, sizes.m);
        sizes
    }

    /// α `[items, H, n, m]`, composed.
    fn dense_coefficients<'t, F: Real>(&self, x: &Qkv<'t, F>, s: Sizes) -> Var<'t, F> {
        match self.scores(x, s) {
            (scores, Some(mask)) => scores.softmax_masked(-1, &mask),
            (scores, None) => scores.softmax(-1),
        }
    }

    /// The scores `[items, H, n, m]` of all pairs, and a mask of those that count, if others are among them.
    pub(super) fn scores<'t, F: Real>(
        &self,
        x: &Qkv<'t, F>,
        s: Sizes,
    ) -> (Var<'t, F>, Option<Tensor<bool>>) {
        let Sizes {
            items,
            n,
            m,
            heads,
            groups,
            width,
            ..
        } = s;
        let share = s.share();
        let q = x.q.reshape(&[items, n, groups, share, width]);
        let k = x.k.reshape(&[items, m, groups, 1, width]);
        let q = q.permute(&[0, 2, 3, 1, 4]);
        let mut scores = q.matmul(k.permute(&[0, 2, 3, 4, 1]));
        if let Some(beta) = x.beta {
            let beta = beta.reshape(&[items, m, groups, 1, 1]);
            scores = scores + beta.permute(&[0, 2, 3, 4, 1]);
        }
        let mut scores = scores.scale(F::of(self.scale));
        let mut mask = self.mask.to_dense(items, n, m);
        if let Some(t) = x.t {
            // A score that does not count may be infinite. It must not be a factor in the derivative by t.
            let infinite = scores.value().iter().any(|s| s.is_infinite());
            if infinite {
                let all = scores.reshape(&[items, heads, n, m]).value();
                let mut counts = all.mapv(|s| s != F::neg_infinity());
                if let Some(mask) = &mask {
                    counts.zip_mut_with(mask, |counts, &sees| *counts &= sees);
                }
                let shape = scores.shape();
                let kept = (counts.view().into_shape_with_order(&shape[..])).expect("all scores");
                let zeros = x.q.tape().constant(Tensor::zeros(&shape[..]));
                scores = scores.where_(&kept.to_shared(), zeros);
                mask = Some(counts.into_shared());
            }
            let t = t.reshape(&[items, n, groups, share, 1]);
            scores = scores * t.permute(&[0, 2, 3, 1, 4]);
        }
        (scores.reshape(&[items, heads, n, m]), mask)
    }

    /// y, composed.
    fn composed<'t, F: Real>(&self, x: &Qkv<'t, F>, s: Sizes) -> Var<'t, F> {
        let (items, share) = (s.items, s.share());
        let alpha = self.dense_coefficients(x, s);
        let alpha = match self.dropout {
            Some((p, seed)) => alpha.dropout(p, seed),
            None => alpha,
        };
        let alpha = alpha.reshape(&[items, s.groups, share, s.n, s.m]);
        let v = x.v.reshape(&[items, s.m, s.groups, 1, s.value_width]);
        let y = alpha.matmul(v.permute(&[0, 2, 3, 1, 4]));
        let lead = x.q.ndim() - 3;
        let shape = [&x.q.shape()[..lead], &[s.n, s.heads, s.value_width]].concat();
        y.permute(&[0, 3, 1, 2, 4]).reshape(&shape)
    }

    /// α `[nnz, H]` over the edges of the mask.
    fn edge_coefficients<'t, F: Real>(&self, x: &Qkv<'t, F>, s: Sizes) -> Var<'t, F> {
        let edges = self.mask.pattern().expect("a set of edges");
        let q = x.q.reshape(&[s.n, s.heads, s.width]);
        let mut scores = sddmm(edges, q, s.for_each_head(x.k, s.width));
        if let Some(beta) = x.beta {
            let beta = s.for_each_head(beta, 1).reshape(&[s.m, s.heads]);
            scores = scores + gather_columns(edges, beta);
        }
        let mut scores = scores.scale(F::of(self.scale));
        if let Some(t) = x.t {
            scores = scores * gather_rows(edges, t.reshape(&[s.n, s.heads]));
        }
        segment_softmax(edges, scores)
    }

    fn along_edges<'t, F: Real>(&self, x: &Qkv<'t, F>, s: Sizes) -> Var<'t, F> {
        let edges = self.mask.pattern().expect("a set of edges");
        let along = EdgeAttention {
            pattern: edges.clone(),
            dropout: self.dropout,
        };
        let alpha = self.edge_coefficients(x, s);
        let y = along.combine(alpha, s.for_each_head(x.v, s.value_width), None);
        let lead = x.q.ndim() - 3;
        let shape = [&x.q.shape()[..lead], &[s.n, s.heads, s.value_width]].concat();
        y.reshape(&shape)
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    pub items: usize,
    pub n: usize,
    pub m: usize,
    pub heads: usize,
    groups: usize,
    width: usize,
    value_width: usize,
}

impl Sizes {
    /// The number of heads per group.
    fn share(&self) -> usize {
        self.heads.checked_div(self.groups).unwrap_or(1)
    }

    /// `[m, G, w]` → `[m, H, w]`: the rows of a group for each of its heads.
    fn for_each_head<'t, F: Real>(&self, x: Var<'t, F>, w: usize) -> Var<'t, F> {
        let x = x.reshape(&[self.m, self.groups, 1, w]);
        let x = x.broadcast_to(&[self.m, self.groups, self.share(), w]);
        x.reshape(&[self.m, self.heads, w])
    }
}

/// The fused operation. Its operands are q, k, v, then β and t if there are any.
pub(super) struct FusedAttention {
    pub attention: DenseAttention,
    pub with_beta: bool,
    pub with_t: bool,
}

impl FusedAttention {
    pub(super) fn qkv<'t, F: Real>(&self, args: &[Var<'t, F>]) -> Qkv<'t, F> {
        let (main, beta, t) = self.sorted(args);
        Qkv {
            beta: beta.copied(),
            t: t.copied(),
            ..Qkv::new(main[0], main[1], main[2])
        }
    }

    fn sorted<'a, T>(&self, all: &'a [T]) -> (&'a [T], Option<&'a T>, Option<&'a T>) {
        let beta = all.get(3).filter(|_| self.with_beta);
        let t = all.get(3 + usize::from(self.with_beta));
        (&all[..3], beta, t.filter(|_| self.with_t))
    }

    pub(super) fn kernel<F: Real>(&self, args: &[Tensor<F>]) -> Dense<'_, F> {
        let (q, k, v) = (args[0].shape(), args[1].shape(), args[2].shape());
        let lead = q.len() - 3;
        Dense {
            batch: q[..lead].iter().product(),
            queries: q[lead],
            keys: k[lead],
            heads: q[lead + 1],
            groups: k[lead + 1],
            width: q[lead + 2],
            value_width: v[lead + 2],
            scale: F::of(self.attention.scale),
            mask: self.attention.mask.kernel(),
            dropout: (self.attention.dropout).map_or(DropMask::NONE, |(p, s)| DropMask::new(p, s)),
        }
    }

    /// The adjoints of β and t as far as they are operands, with their shapes.
    pub(super) fn extra<F: Real>(
        &self,
        beta: Vec<F>,
        t: Vec<F>,
        args: &[Tensor<F>],
    ) -> impl Iterator<Item = Option<Tensor<F>>> {
        let both = [(self.with_beta, beta), (self.with_t, t)].into_iter();
        let there = both.filter_map(|(there, g)| there.then_some(g));
        there.zip(args).map(|(g, x)| Some(tensor(x.shape(), g)))
    }

    pub(super) fn operands<'a, F: Real>(&self, rows: &'a [Tensor<F>]) -> Operands<'a, F> {
        let (main, beta, t) = self.sorted(rows);
        Operands {
            q: slice(&main[0]),
            k: slice(&main[1]),
            v: slice(&main[2]),
            beta: beta.map(slice),
            t: t.map(slice),
        }
    }
}

impl<F: Real> Fused<F> for FusedAttention {
    /// ℓ, the logarithm of the sum of exponentials per query and head.
    type Saved = LogSums<F>;

    fn kind(&self) -> Kind {
        Kind::Attention {
            options: self.attention.clone(),
            beta: self.with_beta,
            t: self.with_t,
        }
    }

    fn forward(&self, args: &[Tensor<F>]) -> (Tensor<F>, LogSums<F>) {
        let rows: Vec<_> = args.iter().map(contiguous).collect();
        let (y, lse) = self.kernel(args).forward(&self.operands(&rows));
        let mut shape = args[0].shape().to_vec();
        *shape.last_mut().expect("three axes") = args[2].shape()[shape.len() - 1];
        (y.into_tensor(&shape), lse)
    }

    /// The kernel computes the adjoints of all operands together, including those that are not wanted.
    fn backward(
        &self,
        args: &[Tensor<F>],
        y: &Tensor<F>,
        lse: &LogSums<F>,
        gy: &Tensor<F>,
        _: &[bool],
    ) -> Vec<Option<Tensor<F>>> {
        let rows: Vec<_> = args.iter().map(contiguous).collect();
        let (y, gy) = (contiguous(y), contiguous(gy));
        let outcome = Outcome {
            y: slice(&y),
            lse,
            gy: slice(&gy),
            glse: None,
        };
        let g = self.kernel(args).backward(&self.operands(&rows), &outcome);
        let main = [g.q, g.k, g.v].into_iter().zip(args);
        let mut adjoints: Vec<_> = main.map(|(g, x)| Some(g.into_tensor(x.shape()))).collect();
        adjoints.extend(self.extra(g.beta, g.t, &args[3..]));
        adjoints
    }

    fn reference<'t>(&self, args: &[Var<'t, F>]) -> Var<'t, F> {
        let x = self.qkv(args);
        let sizes = self.attention.check("attend", &x);
        self.attention.composed(&x, sizes)
    }
}
