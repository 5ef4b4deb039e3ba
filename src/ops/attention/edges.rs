//! Attention over the edges of a graph: fused operations, and the compositions that define them.
//!
//! | letter | shape | meaning |
//! |---|---|---|
//! | pattern | n × m | entry (i, j): target i hears source j |
//! | z, z_s, z_t | `[m, H, D]`, z_t `[n, H, D]` | projected sources and targets, H heads of width D |
//! | a_s, a_t | `[H, D]` | the attention vectors of GAT, for sources and targets |
//! | a | `[H, D]` | the attention vector of GATv2 |
//! | e | `[nnz, H]` | scores |
//! | t | `[n, H]` | inverse temperature: multiplies all scores of a target, any real number; optional |
//! | α | `[nnz, H]` | coefficients: softmax of the scores, or of t e, over each row |
//!
//! Normalisers of the scores use t: with t_i = 1 / c_i the scores of target i are divided by c_i, as in
//! Dasoulas et al., "Lipschitz Normalization for Self-Attention Layers with Application to Graph Neural
//! Networks", ICML 2021, Eq. (11) and (15). The division may stand before or after the LeakyReLU, since
//! LeakyReLU(e / c) = LeakyReLU(e) / c for c > 0.

use super::slice;
use crate::autodiff::{Fused, Kind, Var, fused};
use crate::kernels::attention::{
    Attention, Backward, Gat, GatV2, half_scores, half_scores_backward,
};
use crate::kernels::random::Dropout;
use crate::ops::sparse::{gather_columns, gather_rows, segment_softmax, spmm};
use crate::real::Real;
use crate::sparse::Pattern;
use crate::tensor::memory::Buffer;
use crate::tensor::{Tensor, contiguous};
use std::sync::Arc;

/// The edges and the options of an attention.
#[derive(Debug, Clone)]
pub struct EdgeAttention<F> {
    /// The edges: rows are targets, columns sources.
    pub pattern: Arc<Pattern>,
    /// The slope of the LeakyReLU for negative arguments; 0.2 in the papers.
    pub slope: F,
    /// Dropout of the coefficients: probability and seed.
    pub dropout: Option<(f64, u64)>,
}

impl<F: Real> EdgeAttention<F> {
    /// y_i = Σ_j drop(α)_ij z_j with α = softmax_j(t_i LeakyReLU(⟨a_s, z_j⟩ + ⟨a_t, z_i⟩)), for each head;
    /// shape `[n, H, D]`.
    ///
    /// Veličković et al., "Graph Attention Networks", ICLR 2018, Eq. (1) to (4); their score aᵀ[Wh_i ‖ Wh_j]
    /// is split into one half per end of the edge. The paper has no temperature: `None` stands for t = 1. A
    /// target without neighbours gets zeros.
    ///
    /// # Panics
    /// If the shapes do not fit, the pattern is not square, the tapes differ, or the probability of dropout
    /// is not within 0 ≤ p ≤ 1.
    #[track_caller]
    pub fn gat<'t>(
        &self,
        z: Var<'t, F>,
        a_s: Var<'t, F>,
        a_t: Var<'t, F>,
        t: Option<Var<'t, F>>,
    ) -> Var<'t, F> {
        self.check_gat("gat_attention", z, [a_s, a_t], t);
        self.fuse("gat_attention", Score::Gat, &[z, a_s, a_t], t)
    }

    /// The coefficients α of [`gat`](Self::gat) before dropout, shape `[nnz, H]`.
    ///
    /// # Panics
    /// If the shapes do not fit, the pattern is not square, or the tapes differ.
    #[track_caller]
    pub fn gat_coefficients<'t>(
        &self,
        z: Var<'t, F>,
        a_s: Var<'t, F>,
        a_t: Var<'t, F>,
        t: Option<Var<'t, F>>,
    ) -> Var<'t, F> {
        self.check_gat("gat_coefficients", z, [a_s, a_t], t);
        let half = |a: Var<'t, F>| (z * a).sum(&[2], false);
        let scores =
            gather_columns(&self.pattern, half(a_s)) + gather_rows(&self.pattern, half(a_t));
        self.coefficients(scores.leaky_relu(self.slope), t)
    }

    #[track_caller]
    fn check_gat(&self, op: &str, z: Var<'_, F>, a: [Var<'_, F>; 2], t: Option<Var<'_, F>>) {
        z.tape().accept(op, &a);
        self.check(op, "z", z, self.pattern.cols());
        self.check(op, "z", z, self.pattern.rows());
        let shape = z.shape();
        for (name, a) in ["a_s", "a_t"].into_iter().zip(a) {
            let found = a.shape();
            assert!(
                found == shape[1..],
                "{op}: {name} has shape {found:?}, z {shape:?}: it must be [heads, width]"
            );
        }
        self.check_temperature(op, z, t);
    }

    /// y_i = Σ_j drop(α)_ij z_s,j with α = softmax_j(t_i ⟨a, LeakyReLU(z_s,j + z_t,i)⟩), for each head; shape
    /// `[n, H, D]`.
    ///
    /// Brody et al., "How Attentive are Graph Attention Networks?", ICLR 2022, Eq. (7). The paper has no
    /// temperature: `None` stands for t = 1. For shared weights pass the same variable as z_s and z_t; the
    /// kernel then computes its derivative in one buffer. A target without neighbours gets zeros.
    ///
    /// # Panics
    /// If the shapes do not fit, the tapes differ, or the probability of dropout is not within 0 ≤ p ≤ 1.
    #[track_caller]
    pub fn gatv2<'t>(
        &self,
        z_s: Var<'t, F>,
        z_t: Var<'t, F>,
        a: Var<'t, F>,
        t: Option<Var<'t, F>>,
    ) -> Var<'t, F> {
        self.check_gatv2("gatv2_attention", [z_s, z_t], a, t);
        if z_s.id == z_t.id {
            self.fuse("gatv2_attention", Score::SharedGatv2, &[z_s, a], t)
        } else {
            self.fuse("gatv2_attention", Score::Gatv2, &[z_s, z_t, a], t)
        }
    }

    /// The coefficients α of [`gatv2`](Self::gatv2) before dropout, shape `[nnz, H]`.
    ///
    /// # Panics
    /// If the shapes do not fit, or the tapes differ.
    #[track_caller]
    pub fn gatv2_coefficients<'t>(
        &self,
        z_s: Var<'t, F>,
        z_t: Var<'t, F>,
        a: Var<'t, F>,
        t: Option<Var<'t, F>>,
    ) -> Var<'t, F> {
        self.check_gatv2("gatv2_coefficients", [z_s, z_t], a, t);
        let sums = gather_columns(&self.pattern, z_s) + gather_rows(&self.pattern, z_t);
        self.coefficients((sums.leaky_relu(self.slope) * a).sum(&[2], false), t)
    }

    /// softmax_j(t_i e_ij) from the scores e.
    #[track_caller]
    fn coefficients<'t>(&self, e: Var<'t, F>, t: Option<Var<'t, F>>) -> Var<'t, F> {
        let e = match t {
            Some(t) => gather_rows(&self.pattern, t) * e,
            None => e,
        };
        segment_softmax(&self.pattern, e)
    }

    #[track_caller]
    fn check_gatv2(&self, op: &str, z: [Var<'_, F>; 2], a: Var<'_, F>, t: Option<Var<'_, F>>) {
        let [z_s, z_t] = z;
        z_s.tape().accept(op, &[z_t, a]);
        self.check(op, "z_s", z_s, self.pattern.cols());
        self.check(op, "z_t", z_t, self.pattern.rows());
        let (source, target, found) = (z_s.shape(), z_t.shape(), a.shape());
        assert!(
            source[1..] == target[1..] && found == source[1..],
            "{op}: z_s {source:?}, z_t {target:?}, a {found:?}: \
             heads and width must be equal, and a [heads, width]"
        );
        self.check_temperature(op, z_s, t);
    }

    #[track_caller]
    fn fuse<'t>(
        &self,
        op: &str,
        score: Score,
        args: &[Var<'t, F>],
        t: Option<Var<'t, F>>,
    ) -> Var<'t, F> {
        if let Some((p, _)) = self.dropout {
            assert!(
                (0.0..=1.0).contains(&p),
                "{op}: the dropout probability {p} is not within 0 ≤ p ≤ 1"
            );
        }
        let fusion = Fusion {
            edges: self.clone(),
            score,
            with_t: t.is_some(),
        };
        let args: Vec<_> = args.iter().copied().chain(t).collect();
        fused(fusion, &args)
    }

    #[track_caller]
    fn check(&self, op: &str, name: &str, z: Var<'_, F>, nodes: usize) {
        let shape = z.shape();
        assert!(
            shape.len() == 3 && shape[0] == nodes,
            "{op}: {name} has shape {shape:?}, it must be [{nodes}, heads, width]"
        );
    }

    #[track_caller]
    fn check_temperature(&self, op: &str, z: Var<'_, F>, t: Option<Var<'_, F>>) {
        let Some(t) = t else { return };
        z.tape().accept(op, &[t]);
        let (found, expected) = (t.shape(), [self.pattern.rows(), z.shape()[1]]);
        assert!(
            found == expected,
            "{op}: t has shape {found:?}, it must be [targets, heads], here {expected:?}"
        );
    }

    /// The arguments of the kernels, for an operand of shape `[.., H, D]`.
    fn kernel(&self, z: &Tensor<F>) -> Attention<'_, F> {
        Attention {
            pattern: &self.pattern,
            heads: z.shape()[1],
            width: z.shape()[2],
            slope: self.slope,
            dropout: self
                .dropout
                .map_or(Dropout::NONE, |(p, seed)| Dropout::new(p, seed)),
        }
    }
}

/// The score and its operands; t, if there is one, follows them.
#[derive(Debug, Clone, Copy)]
enum Score {
    /// GAT: z, a_s, a_t.
    Gat,
    /// GATv2 with separate weights: z_s, z_t, a.
    Gatv2,
    /// GATv2 with shared weights, z_s = z_t = z: z, a.
    SharedGatv2,
}

/// The fused operation.
struct Fusion<F> {
    edges: EdgeAttention<F>,
    score: Score,
    /// Whether the last operand is t.
    with_t: bool,
}

impl<F> Fusion<F> {
    /// t, the last operand if there is one.
    fn temperature<'a, T>(&self, args: &'a [T]) -> Option<&'a T> {
        args.last().filter(|_| self.with_t)
    }
}

/// The results of the forward kernel that the adjoint needs.
struct Saved<F: Real> {
    /// The coefficients.
    alpha: Buffer<F>,
    /// GAT only: ⟨a_s, z⟩ and ⟨a_t, z⟩.
    halves: Option<[Buffer<F>; 2]>,
}

impl<F: Real> Fused<F> for Fusion<F> {
    type Saved = Saved<F>;

    fn kind(&self) -> Kind {
        Kind::Opaque(match self.score {
            Score::Gat => "gat_attention",
            Score::Gatv2 => "gatv2_attention",
            Score::SharedGatv2 => "gatv2_attention_shared",
        })
    }

    fn forward(&self, args: &[Tensor<F>]) -> (Tensor<F>, Saved<F>) {
        let rows: Vec<_> = args.iter().map(contiguous).collect();
        let x = |k: usize| slice(&rows[k]);
        let t = self.temperature(&rows).map(|t| slice(t));
        let kernel = self.edges.kernel(&args[0]);
        let mut halves = None;
        let (y, alpha) = match self.score {
            Score::Gat => {
                let both = half_scores(x(0), [x(1), x(2)], kernel.heads);
                let [s_s, s_t] = &*halves.insert(both);
                kernel.gat(gat(x(0), s_s, s_t, t))
            }
            Score::Gatv2 => kernel.gatv2(gatv2(x(0), x(1), x(2), t)),
            Score::SharedGatv2 => kernel.gatv2(gatv2(x(0), x(0), x(1), t)),
        };
        let shape = [kernel.pattern.rows(), kernel.heads, kernel.width];
        (y.into_tensor(&shape), Saved { alpha, halves })
    }

    /// The kernels compute the adjoints of all operands together, including those that are not wanted.
    fn backward(
        &self,
        args: &[Tensor<F>],
        y: &Tensor<F>,
        saved: &Saved<F>,
        gy: &Tensor<F>,
        _: &[bool],
    ) -> Vec<Option<Tensor<F>>> {
        let rows: Vec<_> = args.iter().map(contiguous).collect();
        let x = |k: usize| slice(&rows[k]);
        let t = self.temperature(&rows).map(|t| slice(t));
        let (y, gy) = (contiguous(y), contiguous(gy));
        let back = Backward {
            alpha: &saved.alpha,
            y: slice(&y),
            gy: slice(&gy),
        };
        let kernel = self.edges.kernel(&args[0]);
        let (mut adjoints, gt) = match self.score {
            Score::Gat => {
                let [s_s, s_t] = saved.halves.as_ref().expect("the forward pass saved them");
                let mut g = kernel.gat_backward(gat(x(0), s_s, s_t, t), back);
                let (a, gs) = ([x(1), x(2)], [&*g.s_src, &*g.s_tgt]);
                let [a_s, a_t] = half_scores_backward(x(0), a, kernel.heads, gs, &mut g.z);
                (vec![g.z, a_s, a_t], g.t)
            }
            Score::Gatv2 => {
                let g = kernel.gatv2_backward(gatv2(x(0), x(1), x(2), t), back);
                (vec![g.zs, g.zt, g.a], g.t)
            }
            Score::SharedGatv2 => {
                let g = kernel.gatv2_backward_shared(x(0), x(1), t, back);
                (vec![g.zs, g.a], g.t)
            }
        };
        adjoints.extend(self.with_t.then_some(gt));
        (adjoints.into_iter().zip(args))
            .map(|(adjoint, arg)| Some(adjoint.into_tensor(arg.shape())))
            .collect()
    }

    fn reference<'t>(&self, args: &[Var<'t, F>]) -> Var<'t, F> {
        let (edges, t) = (&self.edges, self.temperature(args).copied());
        let alpha = match self.score {
            Score::Gat => edges.gat_coefficients(args[0], args[1], args[2], t),
            Score::Gatv2 => edges.gatv2_coefficients(args[0], args[1], args[2], t),
            Score::SharedGatv2 => edges.gatv2_coefficients(args[0], args[0], args[1], t),
        };
        let alpha = match edges.dropout {
            Some((p, seed)) => alpha.dropout(p, seed),
            None => alpha,
        };
        spmm(&edges.pattern, alpha, args[0])
    }
}

fn gat<'a, F>(z: &'a [F], s_src: &'a [F], s_tgt: &'a [F], t: Option<&'a [F]>) -> Gat<'a, F> {
    Gat { z, s_src, s_tgt, t }
}

fn gatv2<'a, F>(zs: &'a [F], zt: &'a [F], a: &'a [F], t: Option<&'a [F]>) -> GatV2<'a, F> {
    GatV2 { zs, zt, a, t }
}
