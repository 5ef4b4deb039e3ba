//! Dot-product attention over the edges of a graph, with terms of the edges themselves if there are any.
//!
//! | letter | shape | meaning |
//! |---|---|---|
//! | pattern | n × m | entry (i, j): target i hears source j |
//! | q | `[n, H, D]` | queries of the targets, H heads of width D |
//! | k | `[m, H, D]` | keys of the sources |
//! | v | `[m, H, C]` | values of the sources; C = D where there are e |
//! | e | `[nnz, H, D]` | terms of the edges, in the order of the entries of the pattern; optional |
//! | α | `[nnz, H]` | coefficients |

use crate::autodiff::Var;
use crate::ops::sparse::{gather_rows, sddmm, segment_softmax, segment_sum, spmm};
use crate::real::Real;
use crate::sparse::Pattern;
use std::sync::Arc;

/// The edges of a dot-product attention, and the dropout of its coefficients.
///
/// The score of an edge without a term e is one product ⟨q_i, k_j⟩, taken along the edges
/// ([`sddmm`]); nothing of size nnz · H · D is stored. Terms of the edges cost as many numbers as they have.
#[derive(Debug, Clone)]
pub struct DotAttention {
    /// The edges: rows are targets, columns sources.
    pub pattern: Arc<Pattern>,
    /// Dropout of the coefficients: probability and seed.
    pub dropout: Option<(f64, u64)>,
}

impl DotAttention {
    /// y_i = Σ_j drop(α)_ij (v_j + e_ij) with α_i = softmax_j(⟨q_i, k_j + e_ij⟩ / √D), for each head; shape
    /// `[n, H, C]`. A target without neighbours gets zeros.
    ///
    /// Shi et al., "Masked Label Prediction: Unified Message Passing Model for Semi-Supervised
    /// Classification", IJCAI 2021, Eq. (3) and (4).
    ///
    /// # Panics
    /// If the shapes do not fit, the tapes differ, or the probability of dropout is not within 0 ≤ p ≤ 1.
    #[track_caller]
    pub fn dot<'t, F: Real>(
        &self,
        q: Var<'t, F>,
        k: Var<'t, F>,
        v: Var<'t, F>,
        e: Option<Var<'t, F>>,
    ) -> Var<'t, F> {
        self.check_scores("dot_attention", q, k, e);
        self.check_values("dot_attention", q.shape()[1], v, e);
        q.tape().accept("dot_attention", &[v]);
        self.dot_combine(self.dot_coefficients(q, k, e), v, e)
    }

    /// The coefficients α of [`dot`](Self::dot) before dropout, shape `[nnz, H]`.
    ///
    /// # Panics
    /// If the shapes do not fit, or the tapes differ.
    #[track_caller]
    pub fn dot_coefficients<'t, F: Real>(
        &self,
        q: Var<'t, F>,
        k: Var<'t, F>,
        e: Option<Var<'t, F>>,
    ) -> Var<'t, F> {
        self.check_scores("dot_coefficients", q, k, e);
        let products = sddmm(&self.pattern, q, k);
        let scores = match e {
            Some(e) => products + (gather_rows(&self.pattern, q) * e).sum(&[2], false),
            None => products,
        };
        let width = F::of(q.shape()[2] as f64);
        segment_softmax(&self.pattern, scores.scale(width.sqrt().recip()))
    }

    /// Σ_j drop(α)_ij (v_j + e_ij) for given coefficients α, shape `[n, H, C]`.
    ///
    /// # Panics
    /// If the shapes do not fit, the tapes differ, or the probability of dropout is not within 0 ≤ p ≤ 1.
    #[track_caller]
    pub fn dot_combine<'t, F: Real>(
        &self,
        alpha: Var<'t, F>,
        v: Var<'t, F>,
        e: Option<Var<'t, F>>,
    ) -> Var<'t, F> {
        let (found, nnz) = (alpha.shape(), self.pattern.nnz());
        assert!(
            found.len() == 2 && found[0] == nnz,
            "dot_combine: α has shape {found:?}, it must be [{nnz}, heads]"
        );
        self.check_values("dot_combine", found[1], v, e);
        alpha.tape().accept("dot_combine", &[v]);
        let alpha = match self.dropout {
            Some((p, seed)) => alpha.dropout(p, seed),
            None => alpha,
        };
        let y = spmm(&self.pattern, alpha, v);
        match e {
            Some(e) => y + segment_sum(&self.pattern, alpha.unsqueeze(2) * e),
            None => y,
        }
    }

    #[track_caller]
    fn check_scores<F: Real>(&self, op: &str, q: Var<'_, F>, k: Var<'_, F>, e: Option<Var<'_, F>>) {
        q.tape().accept(op, &[k]);
        let (n, m) = self.pattern.shape();
        let (sq, sk) = (q.shape(), k.shape());
        assert!(
            sq.len() == 3 && sq[0] == n && sk.len() == 3 && sk[0] == m && sq[1..] == sk[1..],
            "{op}: q {sq:?} and k {sk:?}: they must be [{n}, heads, width] and [{m}, heads, width]"
        );
        let Some(e) = e else { return };
        q.tape().accept(op, &[e]);
        let (found, expected) = (e.shape(), [self.pattern.nnz(), sq[1], sq[2]]);
        assert!(
            found == expected,
            "{op}: e has shape {found:?}, it must be [edges, heads, width], here {expected:?}"
        );
    }

    #[track_caller]
    fn check_values<F: Real>(&self, op: &str, heads: usize, v: Var<'_, F>, e: Option<Var<'_, F>>) {
        let (shape, m) = (v.shape(), self.pattern.cols());
        assert!(
            shape.len() == 3 && shape[..2] == [m, heads],
            "{op}: v has shape {shape:?}, it must be [{m}, {heads}, width]"
        );
        if let Some((p, _)) = self.dropout {
            assert!(
                (0.0..=1.0).contains(&p),
                "{op}: the dropout probability {p} is not within 0 ≤ p ≤ 1"
            );
        }
        let Some(e) = e else { return };
        v.tape().accept(op, &[e]);
        let (found, expected) = (e.shape(), [self.pattern.nnz(), heads, shape[2]]);
        assert!(
            found == expected,
            "{op}: e has shape {found:?}, it must be [edges, heads, width of v], here {expected:?}"
        );
    }
}
