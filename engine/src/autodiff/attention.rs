//! The options of attention between queries and keys, which its node on the tape carries.

use crate::kernels::attention::Mask;

/// y_i = Σ_j drop(α)_ij v_j with α = softmax_j(c t_i (q_i·k_j + β_j)) over the keys that the mask allows, for
/// each head.
///
/// Vaswani et al., "Attention Is All You Need", NeurIPS 2017, Eq. (1), has β = 0, t = 1, c = 1/√d. The same
/// operation computes L2 attention (Kim et al., ICML 2021): −‖q_i − k_j‖²/√d differs from 2 (q_i·k_j −
/// ½‖k_j‖²)/√d by a number that is the same for all keys, which the softmax does not see; so β_j = −½‖k_j‖²
/// and c = 2/√d. Score normalisers are a t of their own.
///
/// | letter | shape | meaning |
/// |---|---|---|
/// | q | `[.., n, H, d]` | queries |
/// | k | `[.., m, G, d]` | keys; H/G heads share each of the G groups |
/// | v | `[.., m, G, e]` | values |
/// | β | `[.., m, G]` | a number added to every product with a key; optional |
/// | t | `[.., n, H]` | inverse temperature of a query, any real number; optional |
/// | y | `[.., n, H, e]` | output; zeros for a query that may attend to no key |
///
/// The axes before the last three number the items of a batch. Heads are read where they lie, without a copy.
/// The fused kernel works tile by tile and stores nothing of size n × m; under a set of edges the operation
/// is composed of those over edges, and stores one number per edge and head.
#[derive(Debug, Clone)]
pub struct DenseAttention {
    /// c, a factor of all scores.
    pub scale: f64,
    /// Which keys a query may attend to.
    pub mask: Mask,
    /// Dropout of the coefficients: probability and seed.
    pub dropout: Option<(f64, u64)>,
}
