//! The scores of edges: a function of two numbers, summed over the columns of both ends.

use crate::autodiff::Var;
use crate::real::Real;

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

    /// f by ordinary operations, entry by entry.
    fn compose<'t>(&self, k: Var<'t, F>, q: Var<'t, F>) -> Var<'t, F>;
}

/// f(k, q) = LeakyReLU(k + q), the score of GAT and GATv2.
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
        let step = if sum > F::zero() { g } else { g * self.slope };
        [step * sum, step, step]
    }

    fn compose<'t>(&self, k: Var<'t, F>, q: Var<'t, F>) -> Var<'t, F> {
        (k + q).leaky_relu(self.slope)
    }
}
