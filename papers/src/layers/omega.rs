//! Learnable propagation: a parameter ω says how far a node moves towards its neighbours, or away from them.

use super::{edge_attention, finished, heads_of};
use emmy::init::Rng;
use emmy::nn::{
    Conv, ConvOptions, Gatv2Conv, Gatv2Options, GraphContext, GraphConv, GraphNetConfig, Heads,
    Input, Layer, Linear, Params, Pass, Site,
};
use emmy::ops::attention::{EdgeOperands, LeakySum};
use emmy::sparse::Pattern;
use emmy::symmetry::Ports;
use emmy::{Error, Real, Result, Tensor, Var};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// ω of the propagation S_ω = I − Ω (I − S), where S = α is the attention of a layer and Ω =
/// diag(ω).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Omega {
    /// One number for all channels of the layer, shape `[1]`.
    Layer,
    /// One number per channel, shape `[H, C]`.
    Channel,
}

impl Omega {
    /// The same network with ω in all its layers, which are GATv2.
    ///
    /// # Errors
    /// If they are another kind.
    pub fn of(self, config: GraphNetConfig) -> Result<GraphNetConfig> {
        let with = |conv| match conv {
            Conv::Gatv2(gat) => Ok(super::conv(OmegaOptions { gat, omega: self })),
            other => Err(Error::invalid(
                "layers with ω",
                "GATv2",
                format!("{other:?}"),
            )),
        };
        Ok(GraphNetConfig {
            conv: with(config.conv)?,
            last: with(config.last)?,
            ..config
        })
    }
}

/// GATv2 whose output is S_ω z in place of S z: y_ihc = (1 − ω_hc) z_ihc + ω_hc Σ_j α_ijh z_jhc.
///
/// Eliasof, Ruthotto and Treister, "Improving Graph Neural Networks with Learnable Propagation Operators",
/// ICML 2023, the model ωGAT (first called "ωGNNs: Deep Graph Neural Networks Enhanced by Multiple
/// Propagation Operators"). The propagation moves a node from its own z_i towards the weighted mean
/// of its neighbourhood; ω sets how far, per channel c and head h; z = W_s x + b_s and α are those of
/// [`Gatv2Conv`].
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
/// Here W comes first, as in every attention layer of `emmy`, and ω and scores belong to the layer's
/// output neurons. With one head and one ω per layer, both orders give the same output for the same α. That
/// code starts every ω at 1, has no bias and no dropout of α, adds self-loops to the graph, and places its
/// layers between two linear maps.
///
/// "Are GATs Out of Balance?" trains ωGAT in Figure 10, does not define it, and says that the same
/// conservation law holds. For Theorem 2.2 to hold word for word, `⟨W[j,:], G⟩ − ⟨a[j], G⟩ − ⟨W⁺[:,j], G⟩ =
/// 0` with W and a of one layer, the scores must be computed from W x; with scores from x, a
/// belongs to the neurons of the layer before. So we take the figure's layer to be the one
/// described here, with the scores of the paper's other experiments: GATv2 with shared weights and one ω per
/// channel.
///
/// # Conservation laws
/// ω takes no part in the scaling of neurons: scaling neuron j scales z_ij and Σ_j α_ij z_j by the
/// same factor, and ω_j multiplies both. So every law of neurons of GATv2 holds. The law of the biases of
/// GATv2 with separate weights does not: where b_s moves the output, it moves its own part and that of the
/// mean. An [`Initialization`](emmy::init::Initialization) does not change ω: balanced initialisation
/// applies as it is, and the network starts as the attention network with the same weights.
#[derive(Debug, Clone)]
pub struct OmegaConv<F: Real> {
    /// The attention: W_s, W_t, a, and what is added after the heads are joined.
    pub gat: Gatv2Conv<F>,
    /// ω.
    pub omega: Tensor<F>,
}
emmy::module!(OmegaConv: gat as "*", omega = Gain);

impl<F: Real> OmegaConv<F> {
    /// A layer that starts as this attention: every ω is 1.
    pub fn new(gat: Gatv2Conv<F>, omega: Omega) -> Self {
        let shape = match omega {
            Omega::Layer => vec![1],
            Omega::Channel => gat.att.shape().to_vec(),
        };
        Self {
            gat,
            omega: Tensor::ones(shape),
        }
    }

    /// The output `[n, H·C]`, or `[n, C]` with averaged heads.
    ///
    /// # Panics
    /// If the shapes do not fit.
    #[track_caller]
    pub fn forward<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        x: impl Into<Input<'t, F>>,
        edges: &Arc<Pattern>,
    ) -> Var<'t, F> {
        let x = x.into();
        pass.call(self, &[x.var()], || self.run(pass, &x, edges))
    }

    fn run<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        x: &Input<'t, F>,
        edges: &Arc<Pattern>,
    ) -> Var<'t, F> {
        let Gatv2Conv { options, .. } = &self.gat;
        let attention = edge_attention(pass, options.dropout, edges);
        let split = |map: &Linear<F>| heads_of(map.forward(pass, x.clone()), options.heads);
        let z = split(&self.gat.source);
        let target = self.gat.target.as_ref().map_or(z, split);
        let score = LeakySum {
            slope: F::of(options.slope),
        };
        let a = pass.param(&self.gat.att);
        let sz = attention.attend(score, EdgeOperands::gatv2(z, target, a));
        // Not z − ω (z − S z): the factors 0 and 1 then add no rounding error.
        let omega = pass.param(&self.omega);
        let y = (-omega + F::one()) * z + omega * sz;
        let rest = (self.gat.residual.as_ref(), self.gat.bias.as_ref());
        finished(pass, options, y, rest, x)
    }
}

impl<F: Real> Layer<F> for OmegaConv<F> {
    /// Those of the attention.
    fn ports(&self, params: &Params<'_, F>) -> Option<Ports> {
        self.gat.ports(params)
    }
}

impl<F: Real> GraphConv<F> for OmegaConv<F> {
    #[track_caller]
    fn on<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        x: Input<'t, F>,
        around: GraphContext<'_, 't, F>,
    ) -> Var<'t, F> {
        self.forward(pass, x, around.neighbours.pattern())
    }
}

/// The options of [`OmegaConv`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OmegaOptions {
    /// Those of the attention.
    pub gat: Gatv2Options,
    /// Whether there is one ω per layer or per channel.
    pub omega: Omega,
}

impl ConvOptions for OmegaOptions {
    type Layer<F: Real> = OmegaConv<F>;

    fn build<F: Real>(&self, at: Site, rng: &mut Rng) -> OmegaConv<F> {
        OmegaConv::new(self.gat.build(at, rng), self.omega)
    }

    fn validate(&self, at: Site) -> Result<()> {
        self.gat.validate(at)
    }

    fn heads(&self) -> usize {
        self.gat.heads()
    }

    fn join(&self) -> Heads {
        self.gat.join()
    }

    fn weights(&self) -> usize {
        self.gat.weights()
    }
}
