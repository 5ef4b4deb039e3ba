//! The scores of edges: a function of two numbers, summed over the columns of both ends.

use crate::autodiff::Var;
use crate::ops::sparse::{gather_columns, gather_rows, sddmm};
use crate::real::Real;
use crate::sparse::Pattern;
use std::sync::Arc;

/// f of the score e_ijh = Σ_c a_hc f(k_jhc, q_ihc) of an edge from source j to target i, head by head.
///
/// The columns of k (a row per source) and q (a row per target) are compared one by one; a is the attention
/// vector. [`EdgeAttention::attend`](super::EdgeAttention::attend) computes the attention in one pass over
/// the edges for every f: the loops are compiled for it.
///
/// The value and its derivatives stand in two forms. [`value`](Self::value) and [`pull`](Self::pull) are
/// arithmetic, for the fused loops. [`compose`](Self::compose) is made of ordinary operations: higher
/// derivatives and Lipschitz bounds are read from it. A test holds them together
/// ([`check_grads`](crate::autodiff::check_grads); `tests/layers/own_score.rs` does this).
///
/// ```
/// use emmy::ops::attention::EdgeScore;
/// use emmy::{Real, Var};
///
/// /// −|k − q|: with a = 1 the distance of two rows, as a score.
/// #[derive(Clone, Copy)]
/// struct Distance;
///
/// impl<F: Real> EdgeScore<F> for Distance {
///     fn name(&self) -> &'static str {
///         "distance"
///     }
///
///     #[inline(always)]
///     fn value(&self, k: F, q: F) -> F {
///         -(k - q).abs()
///     }
///
///     #[inline(always)]
///     fn pull(&self, g: F, k: F, q: F) -> [F; 3] {
///         let of_k = if k > q { -g } else { g };
///         [g * self.value(k, q), of_k, -of_k]
///     }
///
///     fn compose<'t>(&self, k: Var<'t, F>, q: Var<'t, F>) -> Var<'t, F> {
///         -(k - q).abs()
///     }
/// }
/// ```
pub trait EdgeScore<F: Real>: Copy + Send + Sync + 'static {
    /// The name, for messages and counts.
    fn name(&self) -> &'static str;

    /// f(k, q). Mark it `#[inline(always)]`: it is called in vector loops.
    fn value(&self, k: F, q: F) -> F;

    /// g f, g ∂f/∂k and g ∂f/∂q. Mark it `#[inline(always)]` too.
    fn pull(&self, g: F, k: F, q: F) -> [F; 3];

    /// Whether f is symmetric: f(k, q) = f(q, k), and if k and q are exchanged, the two derivatives of
    /// [`pull`](Self::pull) are exchanged too. This must hold for all numbers. (It does not hold for
    /// −|k − q| above: at k = q its two derivatives differ.)
    ///
    /// The adjoints of a symmetric score take less time where k and q are the same variable as v, there is
    /// no t, and every edge has its reverse. As provided, this is `false`.
    fn symmetric(&self) -> bool {
        false
    }

    /// f by ordinary operations, entry by entry.
    fn compose<'t>(&self, k: Var<'t, F>, q: Var<'t, F>) -> Var<'t, F>;

    /// The scores e by ordinary operations, shape `[nnz, H]`, for rows k `[m, H, K]` and q `[n, H, K]`.
    ///
    /// As provided, this fetches both rows for every edge, nnz · H · K numbers each. A score that knows an
    /// operation with less memory overrides it.
    fn compose_scores<'t>(
        &self,
        pattern: &Arc<Pattern>,
        [k, q]: [Var<'t, F>; 2],
        a: Option<Var<'t, F>>,
    ) -> Var<'t, F> {
        let f = self.compose(gather_columns(pattern, k), gather_rows(pattern, q));
        let terms = match a {
            Some(a) => f * a,
            None => f,
        };
        terms.sum(&[2], false)
    }
}

/// f(k, q) = s k q, the score of dot products: with a = 1 the score of an edge is s ⟨q_i, k_j⟩.
///
/// ```
/// use emmy::ops::attention::{EdgeAttention, EdgeOperands, ScaledProduct};
/// use emmy::{Tape, sparse::Pattern, tensor::tensor};
///
/// // Node 0 hears itself and node 1. The scores are ½ · 2 · (0, ln 3), so the weights are ¼ and ¾.
/// let pattern = Pattern::from_pairs(1, 2, &[(0, 0), (0, 1)])?;
/// let attention = EdgeAttention { pattern, dropout: None };
/// let tape = Tape::new();
/// let q = tape.var(tensor(&[1, 1, 1], vec![2.0_f64]));
/// let k = tape.var(tensor(&[2, 1, 1], vec![0.0, 3.0_f64.ln()]));
/// let v = tape.var(tensor(&[2, 1, 1], vec![0.0, 8.0]));
/// let y = attention.attend(ScaledProduct { scale: 0.5 }, EdgeOperands::new(q, k, v));
/// assert!((y.value()[[0, 0, 0]] - 6.0).abs() < 1e-12);
/// # Ok::<(), emmy::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct ScaledProduct<F> {
    /// s; 1/√K in Shi et al., IJCAI 2021, Eq. (3).
    pub scale: F,
}

impl<F: Real> EdgeScore<F> for ScaledProduct<F> {
    fn name(&self) -> &'static str {
        "scaled_product"
    }

    #[inline(always)]
    fn value(&self, k: F, q: F) -> F {
        self.scale * k * q
    }

    #[inline(always)]
    fn pull(&self, g: F, k: F, q: F) -> [F; 3] {
        let step = g * self.scale;
        [step * k * q, step * q, step * k]
    }

    fn symmetric(&self) -> bool {
        true
    }

    fn compose<'t>(&self, k: Var<'t, F>, q: Var<'t, F>) -> Var<'t, F> {
        (k * q).scale(self.scale)
    }

    /// Products along the edges ([`sddmm`]); nothing of size nnz · H · K is stored.
    fn compose_scores<'t>(
        &self,
        pattern: &Arc<Pattern>,
        [k, q]: [Var<'t, F>; 2],
        a: Option<Var<'t, F>>,
    ) -> Var<'t, F> {
        let q = match a {
            Some(a) => q * a,
            None => q,
        };
        sddmm(pattern, q, k).scale(self.scale)
    }
}

/// f(k, q) = LeakyReLU(k + q), the score of GAT and GATv2.
///
/// ```
/// use emmy::ops::attention::{EdgeAttention, EdgeOperands, LeakySum};
/// use emmy::{Tape, sparse::Pattern, tensor::tensor};
///
/// // GATv2 with a = 1: the sums of node 0 with itself and with node 1 are 0 and −5 ln 3, and the slope makes
/// // the latter −ln 3, so the weights are ¾ and ¼.
/// let pattern = Pattern::from_pairs(1, 2, &[(0, 0), (0, 1)])?;
/// let attention = EdgeAttention { pattern, dropout: None };
/// let tape = Tape::new();
/// let z = tape.var(tensor(&[2, 1, 1], vec![0.0, -5.0 * 3.0_f64.ln()]));
/// let (q, a) = (tape.var(tensor(&[1, 1, 1], vec![0.0])), tape.var(tensor(&[1, 1], vec![1.0])));
/// let alpha = attention.coefficients(LeakySum { slope: 0.2 }, EdgeOperands::gatv2(z, q, a));
/// assert!(alpha.value().iter().zip([0.75, 0.25]).all(|(a, e)| (a - e).abs() < 1e-12));
/// # Ok::<(), emmy::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct LeakySum<F> {
    /// The slope for negative sums; 0.2 in the papers.
    pub slope: F,
}

impl<F: Real> EdgeScore<F> for LeakySum<F> {
    fn name(&self) -> &'static str {
        "leaky_sum"
    }

    #[inline(always)]
    fn value(&self, k: F, q: F) -> F {
        let sum = k + q;
        if sum > F::zero() {
            sum
        } else {
            self.slope * sum
        }
    }

    /// The value of a LeakyReLU is its derivative times its argument.
    #[inline(always)]
    fn pull(&self, g: F, k: F, q: F) -> [F; 3] {
        let sum = k + q;
        // A choice between two constants, and one product: the compiler makes vectors of it.
        let slope = if sum > F::zero() {
            F::one()
        } else {
            self.slope
        };
        let step = g * slope;
        [step * sum, step, step]
    }

    fn symmetric(&self) -> bool {
        true
    }

    fn compose<'t>(&self, k: Var<'t, F>, q: Var<'t, F>) -> Var<'t, F> {
        (k + q).leaky_relu(self.slope)
    }
}
