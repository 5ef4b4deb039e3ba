//! The operands of an attention along edges.

use super::EdgeScore;
use crate::autodiff::Var;
use crate::real::Real;
use crate::sparse::Pattern;
use std::sync::Arc;

/// The values, and what the score of an edge reads.
///
/// | letter | shape | meaning |
/// |---|---|---|
/// | v | `[m, H, D]` | values of the sources, H heads of width D |
/// | k, q | `[m, H, K]`, `[n, H, K]` | rows of sources and targets that the score compares |
/// | a | `[H, K]` | the attention vector; `None` stands for 1 |
/// | t | `[n, H]` | inverse temperature, multiplies all scores of a target; `None` stands for 1 |
///
/// Normalisers of the scores use t, any real numbers: with t_i = 1 / c_i the scores of target i are divided
/// by c_i, as in Dasoulas et al., "Lipschitz Normalization for Self-Attention Layers with Application to
/// Graph Neural Networks", ICML 2021, Eq. (11) and (15). The division may stand before or after the
/// LeakyReLU, since LeakyReLU(e / c) = LeakyReLU(e) / c for c > 0.
///
/// With [`LeakySum`](super::LeakySum) of slope 0 and without a, the score of an edge is relu(k_j + q_i):
///
/// ```
/// use emmy::ops::attention::{EdgeAttention, EdgeOperands, LeakySum};
/// use emmy::{Tape, sparse::Pattern, tensor::tensor};
///
/// // One target, two sources.
/// let pattern = Pattern::from_pairs(1, 2, &[(0, 0), (0, 1)])?;
/// let attention = EdgeAttention { pattern, dropout: None };
/// let tape = Tape::new();
/// let q = tape.var(tensor(&[1, 1, 1], vec![0.0]));
/// let k = tape.var(tensor(&[2, 1, 1], vec![-5.0, 3.0_f64.ln()]));
/// let v = tape.var(tensor(&[2, 1, 2], vec![0.0, 4.0, 4.0, 0.0]));
/// // Scores 0 and ln 3: the mean has the weights ¼ and ¾.
/// let y = attention.attend(LeakySum { slope: 0.0 }, EdgeOperands::new(q, k, v));
/// assert_eq!(y.shape(), [1, 1, 2]);
/// assert!(y.value().iter().zip([3.0, 1.0]).all(|(y, e)| (y - e).abs() < 1e-12));
/// # Ok::<(), emmy::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct EdgeOperands<V> {
    /// v.
    pub v: V,
    /// k and q.
    pub ends: Ends<V>,
    /// a.
    pub a: Option<V>,
    /// t.
    pub t: Option<V>,
}

/// The rows k and q of both ends of an edge.
#[derive(Debug, Clone, Copy)]
pub enum Ends<V> {
    /// These rows. Where k is the same variable as v, as in GATv2, one pass fetches both.
    Rows {
        /// k, shape `[m, H, K]`.
        k: V,
        /// q, shape `[n, H, K]`.
        q: V,
    },
    /// One number per head, K = 1: k_j = ⟨a_s, v_j⟩ and q_i = ⟨a_t, v_i⟩, on a square pattern.
    Halves {
        /// For sources, shape `[H, D]`.
        a_s: V,
        /// For targets, shape `[H, D]`.
        a_t: V,
    },
}

impl<V: Copy> EdgeOperands<V> {
    /// Rows q and k and values v, without a and t.
    pub fn new(q: V, k: V, v: V) -> Self {
        Self {
            v,
            ends: Ends::Rows { k, q },
            a: None,
            t: None,
        }
    }

    /// Those of GAT: with [`LeakySum`](super::LeakySum) the scores are LeakyReLU(⟨a_s, z_j⟩ + ⟨a_t, z_i⟩).
    ///
    /// Veličković et al., "Graph Attention Networks", ICLR 2018, Eq. (1) to (4); their score aᵀ[Wh_i ‖ Wh_j]
    /// is split into one half per end of the edge.
    pub fn gat(z: V, a_s: V, a_t: V) -> Self {
        Self {
            v: z,
            ends: Ends::Halves { a_s, a_t },
            a: None,
            t: None,
        }
    }

    /// Those of GATv2: with [`LeakySum`](super::LeakySum) the scores are ⟨a, LeakyReLU(z_s,j + z_t,i)⟩.
    ///
    /// Brody et al., "How Attentive are Graph Attention Networks?", ICLR 2022, Eq. (7). For shared weights
    /// pass the same variable as z_s and z_t; the kernel then computes its derivative in one buffer.
    pub fn gatv2(z_s: V, z_t: V, a: V) -> Self {
        Self {
            a: Some(a),
            ..Self::new(z_t, z_s, z_s)
        }
    }

    /// The same with other things in the places of these.
    pub(super) fn map<U>(self, mut f: impl FnMut(V) -> U) -> EdgeOperands<U> {
        EdgeOperands {
            v: f(self.v),
            ends: match self.ends {
                Ends::Rows { k, q } => Ends::Rows { k: f(k), q: f(q) },
                Ends::Halves { a_s, a_t } => Ends::Halves {
                    a_s: f(a_s),
                    a_t: f(a_t),
                },
            },
            a: self.a.map(&mut f),
            t: self.t.map(&mut f),
        }
    }
}

impl<'t, F: Real> EdgeOperands<Var<'t, F>> {
    /// The scores e by ordinary operations.
    pub(super) fn scores(&self, score: impl EdgeScore<F>, pattern: &Arc<Pattern>) -> Var<'t, F> {
        let (k, q) = match self.ends {
            Ends::Rows { k, q } => (k, q),
            Ends::Halves { a_s, a_t } => {
                let half = |a: Var<'t, F>| (self.v * a).sum(&[2], true);
                (half(a_s), half(a_t))
            }
        };
        score.compose_scores(pattern, [k, q], self.a)
    }

    #[track_caller]
    pub(super) fn check(&self, op: &str, pattern: &Pattern) {
        let (n, m) = pattern.shape();
        let (tape, v) = (self.v.tape(), self.v.shape());
        let fits = v.len() == 3 && v[0] == m;
        assert!(
            fits,
            "{op}: v has shape {v:?}, it must be [{m}, heads, width]"
        );
        let heads = v[1];
        let width = match self.ends {
            Ends::Rows { k, q } => {
                tape.accept(op, &[k, q]);
                let width = k.shape().last().copied().unwrap_or(0);
                check_shape([op, "k"], k, &[m, heads, width], "[sources, heads, width]");
                check_shape(
                    [op, "q"],
                    q,
                    &[n, heads, width],
                    "[targets, heads, width of k]",
                );
                width
            }
            Ends::Halves { a_s, a_t } => {
                tape.accept(op, &[a_s, a_t]);
                assert!(
                    n == m,
                    "{op}: halves of scores on a pattern of {n} × {m}, which must be square"
                );
                check_shape([op, "a_s"], a_s, &v[1..], "[heads, width]");
                check_shape([op, "a_t"], a_t, &v[1..], "[heads, width]");
                1
            }
        };
        if let Some(a) = self.a {
            tape.accept(op, &[a]);
            check_shape([op, "a"], a, &[heads, width], "[heads, width of k]");
        }
        if let Some(t) = self.t {
            tape.accept(op, &[t]);
            check_shape([op, "t"], t, &[n, heads], "[targets, heads]");
        }
    }
}

#[track_caller]
fn check_shape<F: Real>([op, name]: [&str; 2], x: Var<'_, F>, expected: &[usize], axes: &str) {
    let found = x.shape();
    assert!(
        found == expected,
        "{op}: {name} has shape {found:?}, it must be {axes}, here {expected:?}"
    );
}
