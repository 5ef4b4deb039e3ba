//! Attention over the edges of a graph: one fused operation for every [`EdgeScore`], and the composition that
//! defines it.
//!
//! | letter | shape | meaning |
//! |---|---|---|
//! | pattern | n × m | entry (i, j): target i hears source j |
//! | v, k, q, a, t | | see [`EdgeOperands`] |
//! | α | `[nnz, H]` | coefficients: softmax of t times the scores over each row |

use super::{EdgeOperands, EdgeScore};
use crate::autodiff::Var;
use crate::ops::sparse::{gather_rows, segment_softmax, segment_sum, spmm};
use crate::real::Real;
use crate::sparse::Pattern;
use std::sync::Arc;

/// The edges of an attention, and the dropout of its coefficients.
///
/// [`attend`](Self::attend) takes any score that compares the rows of two nodes column by column; no array of
/// size edges × width is stored. [`dot`](Self::dot) has terms of the edges themselves.
///
/// Two nodes that hear each other and themselves, with the rows 0 and 1. The score of a source is ln 3 times
/// its row, so the weights are ¼ and ¾.
///
/// ```
/// use emmy::ops::attention::{EdgeAttention, EdgeOperands, LeakySum};
/// use emmy::{Tape, sparse::Pattern, tensor::tensor};
///
/// let pattern = Pattern::from_pairs(2, 2, &[(0, 0), (0, 1), (1, 0), (1, 1)])?;
/// let attention = EdgeAttention { pattern, dropout: None };
/// let tape = Tape::new();
/// let z = tape.var(tensor(&[2, 1, 1], vec![0.0, 1.0]));
/// let [a_s, a_t] = [3.0_f64.ln(), 0.0].map(|a| tape.var(tensor(&[1, 1], vec![a])));
/// let (score, x) = (LeakySum { slope: 0.2 }, EdgeOperands::gat(z, a_s, a_t));
/// let alpha = attention.coefficients(score, x).value();
/// assert!(alpha.iter().zip([0.25, 0.75, 0.25, 0.75]).all(|(a, e)| (a - e).abs() < 1e-12));
/// let y = attention.attend(score, x);
/// assert_eq!(y.shape(), [2, 1, 1]);
/// assert!(y.value().iter().all(|y| (y - 0.75).abs() < 1e-12));
/// # Ok::<(), emmy::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct EdgeAttention {
    /// The edges: rows are targets, columns sources.
    pub pattern: Arc<Pattern>,
    /// Dropout of the coefficients: probability and seed.
    pub dropout: Option<(f64, u64)>,
}

impl EdgeAttention {
    /// The coefficients α of [`attend`](Self::attend) before dropout, shape `[nnz, H]`.
    ///
    /// # Panics
    /// If the shapes do not fit, or the tapes differ.
    #[track_caller]
    pub fn coefficients<'t, F: Real>(
        &self,
        score: impl EdgeScore<F>,
        x: EdgeOperands<Var<'t, F>>,
    ) -> Var<'t, F> {
        x.check("EdgeAttention::coefficients", &self.pattern);
        let e = x.scores(score, &self.pattern);
        let e = match x.t {
            Some(t) => gather_rows(&self.pattern, t) * e,
            None => e,
        };
        segment_softmax(&self.pattern, e)
    }

    /// Σ_j drop(α)_ij (v_j + e_ij) for given coefficients α, shape `[n, H, D]`; the terms e of the edges,
    /// `[nnz, H, D]`, are optional.
    ///
    /// # Panics
    /// If the shapes do not fit, the tapes differ, or the probability of dropout is not within 0 ≤ p ≤ 1.
    #[track_caller]
    pub fn combine<'t, F: Real>(
        &self,
        alpha: Var<'t, F>,
        v: Var<'t, F>,
        e: Option<Var<'t, F>>,
    ) -> Var<'t, F> {
        let (found, nnz) = (alpha.shape(), self.pattern.nnz());
        assert!(
            found.len() == 2 && found[0] == nnz,
            "combine: α has shape {found:?}, it must be [{nnz}, heads]"
        );
        self.check_values("combine", found[1], v, e);
        alpha.tape().accept("combine", &[v]);
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
    pub(super) fn check_values<F: Real>(
        &self,
        op: &str,
        heads: usize,
        v: Var<'_, F>,
        e: Option<Var<'_, F>>,
    ) {
        let (shape, m) = (v.shape(), self.pattern.cols());
        assert!(
            shape.len() == 3 && shape[..2] == [m, heads],
            "{op}: v has shape {shape:?}, it must be [{m}, {heads}, width]"
        );
        self.check_dropout(op);
        let Some(e) = e else { return };
        v.tape().accept(op, &[e]);
        let (found, expected) = (e.shape(), [self.pattern.nnz(), heads, shape[2]]);
        assert!(
            found == expected,
            "{op}: e has shape {found:?}, it must be [edges, heads, width of v], here {expected:?}"
        );
    }

    #[track_caller]
    pub(super) fn check_dropout(&self, op: &str) {
        if let Some((p, _)) = self.dropout {
            assert!(
                (0.0..=1.0).contains(&p),
                "{op}: the dropout probability {p} is not within 0 ≤ p ≤ 1"
            );
        }
    }
}
