//! Graph attention, version 1.

use super::heads::{self, AttentionOptions, HeadConv, HeadParts, WithHeads};
use super::{CommonOptions, ConvOptions, GraphContext, GraphConv, Heads, Site};
use crate::autodiff::Var;
use crate::error::Result;
use crate::init::{self, Rng};
use crate::lipschitz::{Bound, Lp, declare};
use crate::nn::{Input, Layer, Params, Pass};
use crate::ops::Sparse;
use crate::ops::attention::{EdgeAttention, EdgeOperands};
use crate::real::Real;
use crate::sparse::Pattern;
use crate::symmetry::Ports;
use crate::tensor::Tensor;
use std::sync::Arc;

/// y_i = Σ_j α_ij W x_j with α_i = softmax_j LeakyReLU(⟨a_s, W x_j⟩ + ⟨a_t, W x_i⟩): a mean over
/// the neighbours, with weights computed from the features of both nodes.
///
/// Veličković et al., "Graph Attention Networks", ICLR 2018, Eq. (1) to (6); their a is (a_t ‖ a_s). The
/// ranking of the neighbours is the same for every i ("static" attention); see
/// [`Gatv2Conv`](crate::nn::Gatv2Conv).
///
/// | letter | shape |
/// |---|---|
/// | x | `[n, in]`, dense or sparse |
/// | W | `[H·C, in]`, H heads of width C |
/// | a_s, a_t | `[H, C]` |
/// | α | `[edges, H]`, summing to 1 over the edges into a node |
/// | b | `[H·C]`, averaged heads `[C]` |
///
/// The edges are given as a pattern; its rows are the targets i. The layer adds no self-loops:
/// [`Graph::with_self_loops`](crate::Graph::with_self_loops) adds them once, where PyTorch
/// Geometric adds them in the layer. Initialisation, bias and residual are as in PyTorch
/// Geometric's `GATConv`.
///
/// The layer runs a fused kernel for the score [`LeakySum`](crate::ops::attention::LeakySum);
/// [`EdgeAttention::coefficients`] are α by operations on whole arrays; tests compare the two.
///
/// Two connected nodes with features 0 and 1, W = 1 and a_t = 0. The scores of the sources are 0 and a_s.
/// With a_s = ln 3 their weights are ¼ and ¾, and so each node gets ¾; with a_s = 0 it would get the mean ½.
///
/// ```
/// use emmy::graph::{Duplicates, SelfLoops};
/// use emmy::nn::{AttentionOptions, GatConv, Pass};
/// use emmy::{Graph, Tape, init, tensor::tensor};
///
/// let pair = Graph::new(2, &[(0, 1), (1, 0)], Duplicates::Reject, SelfLoops::Reject)?.with_self_loops();
/// let mut layer = GatConv::<f64>::new(1, 1, AttentionOptions::DEFAULT, &mut init::rng(0));
/// layer.weight = tensor(&[1, 1], vec![1.0]);
/// layer.att_source = tensor(&[1, 1], vec![3.0_f64.ln()]);
/// layer.att_target = tensor(&[1, 1], vec![0.0]);
/// let tape = Tape::new();
/// let x = tape.constant(tensor(&[2, 1], vec![0.0, 1.0]));
/// let (y, alpha) = layer.forward_with_attention(&Pass::eval(&tape, &layer), x, pair.pattern());
/// assert_eq!(y.shape(), [2, 1]);
/// assert!(y.value().iter().all(|y| (y - 0.75).abs() < 1e-12));
/// let expected = [0.25, 0.75, 0.25, 0.75];
/// assert!(alpha.values.value().iter().zip(expected).all(|(a, e)| (a - e).abs() < 1e-12));
/// # Ok::<(), emmy::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct GatConv<F: Real> {
    /// W: row h·C + c holds the incoming weights of neuron c of head h.
    pub weight: Tensor<F>,
    /// a_s, for the source j, which sends the message.
    pub att_source: Tensor<F>,
    /// a_t, for the target i, which receives the message.
    pub att_target: Tensor<F>,
    /// V of the residual x Vᵀ, `[output, in]`.
    pub residual: Option<Tensor<F>>,
    /// b, added after aggregation.
    pub bias: Option<Tensor<F>>,
    /// Heads, slope, dropout.
    pub options: AttentionOptions,
}
crate::module!(GatConv:
    weight = Weight as "lin.weight",
    att_source = Attention as "att_src" [_, 0, 1],
    att_target = Attention as "att_dst" [_, 0, 1],
    residual = Skip as "res.weight",
    bias = Bias,
);

impl<F: Real> GatConv<F> {
    /// A layer of `options.heads` heads of the given width; all weights Xavier-uniform, b = 0.
    pub fn new(input: usize, width: usize, options: AttentionOptions, rng: &mut Rng) -> Self {
        let heads = options.heads;
        Self {
            weight: init::xavier_uniform(&[heads * width, input], 1.0, rng),
            att_source: init::xavier_uniform(&[heads, width], 1.0, rng),
            att_target: init::xavier_uniform(&[heads, width], 1.0, rng),
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
        let heads = |attention: &EdgeAttention, x| (self.heads(pass, attention, x), ());
        heads::forward(self, pass, x.into(), edges, heads).0
    }

    /// The heads; under LipschitzNorm, which multiplies the scores.
    fn heads<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        attention: &EdgeAttention,
        x: EdgeOperands<Var<'t, F>>,
    ) -> Var<'t, F> {
        let (score, edges, z) = (self.options.score(), &attention.pattern, x.v);
        let Some(norm) = self.options.score_norm else {
            return attention.attend(score, x);
        };
        let t = Some(norm.of_targets(edges, z, self.vectors(pass)));
        let y = attention.attend(score, EdgeOperands { t, ..x });
        let gentle = attention.dropout.is_none() && self.options.slope.abs() <= 1.0;
        if !gentle {
            return y;
        }
        let constant = Bound::number(y.tape(), norm.constant_of_gat(edges, self.options.slope));
        declare(y, &[z], [(Lp::Two, constant)])
    }

    /// a_s and a_t.
    fn vectors<'t>(&self, pass: &Pass<'t, '_, F>) -> [Var<'t, F>; 2] {
        [&self.att_source, &self.att_target].map(|a| pass.param(a))
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
            let norm = self.options.score_norm;
            let t = norm.map(|norm| norm.of_targets(edges, x.v, self.vectors(pass)));
            heads::with_coefficients(&self.options, attention, EdgeOperands { t, ..x })
        })
    }
}

impl<F: Real> HeadConv<F> for GatConv<F> {
    fn options(&self) -> &AttentionOptions {
        &self.options
    }

    fn ports_on(&self, params: &Params<'_, F>, _: &Pattern) -> Option<Ports> {
        self.ports(params)
    }

    /// z = W x `[n, H, C]`, a_s and a_t.
    fn operands<'t>(&self, pass: &Pass<'t, '_, F>, x: &Input<'t, F>) -> EdgeOperands<Var<'t, F>> {
        let z = self.options.split(x.linear(pass.param(&self.weight)));
        let [a_s, a_t] = self.vectors(pass);
        EdgeOperands::gat(z, a_s, a_t)
    }

    fn parts(&self) -> HeadParts<'_, F> {
        HeadParts {
            weights: vec![&self.weight],
            biases: Vec::new(),
            attention: vec![&self.att_source, &self.att_target],
            residual: self.residual.as_ref(),
            bias: self.bias.as_ref(),
            linear_scores: true,
            score_norm: self.options.score_norm,
        }
    }
}

impl<F: Real> Layer<F> for GatConv<F> {
    fn ports(&self, params: &Params<'_, F>) -> Option<Ports> {
        Some(self.options.ports(params, self.parts()))
    }
}

impl ConvOptions for AttentionOptions {
    type Layer<F: Real> = GatConv<F>;

    fn build<F: Real>(&self, at: Site, rng: &mut Rng) -> GatConv<F> {
        GatConv::new(at.input, at.width, *self, rng)
    }

    fn validate(&self, _: Site) -> Result<()> {
        self.check()
    }

    fn weights(&self) -> usize {
        1 + usize::from(self.residual)
    }

    fn heads(&self) -> usize {
        self.heads
    }

    fn join(&self) -> Heads {
        self.join
    }

    fn common(&mut self) -> CommonOptions<'_> {
        CommonOptions {
            heads: Some((&mut self.heads, &mut self.join)),
            bias: Some(&mut self.bias),
            dropout: Some(&mut self.dropout),
            steps: None,
        }
    }
}

impl<F: Real> GraphConv<F> for GatConv<F> {
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
