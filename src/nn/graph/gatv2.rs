//! Graph attention, version 2.

use super::heads::{self, AttentionOptions, HeadConv, HeadParts, WithHeads, moves, sums_to_one};
use super::{CommonOptions, ConvOptions, GraphContext, GraphConv, Heads, Site};
use crate::autodiff::Var;
use crate::error::{Result, Rules};
use crate::init::{self, Rng};
use crate::nn::{Input, Layer, Linear, Params, Pass};
use crate::ops::Sparse;
use crate::ops::attention::{EdgeAttention, EdgeOperands};
use crate::real::Real;
use crate::sparse::Pattern;
use crate::symmetry::Ports;
use crate::tensor::Tensor;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// y_i = Σ_j α_ij W_s x_j with α_i = softmax_j ⟨a, LeakyReLU(W_s x_j + W_t x_i)⟩: a mean over the
/// neighbours, with weights computed from the features of both nodes.
///
/// Brody et al., "How Attentive are Graph Attention Networks?", ICLR 2022, Eq. (7): a stands outside the
/// nonlinearity, so the ranking of neighbours depends on i ("dynamic" attention). With shared weights, W_t =
/// W_s.
///
/// | letter | shape |
/// |---|---|
/// | x | `[n, in]`, dense or sparse |
/// | W_s, W_t | `[H·C, in]`, H heads of width C |
/// | a | `[H, C]` |
/// | α | `[edges, H]`, summing to 1 over the edges into a node |
/// | b | `[H·C]`, averaged heads `[C]` |
///
/// As in PyTorch Geometric's `GATv2Conv`, `options.bias` switches on three biases: those of the two
/// projections and one after aggregation. The edges are given as a pattern; its rows are the
/// targets i. The layer adds no self-loops.
///
/// Two connected nodes with features 0 and 1. With W_s = (1, −1), W_t = (−1, 1), slope 0 and both entries of
/// a equal to −c, the score is −c |x_j − x_i|: each node prefers itself, which no GAT can do. With c = ln 3
/// the weights are ¾ for itself and ¼ for the other.
///
/// ```
/// use emmy::graph::{Duplicates, SelfLoops};
/// use emmy::nn::{AttentionOptions, Gatv2Conv, Linear, Pass};
/// use emmy::{Graph, Tape, init, tensor::tensor};
///
/// let pair = Graph::new(2, &[(0, 1), (1, 0)], Duplicates::Reject, SelfLoops::Reject)?.with_self_loops();
/// let options = AttentionOptions { slope: 0.0, ..AttentionOptions::DEFAULT };
/// let mut layer = Gatv2Conv::<f64>::new(1, 2, false, options, &mut init::rng(0));
/// layer.source.weight = tensor(&[2, 1], vec![1.0, -1.0]);
/// layer.target = Some(Linear { weight: tensor(&[2, 1], vec![-1.0, 1.0]), bias: None });
/// layer.att = tensor(&[1, 2], vec![-3.0_f64.ln(); 2]);
/// let tape = Tape::new();
/// let x = tape.constant(tensor(&[2, 1], vec![0.0, 1.0]));
/// let (y, alpha) = layer.forward_with_attention(&Pass::eval(&tape, &layer), x, pair.pattern());
/// assert_eq!(y.shape(), [2, 2]);
/// let expected = [0.75, 0.25, 0.25, 0.75];
/// assert!(alpha.values.value().iter().zip(expected).all(|(a, e)| (a - e).abs() < 1e-12));
/// # Ok::<(), emmy::Error>(())
/// ```
///
/// # Conservation laws
/// The rows of W_s, W_t and the biases write a neuron, a weighs it, and the next layer reads it ("Are GATs
/// Out of Balance?", Theorem 6.3). With separate weights there is a law of the biases, G of b_s − G of b_t −
/// G of b = 0: if b_s adds a number to a neuron of every message, b_t can subtract it from the scores and b
/// from the output. It holds if every node has a neighbour and no coefficient is dropped.
#[derive(Debug, Clone)]
pub struct Gatv2Conv<F: Real> {
    /// W_s with its bias, for the source j, the node that sends; with shared weights, for both
    /// nodes.
    pub source: Linear<F>,
    /// W_t with its bias, for the target i, the node that receives; none with shared weights.
    pub target: Option<Linear<F>>,
    /// a.
    pub att: Tensor<F>,
    /// V of the residual x Vᵀ, `[output, in]`.
    pub residual: Option<Tensor<F>>,
    /// b, added after aggregation.
    pub bias: Option<Tensor<F>>,
    /// Heads, slope, dropout.
    pub options: AttentionOptions,
}
crate::module!(Gatv2Conv:
    source as "lin_l",
    target as "lin_r" else source,
    att = Attention as "att" [_, 0, 1],
    residual = Skip as "res.weight",
    bias = Bias,
);

impl<F: Real> Gatv2Conv<F> {
    /// A layer of `options.heads` heads of the given width; all weights Xavier-uniform, biases 0.
    pub fn new(
        input: usize,
        width: usize,
        shared: bool,
        options: AttentionOptions,
        rng: &mut Rng,
    ) -> Self {
        let heads = options.heads;
        Self {
            source: Linear::new(input, heads * width, options.bias, rng),
            target: (!shared).then(|| Linear::new(input, heads * width, options.bias, rng)),
            att: init::xavier_uniform(&[heads, width], 1.0, rng),
            residual: options.draw_residual(input, width, rng),
            bias: options.zero_bias(width),
            options,
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
        let heads = |attention: &EdgeAttention, x| (attention.attend(self.options.score(), x), ());
        heads::forward(self, pass, x.into(), edges, heads).0
    }

    /// The output, and the coefficients α before dropout as a sparse matrix with H values per entry.
    ///
    /// # Panics
    /// If the shapes do not fit.
    #[track_caller]
    pub fn forward_with_attention<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        x: impl Into<Input<'t, F>>,
        edges: &Arc<Pattern>,
    ) -> (Var<'t, F>, Sparse<'t, F>) {
        heads::forward(self, pass, x.into(), edges, |attention, x| {
            heads::with_coefficients(&self.options, attention, x)
        })
    }
}

impl<F: Real> HeadConv<F> for Gatv2Conv<F> {
    fn options(&self) -> &AttentionOptions {
        &self.options
    }

    /// The ports on a graph. If each row of α sums to one, a number that b_s adds to all messages is added to
    /// the output, and if b_t subtracts it again, the scores stay as they are.
    fn ports_on(&self, params: &Params<'_, F>, edges: &Pattern) -> Option<Ports> {
        let mut ports = self.ports(params)?;
        let target = self.target.as_ref().and_then(|map| map.bias.as_ref());
        if let (Some(source), Some(target)) = (&self.source.bias, target)
            && sums_to_one(self.options.dropout, edges)
        {
            let AttentionOptions { join, heads, .. } = self.options;
            let moved = |bias, sign| moves(params, bias, join, heads, sign);
            let both = moved(source, 1.0).into_iter().zip(moved(target, -1.0));
            ports.offsets.extend(both.map(|(a, b)| vec![a, b]));
        }
        Some(ports)
    }

    /// z_s = W_s x and z_t = W_t x, both `[n, H, C]`, with shared weights the same variable; and a.
    fn operands<'t>(&self, pass: &Pass<'t, '_, F>, x: &Input<'t, F>) -> EdgeOperands<Var<'t, F>> {
        let project = |map: &Linear<F>| self.options.split(map.forward(pass, x.clone()));
        let z_s = project(&self.source);
        let z_t = self.target.as_ref().map_or(z_s, project);
        EdgeOperands::gatv2(z_s, z_t, pass.param(&self.att))
    }

    fn parts(&self) -> HeadParts<'_, F> {
        let maps = || std::iter::once(&self.source).chain(&self.target);
        HeadParts {
            weights: maps().map(|map| &map.weight).collect(),
            biases: maps().filter_map(|map| map.bias.as_ref()).collect(),
            attention: vec![&self.att],
            residual: self.residual.as_ref(),
            bias: self.bias.as_ref(),
            linear_scores: false,
            score_norm: None,
        }
    }
}

impl<F: Real> Layer<F> for Gatv2Conv<F> {
    fn ports(&self, params: &Params<'_, F>) -> Option<Ports> {
        Some(self.options.ports(params, self.parts()))
    }
}

/// The options of [`Gatv2Conv`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Gatv2Options {
    /// Whether sources and targets share one weight.
    pub shared: bool,
    /// Heads, slope, dropout.
    pub attention: AttentionOptions,
}

impl ConvOptions for Gatv2Options {
    type Layer<F: Real> = Gatv2Conv<F>;

    fn build<F: Real>(&self, at: Site, rng: &mut Rng) -> Gatv2Conv<F> {
        Gatv2Conv::new(at.input, at.width, self.shared, self.attention, rng)
    }

    fn validate(&self, _: Site) -> Result<()> {
        self.attention.check()?;
        let none = self.attention.score_norm.is_none();
        let rule = "none: LipschitzNorm is defined for GAT and for dot products";
        Rules("network").hold(none, "score norm of GATv2", rule, "LipschitzNorm")
    }

    fn weights(&self) -> usize {
        let separate = usize::from(!self.shared);
        1 + separate + usize::from(self.attention.residual)
    }

    fn heads(&self) -> usize {
        self.attention.heads
    }

    fn join(&self) -> Heads {
        self.attention.join
    }

    fn common(&mut self) -> CommonOptions<'_> {
        self.attention.common()
    }
}

impl<F: Real> GraphConv<F> for Gatv2Conv<F> {
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
