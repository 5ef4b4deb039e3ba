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

use super::{EdgeAttention, EdgeOperands, ScaledProduct};
use crate::autodiff::Var;
use crate::ops::sparse::{gather_rows, sddmm, segment_softmax};
use crate::real::Real;

impl EdgeAttention {
    /// y_i = Σ_j drop(α)_ij (v_j + e_ij) with α_i = softmax_j(⟨q_i, k_j + e_ij⟩ / √D), for each head; shape
    /// `[n, H, C]`. A target without neighbours gets zeros.
    ///
    /// Shi et al., "Masked Label Prediction: Unified Message Passing Model for Semi-Supervised
    /// Classification", IJCAI 2021, Eq. (3) and (4). Without terms e this is [`attend`](Self::attend) with
    /// [`ScaledProduct`], one fused operation. With them it is composed, from arrays of nnz · H · D numbers.
    ///
    /// Two nodes that hear each other and themselves. Both queries are 1 and the keys 0 and ln 3, so each
    /// node gets ¼ of the first value and ¾ of the second.
    ///
    /// ```
    /// use emmy::{Tape, ops::attention::EdgeAttention, sparse::Pattern, tensor::tensor};
    ///
    /// let pattern = Pattern::from_pairs(2, 2, &[(0, 0), (0, 1), (1, 0), (1, 1)])?;
    /// let attention = EdgeAttention { pattern, dropout: None };
    /// let tape = Tape::new();
    /// let of = |numbers: [f64; 2]| tape.var(tensor(&[2, 1, 1], numbers.to_vec()));
    /// let (q, k, v) = (of([1.0, 1.0]), of([0.0, 3.0_f64.ln()]), of([0.0, 4.0]));
    /// let y = attention.dot(q, k, v, None);
    /// assert_eq!(y.shape(), [2, 1, 1]);
    /// assert!(y.value().iter().all(|y| (y - 3.0).abs() < 1e-12));
    /// # Ok::<(), emmy::Error>(())
    /// ```
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
        self.check_scores("dot", q, k, e);
        self.check_values("dot", q.shape()[1], v, e);
        q.tape().accept("dot", &[v]);
        match e {
            Some(_) => self.combine(self.dot_coefficients(q, k, e), v, e),
            None => self.attend(
                ScaledProduct { scale: scale(q) },
                EdgeOperands::new(q, k, v),
            ),
        }
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
        segment_softmax(&self.pattern, scores.scale(scale(q)))
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
}

/// 1/√D.
fn scale<F: Real>(q: Var<'_, F>) -> F {
    F::of(q.shape()[2] as f64).sqrt().recip()
}
