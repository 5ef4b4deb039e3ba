//! Graph attention, version 2.

use super::heads::{AttentionOptions, HeadParts, aggregate};
use super::{Input, Linear, Pass, Ports, Slots};
use crate::autodiff::Var;
use crate::init::{self, Rng};
use crate::ops::Sparse;
use crate::real::Real;
use crate::sparse::Pattern;
use crate::tensor::Tensor;
use std::sync::Arc;

/// y_i = Σ_j α_ij W_s x_j with α_i = softmax_j ⟨a, LeakyReLU(W_s x_j + W_t x_i)⟩: each node weighs its neighbours by what they are to it.
///
/// Brody et al., "How Attentive are Graph Attention Networks?", ICLR 2022, Eq. (7): with a outside the nonlinearity the ranking of
/// neighbours depends on i ("dynamic" attention). With shared weights W_t = W_s.
///
/// | letter | shape |
/// |---|---|
/// | x | `[n, in]`, dense or sparse |
/// | W_s, W_t | `[H·C, in]`, H heads of width C |
/// | a | `[H, C]` |
/// | α | `[edges, H]`, summing to 1 over the edges into a node |
/// | ω | `[1]` or `[H, C]`, if asked for |
/// | b | `[H·C]`, averaged heads `[C]` |
///
/// As in PyTorch Geometric's `GATv2Conv`, `options.bias` stands for three biases: those of the two projections and one after
/// aggregation. The edges are given as a pattern, rows are targets i; self-loops are those it holds.
#[derive(Debug, Clone)]
pub struct Gatv2Conv<F: Real> {
    /// W_s with its bias, for the node that sends; with shared weights for both.
    pub source: Linear<F>,
    /// W_t with its bias, for the node that receives; none with shared weights.
    pub target: Option<Linear<F>>,
    /// a.
    pub att: Tensor<F>,
    /// ω of S_ω, which then takes the place of α: see [`Omega`](super::Omega).
    pub omega: Option<Tensor<F>>,
    /// V of the residual x Vᵀ, `[output, in]`.
    pub residual: Option<Tensor<F>>,
    /// b, added after aggregation.
    pub bias: Option<Tensor<F>>,
    /// Heads, slope, dropout.
    pub options: AttentionOptions,
}
crate::module!(Gatv2Conv: source, target, att, omega, residual, bias);

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
        pass: &Pass<'t, F>,
        x: impl Into<Input<'t, F>>,
        edges: &Arc<Pattern>,
    ) -> Var<'t, F> {
        let (x, attention) = (x.into(), self.options.edges(pass, edges));
        let (z_s, z_t) = self.project(pass, &x);
        let y = attention.gatv2(z_s, z_t, pass.param(&self.att), None);
        self.options.finish(pass, &self.parts(), (y, z_s), &x)
    }

    /// The output, and the coefficients α before dropout as a sparse matrix with H values an entry.
    ///
    /// # Panics
    /// If the shapes do not fit.
    #[track_caller]
    pub fn forward_with_attention<'t>(
        &self,
        pass: &Pass<'t, F>,
        x: impl Into<Input<'t, F>>,
        edges: &Arc<Pattern>,
    ) -> (Var<'t, F>, Sparse<'t, F>) {
        let (x, attention) = (x.into(), self.options.edges(pass, edges));
        let (z_s, z_t) = self.project(pass, &x);
        let alpha = attention.gatv2_coefficients(z_s, z_t, pass.param(&self.att), None);
        let (y, alpha) = aggregate(&attention, alpha, z_s);
        (
            self.options.finish(pass, &self.parts(), (y, z_s), &x),
            alpha,
        )
    }

    /// z_s = W_s x and z_t = W_t x, both `[n, H, C]`; with shared weights the same variable.
    fn project<'t>(&self, pass: &Pass<'t, F>, x: &Input<'t, F>) -> (Var<'t, F>, Var<'t, F>) {
        let project = |map: &Linear<F>| self.options.split(map.forward(pass, x.clone()));
        let z_s = project(&self.source);
        (z_s, self.target.as_ref().map_or(z_s, project))
    }

    /// Its part in conservation laws.
    pub fn ports(&self, slots: &Slots<'_, F>) -> Ports {
        self.options.ports(slots, self.parts())
    }

    fn parts(&self) -> HeadParts<'_, F> {
        let maps = || std::iter::once(&self.source).chain(&self.target);
        HeadParts {
            weights: maps().map(|map| &map.weight).collect(),
            biases: maps().filter_map(|map| map.bias.as_ref()).collect(),
            attention: vec![&self.att],
            omega: self.omega.as_ref(),
            residual: self.residual.as_ref(),
            bias: self.bias.as_ref(),
            linear_scores: false,
        }
    }
}
