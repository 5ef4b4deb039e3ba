//! What the attention layers share: options, how heads are split and joined, and the forward function of GAT
//! and GATv2.

use super::options::{ConvOptions, Heads};
use crate::autodiff::Var;
use crate::error::{Result, Rules};
use crate::init::{self, Rng};
use crate::nn::linear::add_bias;
use crate::nn::log::kind_of;
use crate::nn::{Dropout, Input, Layer, LipschitzNorm, Params, Pass};
use crate::ops::Sparse;
use crate::ops::attention::{EdgeAttention, EdgeOperands, LeakySum};
use crate::real::Real;
use crate::sparse::Pattern;
use crate::symmetry::{Law, Ports, Symmetry, Term};
use crate::tensor::Tensor;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The options of [`GatConv`](crate::nn::GatConv) and [`Gatv2Conv`](crate::nn::Gatv2Conv); the
/// defaults are those of PyTorch Geometric's layers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct AttentionOptions {
    /// H, the number of heads.
    pub heads: usize,
    /// How the heads are joined.
    pub join: Heads,
    /// Whether there are biases.
    pub bias: bool,
    /// Whether x Vᵀ is added to the output; V is a further weight, without bias.
    pub residual: bool,
    /// The slope of the LeakyReLU in the score for negative arguments.
    pub slope: f64,
    /// The probability of dropping an attention coefficient in training.
    pub dropout: f64,
    /// LipschitzNorm of the scores; GAT has it, GATv2 does not.
    #[serde(default)]
    pub score_norm: Option<LipschitzNorm>,
}

impl Default for AttentionOptions {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl AttentionOptions {
    /// One head with bias, slope 0.2, no dropout.
    pub const DEFAULT: Self = Self {
        heads: 1,
        join: Heads::Concatenate,
        bias: true,
        residual: false,
        slope: 0.2,
        dropout: 0.0,
        score_norm: None,
    };

    /// The rules of the options of GAT and of GATv2.
    pub(super) fn check(&self) -> Result<()> {
        self.check_heads()?;
        Rules("network").finite("slope", self.slope)?;
        self.score_norm.map_or(Ok(()), |norm| norm.validate())
    }

    /// The residual weight, if there is one.
    pub(super) fn draw_residual<F: Real>(
        &self,
        input: usize,
        width: usize,
        rng: &mut Rng,
    ) -> Option<Tensor<F>> {
        let shape = [self.output(width), input];
        (self.residual).then(|| init::xavier_uniform(&shape, 1.0, rng))
    }

    /// The bias after aggregation, if there is one.
    pub(super) fn zero_bias<F: Real>(&self, width: usize) -> Option<Tensor<F>> {
        self.bias.then(|| init::zeros(&[self.output(width)]))
    }

    /// The score f(k, q) = LeakyReLU(k + q).
    pub(super) fn score<F: Real>(&self) -> LeakySum<F> {
        LeakySum {
            slope: F::of(self.slope),
        }
    }

    /// The layer's output from the heads y = α z, `[n, H, C]`: they are joined, residual and bias are added.
    #[track_caller]
    pub(super) fn finish<'t, F: Real>(
        &self,
        pass: &Pass<'t, '_, F>,
        parts: &HeadParts<'_, F>,
        y: Var<'t, F>,
        x: &Input<'t, F>,
    ) -> Var<'t, F> {
        let y = self.joined(y);
        let y = match parts.residual {
            Some(v) => y + x.linear(pass.param(v)),
            None => y,
        };
        add_bias(pass, y, parts.bias)
    }

    /// The ports of a layer whose heads are computed with `weights` and `biases`, scored with
    /// `attention`, and completed by [`finish`](Self::finish).
    ///
    /// A score depends on a neuron of a head only through products of an attention entry and a
    /// homogeneous function of this neuron. So it does not change if the neuron is scaled up and
    /// its attention entries are scaled down. Averaged heads share the neuron: it is scaled in all heads.
    ///
    /// LipschitzNorm divides the scores of a head by a norm of all its neurons times one of its attention
    /// entries, so that neither size matters to α: the neurons of a head can be rescaled together, and its
    /// attention entries on their own.
    pub(super) fn ports<F: Real>(&self, params: &Params<'_, F>, parts: HeadParts<'_, F>) -> Ports {
        let (groups, heads) = self.shared();
        let width = parts.attention[0].len() / groups;
        let per_head = |p: &&Tensor<F>| params.grouped(p, groups, width);
        let divided = parts.score_norm.is_some();
        let joined = parts.residual.into_iter().chain(parts.bias);
        let incoming = (parts.weights.iter().chain(&parts.biases).map(per_head))
            .chain(joined.map(|p| params.rows(p)))
            .map(Term::incoming);
        let scoring = parts.attention.iter().map(per_head);
        let attention = scoring.filter(|_| !divided).map(Term::attention);
        let sizes = || {
            let of_heads = |p: &&Tensor<F>| params.grouped(p, 1, self.heads);
            let terms = parts.attention.iter().map(of_heads).map(Term::incoming);
            let name = "size of the attention vectors";
            Law::new(name, 0, Symmetry::Rescaling, terms.collect())
        };
        let read = parts.weights.iter().copied().chain(parts.residual);
        Ports {
            writers: incoming.chain(attention).collect(),
            heads,
            // The products with the attention vectors stand inside the scores.
            mixes: !divided && parts.linear_scores,
            together: if divided { width / heads } else { 1 },
            inside: divided.then(sizes).into_iter().collect(),
            // A temperature that is computed from a stream breaks the laws of this stream: it has no
            // passage here.
            ..Ports::writes([]).reads(read.map(|w| params.columns(w)))
        }
    }
}

/// What all layers with attention do with their heads.
pub(super) trait WithHeads: ConvOptions {
    /// The probability of dropping an attention coefficient.
    fn dropout(&self) -> f64;

    /// The rules of heads and dropout.
    fn check_heads(&self) -> Result<()> {
        let rules = Rules("network");
        rules.sizes(&[("heads", self.heads())])?;
        rules.probability("attention dropout", self.dropout())
    }

    /// The attention of one pass. With dropout, this draws the seed of the next mask.
    fn edges<F: Real>(&self, pass: &Pass<'_, '_, F>, pattern: &Arc<Pattern>) -> EdgeAttention {
        let p = self.dropout();
        EdgeAttention {
            pattern: Arc::clone(pattern),
            dropout: Dropout { p }.seed(pass).map(|seed| (p, seed)),
        }
    }

    /// `[n, H·C]` seen as `[n, H, C]`.
    fn split<'t, F: Real>(&self, z: Var<'t, F>) -> Var<'t, F> {
        let (shape, heads) = (z.shape(), self.heads());
        z.reshape(&[shape[0], heads, shape[1] / heads.max(1)])
    }

    /// `[n, H, C]`, joined: `[n, H·C]` or `[n, C]`.
    fn joined<'t, F: Real>(&self, y: Var<'t, F>) -> Var<'t, F> {
        let shape = y.shape();
        match self.join() {
            Heads::Average if self.heads() > 1 => y.mean(&[1], false),
            _ => y.reshape(&[shape[0], shape[1] * shape[2]]),
        }
    }

    /// How many heads share each neuron of the output, and how many have neurons of their own.
    fn shared(&self) -> (usize, usize) {
        match self.join() {
            Heads::Concatenate => (1, self.heads()),
            Heads::Average => (self.heads(), 1),
        }
    }
}

impl WithHeads for AttentionOptions {
    fn dropout(&self) -> f64 {
        self.dropout
    }
}

/// A layer with the attention of GAT or GATv2: what the two say of themselves for [`forward`].
pub(super) trait HeadConv<F: Real>: Layer<F> {
    fn options(&self) -> &AttentionOptions;

    fn parts(&self) -> HeadParts<'_, F>;

    /// The ports on a graph.
    fn ports_on(&self, params: &Params<'_, F>, edges: &Pattern) -> Option<Ports>;

    /// The operands of the attention; v is z.
    fn operands<'t>(&self, pass: &Pass<'t, '_, F>, x: &Input<'t, F>) -> EdgeOperands<Var<'t, F>>;
}

/// The forward function of GAT and GATv2: the layer's output, and what `heads` returns with the heads.
#[track_caller]
pub(super) fn forward<'t, F: Real, R>(
    layer: &impl HeadConv<F>,
    pass: &Pass<'t, '_, F>,
    x: Input<'t, F>,
    edges: &Arc<Pattern>,
    heads: impl FnOnce(&EdgeAttention, EdgeOperands<Var<'t, F>>) -> (Var<'t, F>, R),
) -> (Var<'t, F>, R) {
    let (name, parts) = (kind_of(layer), layer.parts());
    x.check_nodes(name, edges.cols());
    x.check_features(name, parts.weights[0].shape()[1]);
    let ports = |params: &Params<'_, F>| layer.ports_on(params, edges);
    pass.call_with(layer, &[x.var()], ports, || {
        let attention = layer.options().edges(pass, edges);
        let operands = layer.operands(pass, &x);
        let (y, more) = heads(&attention, operands);
        let y = layer.options().finish(pass, &parts, y, &x);
        (y, more)
    })
}

/// The heads from their coefficients α, and α as a sparse matrix.
pub(super) fn with_coefficients<'t, F: Real>(
    options: &AttentionOptions,
    edges: &EdgeAttention,
    x: EdgeOperands<Var<'t, F>>,
) -> (Var<'t, F>, Sparse<'t, F>) {
    let alpha = edges.coefficients(options.score(), x);
    let y = edges.combine(alpha, x.v, None);
    (y, Sparse::new(&edges.pattern, alpha))
}

/// Whether each row of α sums to one: every node has a neighbour, and no coefficient is dropped.
pub(super) fn sums_to_one(dropout: f64, edges: &Pattern) -> bool {
    dropout == 0.0 && edges.has_no_empty_row()
}

/// Entries of a bias of H heads that add ± t to each output neuron if they move by w t, one term per change:
/// the whole bias, or for averaged heads that of each head, with w = ± H.
pub(super) fn moves<F: Real>(
    params: &Params<'_, F>,
    bias: &Tensor<F>,
    join: Heads,
    heads: usize,
    sign: f64,
) -> Vec<Term> {
    let all = params.rows(bias);
    match join {
        Heads::Concatenate => vec![Term::incoming(all).times(sign)],
        Heads::Average => {
            let width = all.neurons() / heads.max(1);
            let of_head = |h| all.narrow(h * width..(h + 1) * width);
            let share = sign * heads as f64;
            (0..heads)
                .map(|h| Term::incoming(of_head(h)).times(share))
                .collect()
        }
    }
}

/// The parameters of an attention layer by their role.
pub(super) struct HeadParts<'a, F: Real> {
    pub weights: Vec<&'a Tensor<F>>,
    pub biases: Vec<&'a Tensor<F>>,
    pub attention: Vec<&'a Tensor<F>>,
    pub residual: Option<&'a Tensor<F>>,
    pub bias: Option<&'a Tensor<F>>,
    /// Whether scores depend on the neurons only through products with attention vectors.
    pub linear_scores: bool,
    /// The norm by which the scores are divided.
    pub score_norm: Option<LipschitzNorm>,
}
