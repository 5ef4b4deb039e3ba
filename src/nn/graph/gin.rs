//! Graph isomorphism network.

use super::{CommonOptions, ConvOptions, GraphContext, GraphConv, Site, sum_over};
use crate::autodiff::Var;
use crate::graph::Neighbourhood;
use crate::init::{self, Rng};
use crate::nn::linear::add_bias;
use crate::nn::{Input, Layer, Linear, Pass};
use crate::real::Real;
use crate::tensor::Tensor;
use serde::{Deserialize, Serialize};

/// y_i = W₂ relu(W₁ ((1 + ε) x_i + Σ_{j ∈ N(i)} x_j) + b₁) + b₂: the sum over the neighbours, then a
/// perceptron of two layers. The sum distinguishes some multisets of neighbours that have the same mean.
///
/// Xu et al., "How Powerful are Graph Neural Networks?", ICLR 2019, Eq. (4.1).
///
/// | letter | shape |
/// |---|---|
/// | x | `[n, in]`, dense or sparse |
/// | W₁, b₁ | `[out, in]`, `[out]` |
/// | W₂, b₂ | `[out, out]`, `[out]` |
/// | ε | `[1]`; it starts at 0, and is trained or not |
///
/// As PyTorch Geometric's `GINConv` (`train_eps` says whether ε is trained) with the perceptron of its `GIN`
/// model, without batch norm between the two layers. The sum commutes with W₁ and is computed on the narrower
/// side of W₁. Weights start Xavier-uniform, biases at 0.
///
/// A path of three nodes with the features 1, 2, 3; both weights are 1 and ε = 0. Each node gets the sum of
/// itself and its neighbours.
///
/// ```
/// use emmy::graph::{Duplicates, Neighbourhood, SelfLoops};
/// use emmy::nn::{GinConv, GinOptions, Pass};
/// use emmy::{Graph, Tape, init, tensor::tensor};
///
/// let path = Graph::new(3, &[(0, 1), (1, 2)], Duplicates::Reject, SelfLoops::Reject)?.symmetrise();
/// let options = GinOptions { eps: true, bias: true };
/// let mut layer = GinConv::<f64>::new(1, 1, options, &mut init::rng(0));
/// layer.first.weight = tensor(&[1, 1], vec![1.0]);
/// layer.second.weight = tensor(&[1, 1], vec![1.0]);
/// let tape = Tape::new();
/// let x = tape.constant(tensor(&[3, 1], vec![1.0, 2.0, 3.0]));
/// let y = layer.forward(&Pass::eval(&tape, &layer), x, &Neighbourhood::of(path));
/// assert_eq!(y.value(), tensor(&[3, 1], vec![3.0, 6.0, 5.0]));
/// # Ok::<(), emmy::Error>(())
/// ```
///
/// # Conservation laws
/// The layer is transparent: the first map with its sum over neighbours, the ReLU and the second map are
/// examined one by one, so the neurons between them have their law, W₁ against W₂. ε takes part in no law.
#[derive(Debug, Clone)]
pub struct GinConv<F: Real> {
    /// ε, if it is trained.
    pub eps: Option<Tensor<F>>,
    /// ε, if it is not: state, which PyTorch Geometric keeps under the same name.
    pub fixed_eps: Option<Tensor<F>>,
    /// W₁ and b₁.
    pub first: Linear<F>,
    /// W₂ and b₂.
    pub second: Linear<F>,
}
crate::module!(GinConv: eps = Gain, first as "nn.lins.0", second as "nn.lins.1"; state fixed_eps as "eps");

/// The options of [`GinConv`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GinOptions {
    /// Whether ε is trained; else it is 0, and the layer is that of GIN-0.
    pub eps: bool,
    /// Whether there are biases.
    pub bias: bool,
}

impl<F: Real> GinConv<F> {
    /// A layer from `input` to `out` neurons, with as many neurons between its two maps.
    pub fn new(input: usize, out: usize, options: GinOptions, rng: &mut Rng) -> Self {
        Self {
            eps: options.eps.then(|| init::zeros(&[1])),
            fixed_eps: (!options.eps).then(|| init::zeros(&[1])),
            first: Linear::new(input, out, options.bias, rng),
            second: Linear::new(out, out, options.bias, rng),
        }
    }

    /// The output `[n, out]`.
    ///
    /// # Panics
    /// If x does not have one row per node, or as many features as W₁ reads.
    #[track_caller]
    pub fn forward<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        x: impl Into<Input<'t, F>>,
        neighbours: &Neighbourhood<F>,
    ) -> Var<'t, F> {
        let x = x.into();
        x.check_nodes("GinConv", neighbours.nodes());
        x.check_features("GinConv", self.first.weight.shape()[1]);
        pass.call(self, &[x.var()], || {
            // A map of the rows before an affine map does not change its ports.
            let inner = pass.call(&self.first, &[x.var()], || {
                self.first_map(pass, x, neighbours)
            });
            self.second.forward(pass, inner.relu())
        })
    }

    /// W₁ ((1 + ε) x_i + Σ_j x_j) + b₁.
    fn first_map<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        x: Input<'t, F>,
        neighbours: &Neighbourhood<F>,
    ) -> Var<'t, F> {
        let sum = sum_over(pass, neighbours.pattern());
        let fixed = self.fixed_eps.as_ref().and_then(|eps| eps.first().copied());
        let fixed = fixed.filter(|&eps| eps != F::zero());
        let both = |x: Var<'t, F>| {
            let own = match (&self.eps, fixed) {
                (Some(eps), _) => x * (pass.param(eps) + F::one()),
                (None, Some(eps)) => x.scale(F::one() + eps),
                (None, None) => x,
            };
            own + sum.matmul(x)
        };
        let weight = pass.param(&self.first.weight);
        let (out, input) = (self.first.weight.shape()[0], self.first.weight.shape()[1]);
        let y = match x {
            Input::Dense(x) if input < out => both(x).linear(weight),
            x => both(x.linear(weight)),
        };
        add_bias(pass, y, self.first.bias.as_ref())
    }
}

impl<F: Real> Layer<F> for GinConv<F> {}

impl ConvOptions for GinOptions {
    type Layer<F: Real> = GinConv<F>;

    fn build<F: Real>(&self, at: Site, rng: &mut Rng) -> GinConv<F> {
        GinConv::new(at.input, at.width, *self, rng)
    }

    fn weights(&self) -> usize {
        2
    }

    fn common(&mut self) -> CommonOptions<'_> {
        CommonOptions {
            bias: Some(&mut self.bias),
            ..CommonOptions::default()
        }
    }
}

impl<F: Real> GraphConv<F> for GinConv<F> {
    #[track_caller]
    fn on<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        x: Input<'t, F>,
        context: GraphContext<'_, 't, F>,
    ) -> Var<'t, F> {
        self.forward(pass, x, context.neighbours)
    }
}
