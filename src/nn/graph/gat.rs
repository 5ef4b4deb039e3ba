//! Graph attention, version 1.

use super::heads::{AttentionOptions, HeadParts, Heads, aggregate};
use super::{ConvOptions, GraphContext, GraphConv, Site};
use crate::autodiff::Var;
use crate::error::Result;
use crate::init::{self, Rng};
use crate::lipschitz::{Bound, Lp, declare};
use crate::nn::{Input, Layer, Params, Pass};
use crate::ops::Sparse;
use crate::ops::attention::EdgeAttention;
use crate::ops::sparse::{gather_columns, gather_rows, segment_softmax};
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
/// | ω | `[1]` or `[H, C]`, if configured |
/// | b | `[H·C]`, averaged heads `[C]` |
///
/// The edges are given as a pattern; its rows are the targets i. The layer adds no self-loops:
/// [`Graph::with_self_loops`](crate::Graph::with_self_loops) adds them once, where PyTorch
/// Geometric adds them in the layer. Initialisation, bias and residual are as in PyTorch
/// Geometric's `GATConv`.
///
/// The layer runs a fused kernel. [`EdgeAttention::gat_coefficients`] is the formula of α in four lines of
/// operations on whole arrays, to read and to look at α; tests compare the two.
#[derive(Debug, Clone)]
pub struct GatConv<F: Real> {
    /// W: row h·C + c holds the incoming weights of neuron c of head h.
    pub weight: Tensor<F>,
    /// a_s, for the source j, which sends the message.
    pub att_source: Tensor<F>,
    /// a_t, for the target i, which receives the message.
    pub att_target: Tensor<F>,
    /// ω of S_ω, which then replaces α: see [`Omega`](crate::nn::Omega).
    pub omega: Option<Tensor<F>>,
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
    omega = Gain,
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
            omega: options.unit_omega(width),
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
        self.attend(pass, x.into(), edges, None)
    }

    /// The output with scores t_ih e_ijh in place of e_ijh. t `[n, H]` holds one number per target
    /// and head: the factor by which a normaliser multiplies the scores.
    ///
    /// # Panics
    /// If the shapes do not fit.
    #[track_caller]
    pub fn forward_with_temperature<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        x: impl Into<Input<'t, F>>,
        edges: &Arc<Pattern>,
        t: Var<'t, F>,
    ) -> Var<'t, F> {
        let (found, expected) = (t.shape(), [edges.rows(), self.options.heads]);
        assert!(
            found == expected,
            "GatConv: t has shape {found:?}, it must be [nodes, heads], {expected:?}"
        );
        self.attend(pass, x.into(), edges, Some(t))
    }

    #[track_caller]
    fn attend<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        x: Input<'t, F>,
        edges: &Arc<Pattern>,
        t: Option<Var<'t, F>>,
    ) -> Var<'t, F> {
        x.check_nodes("GatConv", edges.cols());
        x.check_features("GatConv", self.weight.shape()[1]);
        let inputs: Vec<_> = std::iter::once(x.var()).chain(t).collect();
        pass.call(self, &inputs, || {
            let attention = self.options.edges(pass, edges);
            let [z, a_s, a_t] = self.project(pass, &x);
            let y = match self.options.score_norm {
                None => attention.gat(z, a_s, a_t, t),
                Some(_) => self.normalized(&attention, [z, a_s, a_t], t).0,
            };
            self.options.finish(pass, &self.parts(), (y, z), &x)
        })
    }

    /// The heads and the coefficients under LipschitzNorm, times a further temperature if there is one. The
    /// computation is fused, except with the divisors of the published code.
    fn normalized<'t>(
        &self,
        attention: &EdgeAttention<F>,
        [z, a_s, a_t]: [Var<'t, F>; 3],
        t: Option<Var<'t, F>>,
    ) -> (Var<'t, F>, Option<Var<'t, F>>) {
        let norm = self.options.score_norm.expect("the caller saw it");
        let edges = &attention.pattern;
        if norm.published {
            let factors = norm.of_edges(edges, z, [a_s, a_t]);
            let score = |a: Var<'t, F>| (z * a).sum(&[2], false);
            let scores = gather_columns(edges, score(a_s)) + gather_rows(edges, score(a_t));
            let mut scores = scores.leaky_relu(attention.slope) * factors;
            if let Some(t) = t {
                scores = scores * gather_rows(edges, t);
            }
            let alpha = segment_softmax(edges, scores);
            return (aggregate(attention, alpha, z).0, Some(alpha));
        }
        let own = norm.of_targets(edges, z, [a_s, a_t]);
        let y = attention.gat(z, a_s, a_t, Some(t.map_or(own, |t| own * t)));
        let alone = t.is_none() && attention.dropout.is_none();
        let gentle = self.options.slope.abs() <= 1.0;
        let constant = norm.constant_of_gat(edges).filter(|_| alone && gentle);
        let y = match constant {
            Some(c) => declare(y, &[z], [(Lp::Two, Bound::number(y.tape(), c))]),
            None => y,
        };
        (y, None)
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
        let x = x.into();
        x.check_nodes("GatConv", edges.cols());
        x.check_features("GatConv", self.weight.shape()[1]);
        pass.call(self, &[x.var()], || {
            let attention = self.options.edges(pass, edges);
            let [z, a_s, a_t] = self.project(pass, &x);
            let t = self.options.score_norm.map(|norm| {
                assert!(
                    !norm.published,
                    "GatConv: coefficients of the published LipschitzNorm"
                );
                norm.of_targets(edges, z, [a_s, a_t])
            });
            let alpha = attention.gat_coefficients(z, a_s, a_t, t);
            let (y, alpha) = aggregate(&attention, alpha, z);
            (self.options.finish(pass, &self.parts(), (y, z), &x), alpha)
        })
    }

    /// z = W x `[n, H, C]`, a_s and a_t.
    fn project<'t>(&self, pass: &Pass<'t, '_, F>, x: &Input<'t, F>) -> [Var<'t, F>; 3] {
        let z = self.options.split(x.linear(pass.param(&self.weight)));
        [
            z,
            pass.param(&self.att_source),
            pass.param(&self.att_target),
        ]
    }

    fn parts(&self) -> HeadParts<'_, F> {
        HeadParts {
            weights: vec![&self.weight],
            biases: Vec::new(),
            attention: vec![&self.att_source, &self.att_target],
            omega: self.omega.as_ref(),
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

    fn set_heads(&mut self, heads: usize, join: Heads) {
        (self.heads, self.join) = (heads, join);
    }

    fn set_bias(&mut self, bias: bool) {
        self.bias = bias;
    }

    fn set_dropout(&mut self, p: f64) {
        self.dropout = p;
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
