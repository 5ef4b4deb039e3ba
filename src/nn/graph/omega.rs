//! A propagation that is learnt: how far a node moves towards its neighbours, or away from them.

use crate::autodiff::Var;
use crate::nn::Pass;
use crate::real::Real;
use crate::tensor::Tensor;
use serde::{Deserialize, Serialize};

/// ω of the propagation S_ω = I − Ω (I − S), with S = α the attention of a layer and Ω the diagonal of ω.
///
/// Eliasof, Ruthotto and Treister, "Improving Graph Neural Networks with Learnable Propagation Operators",
/// ICML 2023, the model ωGAT (first called "ωGNNs: Deep Graph Neural Networks Enhanced by Multiple
/// Propagation Operators"). A node is carried from its own z_i towards the mean of its neighbourhood, and ω
/// says how far, for every channel c of every head h:
///
/// y_ihc = (1 − ω_hc) z_ihc + ω_hc Σ_j α_ijh z_jhc,   z = W x (W_s x, b_s included, where there are two maps)
///
/// | ω | what S_ω does |
/// |---|---|
/// | 0 | nothing: the layer is the linear map W, to the bit |
/// | 0 < ω < 1 | it smooths less than S |
/// | 1 | S: the layer is the attention layer, to the bit; where ω starts |
/// | ω < 0, ω > 1 | it sharpens: weights of both signs, which no softmax has |
///
/// Rows of S sum to one, and so do those of S_ω, whatever ω is, without dropout of α. A node without
/// neighbours, which S sends to 0, goes to (1 − ω) z_i.
///
/// # What differs from the published layer
/// The paper's layer is σ(S_ω x Wᵀ): S_ω comes first. So its ω are channels of the layer's input, and in the
/// code that goes with the paper's first version the scores too are taken from the input, ⟨a_s, x_j⟩ + ⟨a_t,
/// x_i⟩. Here W comes first, as in every attention layer of this crate, and ω and scores speak of the layer's
/// output neurons. With one head and one ω per layer both orders give the same for the same α. That code starts
/// every ω at 1, has no bias and no dropout of α, puts self-loops into the graph, and trains between two
/// linear maps.
///
/// "Are GATs Out of Balance?" trains ωGAT in Figure 10, does not define it, and says that the same
/// conservation law holds. For Theorem 2.2 to hold word for word, `⟨W[j,:], G⟩ − ⟨a[j], G⟩ − ⟨W⁺[:,j], G⟩ =
/// 0` with W and a of one layer, the scores must be taken from W x; from x, a belongs with the neurons of the
/// layer before. So the figure's layer is taken to be the one here, with the scores of the paper's other
/// experiments: [`Gatv2Conv`](crate::nn::Gatv2Conv) with shared weights and one ω per channel.
/// [`GatConv`](crate::nn::GatConv) has the scores of the ω paper.
///
/// # Conservation laws
/// ω belongs to no neuron's scaling: scaling neuron j scales z_ij and Σ_j α_ij z_j alike, and ω_j multiplies
/// both. Every law of the attention layer stands. Only the law of the whole space of neurons (a linear
/// activation) needs neurons that are treated alike, so it goes with one ω per channel and stays with one per
/// layer. Nor is ω touched by an [`Initialization`](crate::init::Initialization): balanced initialisation
/// applies as it is, and the network starts as the attention network of the same weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Omega {
    /// One number for all channels of the layer, shape `[1]`.
    Layer,
    /// One number per channel, shape `[H, C]`.
    Channel,
}

impl Omega {
    /// The parameter of a layer of H heads of width C; ones, so that the layer starts as plain attention.
    pub(super) fn ones<F: Real>(self, heads: usize, width: usize) -> Tensor<F> {
        match self {
            Self::Layer => Tensor::ones(vec![1]),
            Self::Channel => Tensor::ones(vec![heads, width]),
        }
    }
}

/// S_ω z of S z and z, both `[n, H, C]`; without ω S z itself.
///
/// As (1 − ω) z + ω S z, not as z − ω (z − S z): a factor of 0 or 1 then leaves no trace of rounding.
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
