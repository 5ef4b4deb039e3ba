//! Learnable propagation: a parameter ω says how far a node moves towards its neighbours, or away from them.

use crate::autodiff::Var;
use crate::nn::Pass;
use crate::real::Real;
use crate::tensor::Tensor;
use serde::{Deserialize, Serialize};

/// ω of the propagation S_ω = I − Ω (I − S), where S = α is the attention of a layer and Ω =
/// diag(ω).
///
/// Eliasof, Ruthotto and Treister, "Improving Graph Neural Networks with Learnable Propagation Operators",
/// ICML 2023, the model ωGAT (first called "ωGNNs: Deep Graph Neural Networks Enhanced by Multiple
/// Propagation Operators"). The propagation moves a node from its own z_i towards the weighted mean
/// of its neighbourhood; ω sets how far, per channel c and head h:
///
/// y_ihc = (1 − ω_hc) z_ihc + ω_hc Σ_j α_ijh z_jhc,   z = W x (W_s x, b_s included, where there are two maps)
///
/// | ω | effect of S_ω |
/// |---|---|
/// | 0 | none: the layer is the linear map W, bit for bit |
/// | 0 < ω < 1 | it smooths less than S |
/// | 1 | the same as S: the layer is the attention layer, bit for bit; ω starts at 1 |
/// | ω < 0, ω > 1 | it sharpens: its weights have both signs, which those of a softmax never have |
///
/// Without dropout of α, the rows of S sum to one, and so do those of S_ω for every ω. A node
/// without neighbours is mapped to 0 by S, and to (1 − ω) z_i by S_ω.
///
/// # Differences from the published layer
/// The paper's layer is σ(S_ω x Wᵀ): S_ω comes first. So each ω belongs to a channel of the layer's input.
/// The code of the paper's first version also computes the scores from the input, ⟨a_s, x_j⟩ + ⟨a_t, x_i⟩.
/// Here W comes first, as in every attention layer of this crate, and ω and scores belong to the layer's
/// output neurons. With one head and one ω per layer, both orders give the same output for the same α. That
/// code starts every ω at 1, has no bias and no dropout of α, adds self-loops to the graph, and places its
/// layers between two linear maps.
///
/// "Are GATs Out of Balance?" trains ωGAT in Figure 10, does not define it, and says that the same
/// conservation law holds. For Theorem 2.2 to hold word for word, `⟨W[j,:], G⟩ − ⟨a[j], G⟩ − ⟨W⁺[:,j], G⟩ =
/// 0` with W and a of one layer, the scores must be computed from W x; with scores from x, a
/// belongs to the neurons of the layer before. So we take the figure's layer to be the one
/// described here, with the scores of the paper's other experiments:
/// [`Gatv2Conv`](crate::nn::Gatv2Conv) with shared weights and one ω per channel.
/// [`GatConv`](crate::nn::GatConv) has the scores of the ω paper.
///
/// # Conservation laws
/// ω takes no part in the scaling of neurons: scaling neuron j scales z_ij and Σ_j α_ij z_j by the
/// same factor, and ω_j multiplies both. So every law of the attention layer holds, with one
/// exception. The law of the whole space of neurons (with a linear activation) needs neurons that
/// are treated alike: it holds with one ω per layer, and not with one per channel. An
/// [`Initialization`](crate::init::Initialization) does not change ω: balanced initialisation
/// applies as it is, and the network starts as the attention network with the same weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Omega {
    /// One number for all channels of the layer, shape `[1]`.
    Layer,
    /// One number per channel, shape `[H, C]`.
    Channel,
}

impl Omega {
    /// The parameter of a layer of H heads of width C: ones, so that the layer starts as plain
    /// attention.
    pub(super) fn ones<F: Real>(self, heads: usize, width: usize) -> Tensor<F> {
        match self {
            Self::Layer => Tensor::ones(vec![1]),
            Self::Channel => Tensor::ones(vec![heads, width]),
        }
    }
}

/// S_ω z from S z and z, both `[n, H, C]`; without ω, S z itself.
///
/// Computed as (1 − ω) z + ω S z, not as z − ω (z − S z): the factors 0 and 1 then add no rounding
/// error.
#[track_caller]
pub(super) fn propagate<'t, F: Real>(
    pass: &Pass<'t, '_, F>,
    omega: Option<&Tensor<F>>,
    sz: Var<'t, F>,
    z: Var<'t, F>,
) -> Var<'t, F> {
    match omega {
        Some(omega) => {
            let omega = pass.param(omega);
            (-omega + F::one()) * z + omega * sz
        }
        None => sz,
    }
}
