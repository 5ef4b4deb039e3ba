//! Score normalisers.

use crate::autodiff::Var;
use crate::linalg::Upper;
use crate::real::Real;
use std::fmt::Debug;

/// The changes of queries, keys and values that leave the factor t of a score normaliser as it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Invariance {
    /// Nothing is known.
    #[default]
    Nothing,
    /// t does not change if one orthogonal matrix rotates the queries and keys of a head, or if an orthogonal
    /// matrix rotates its values. This is true if t is computed from norms and products of rows.
    Rotations,
    /// As [`Rotations`](Self::Rotations); and if the queries, keys and values of a head are multiplied by λ,
    /// t is divided by λ², so that the scores do not change. This is true if t is one over a norm or a
    /// product of norms of degree 2.
    Similarities,
}

/// A factor t_i of the scores of each query, computed from queries, keys and values: α = softmax_j(t_i s_ij).
///
/// ```
/// use emmy::{Real, Var, init, nn::{AttentionConfig, Invariance, MultiHeadAttention, ScoreNormalizer}};
/// use std::sync::Arc;
///
/// /// t_i = 1 / (1 + ‖q_i‖): a query of any size gives bounded scores.
/// #[derive(Debug)]
/// struct Bounded;
///
/// impl<F: Real> ScoreNormalizer<F> for Bounded {
///     fn temperature<'t>(&self, q: Var<'t, F>, _: Var<'t, F>, _: Var<'t, F>) -> Var<'t, F> {
///         q.norm(&[-1], false).add_scalar(F::one()).powf(-F::one())
///     }
///
///     fn invariance(&self) -> Invariance {
///         Invariance::Rotations
///     }
/// }
///
/// let mut attention = MultiHeadAttention::<f32>::new(AttentionConfig::new(8, 2), &mut init::rng(0))?;
/// attention.normalizer = Some(Arc::new(Bounded));
/// # Ok::<(), emmy::Error>(())
/// ```
pub trait ScoreNormalizer<F: Real>: Debug + Send + Sync {
    /// t `[.., n, H]` from q `[.., n, H, d]`, k `[.., m, G, d]` and v `[.., m, G, e]`.
    fn temperature<'t>(&self, q: Var<'t, F>, k: Var<'t, F>, v: Var<'t, F>) -> Var<'t, F>;

    /// A bound of the Lipschitz constant of (q, k, v) ↦ y of one head with scores q · k / √d, for n keys and
    /// m queries without a mask, in the Frobenius norm; `None` if none is proven.
    fn constant(&self, n: usize, m: usize) -> Option<Upper> {
        let _ = (n, m);
        None
    }

    /// The changes that leave t as it is; conservation laws of the layer follow from them.
    fn invariance(&self) -> Invariance {
        Invariance::Nothing
    }
}
