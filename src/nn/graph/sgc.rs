//! Simple graph convolution: propagation without weights, then one linear map.

use super::{CommonOptions, ConvOptions, GraphContext, GraphConv, MOST_LAYERS, Site};
use crate::autodiff::{Tape, Var};
use crate::error::{Result, Rules};
use crate::init::Rng;
use crate::nn::linear::{Linear, add_bias, affine};
use crate::nn::{Input, Layer, Params, Pass};
use crate::real::Real;
use crate::sparse::Csr;
use crate::symmetry::Ports;
use crate::tensor::Tensor;
use serde::{Deserialize, Serialize};

/// y = Â^K x Wᵀ + b: K times a fixed weighted mean of the neighbourhood, then a linear map; K layers of
/// graph convolution without the activations between them.
///
/// Wu et al., "Simplifying Graph Convolutional Networks", ICML 2019, Eq. (8), without the softmax.
///
/// | letter | shape |
/// |---|---|
/// | Â | n × n sparse, usually [`Graph::gcn_norm`](crate::Graph::gcn_norm), D^-½ (A + I) D^-½ |
/// | x | `[n, in]`, dense or sparse |
/// | W, b | `[out, in]`, `[out]` |
///
/// As PyTorch Geometric's `SGConv`, with K = `steps`; the caller computes Â, once per graph. The products are
/// taken in the cheaper order, as in [`GcnConv`](crate::nn::GcnConv). PyTorch Geometric can keep Â^K x of
/// the first pass in the layer (`cached`); here the caller computes it once
/// ([`propagate`](Self::propagate)), and gives it to a [`Linear`] layer. With few classes and sparse
/// features the products of a pass cost less than a dense Â^K x Wᵀ.
///
/// A path of three nodes; only node 0 has a feature other than 0. After two steps it has reached node 2, over
/// two edges whose entries of Â are both 1/√(2 · 3).
///
/// ```
/// use emmy::graph::{Duplicates, SelfLoops};
/// use emmy::nn::{Pass, SgcConv, SgcOptions};
/// use emmy::{Graph, Tape, init, tensor::tensor};
///
/// let path = Graph::new(3, &[(0, 1), (1, 2)], Duplicates::Reject, SelfLoops::Reject)?.symmetrise();
/// let options = SgcOptions { steps: 2, bias: true };
/// let mut layer = SgcConv::<f64>::new(1, 1, options, &mut init::rng(0));
/// layer.weight = tensor(&[1, 1], vec![1.0]);
/// let tape = Tape::new();
/// let x = tape.constant(tensor(&[3, 1], vec![1.0, 0.0, 0.0]));
/// let y = layer.forward(&Pass::eval(&tape, &layer), x, &path.gcn_norm());
/// assert_eq!(y.shape(), [3, 1]);
/// assert!((y.value()[[2, 0]] - 1.0 / 6.0).abs() < 1e-12);
/// # Ok::<(), emmy::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct SgcConv<F: Real> {
    /// W: row i holds the incoming weights of neuron i.
    pub weight: Tensor<F>,
    /// b.
    pub bias: Option<Tensor<F>>,
    /// K, and whether there is a bias.
    pub options: SgcOptions,
}
crate::module!(SgcConv: weight = Weight as "lin.weight", bias = Bias as "lin.bias");

/// The options of [`SgcConv`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SgcOptions {
    /// K, the number of propagations; with 0 the layer is a linear map.
    pub steps: usize,
    /// Whether there is a bias.
    pub bias: bool,
}

impl<F: Real> SgcConv<F> {
    /// A layer from `input` to `out` neurons; W Xavier-uniform, b = 0.
    pub fn new(input: usize, out: usize, options: SgcOptions, rng: &mut Rng) -> Self {
        let Linear { weight, bias } = Linear::new(input, out, options.bias, rng);
        Self {
            weight,
            bias,
            options,
        }
    }

    /// Â^K x Wᵀ + b, shape `[n, out]`.
    ///
    /// # Panics
    /// If the shapes do not fit.
    #[track_caller]
    pub fn forward<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        x: impl Into<Input<'t, F>>,
        adjacency: &Csr<F>,
    ) -> Var<'t, F> {
        let x = x.into();
        x.check_nodes("SgcConv", adjacency.pattern.cols());
        x.check_features("SgcConv", self.weight.shape()[1]);
        pass.call(self, &[x.var()], || {
            let adjacency = pass.tape().sparse(adjacency);
            let weight = pass.param(&self.weight);
            let propagated = |x| (0..self.options.steps).fold(x, |x, _| adjacency.matmul(x));
            let (out, input) = (self.weight.shape()[0], self.weight.shape()[1]);
            let y = match x {
                Input::Dense(x) if input < out => propagated(x).linear(weight),
                x => propagated(x.linear(weight)),
            };
            add_bias(pass, y, self.bias.as_ref())
        })
    }

    /// Â^K x for features x `[n, in]` that do not change: computed once, before the training. The result
    /// is dense even if x is not.
    ///
    /// # Panics
    /// If x is not a matrix with one row per column of Â, or Â is not square.
    #[track_caller]
    pub fn propagate(&self, x: &Tensor<F>, adjacency: &Csr<F>) -> Tensor<F> {
        let (shape, pattern) = (x.shape(), &adjacency.pattern);
        assert!(
            shape.len() == 2 && shape[0] == pattern.cols() && pattern.rows() == pattern.cols(),
            "SgcConv: x has shape {shape:?}, Â {:?}: x must be [nodes, features], and Â square",
            pattern.shape()
        );
        (0..self.options.steps).fold(x.clone(), |x, _| {
            let tape = Tape::new();
            tape.sparse(adjacency).matmul(tape.constant(x)).value()
        })
    }
}

impl<F: Real> Layer<F> for SgcConv<F> {
    fn ports(&self, params: &Params<'_, F>) -> Option<Ports> {
        Some(affine(params, &self.weight, self.bias.as_ref()))
    }
}

/// Checks a number of steps of propagation.
pub(super) fn check_steps(steps: usize, least: usize) -> Result<()> {
    let holds = (least..=MOST_LAYERS).contains(&steps);
    Rules("network").hold(holds, "steps", format!("{least} to {MOST_LAYERS}"), steps)
}

impl ConvOptions for SgcOptions {
    type Layer<F: Real> = SgcConv<F>;

    fn build<F: Real>(&self, at: Site, rng: &mut Rng) -> SgcConv<F> {
        SgcConv::new(at.input, at.width, *self, rng)
    }

    fn validate(&self, _: Site) -> Result<()> {
        check_steps(self.steps, 0)
    }

    fn common(&mut self) -> CommonOptions<'_> {
        CommonOptions {
            bias: Some(&mut self.bias),
            steps: Some(&mut self.steps),
            ..CommonOptions::default()
        }
    }
}

impl<F: Real> GraphConv<F> for SgcConv<F> {
    #[track_caller]
    fn on<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        x: Input<'t, F>,
        context: GraphContext<'_, 't, F>,
    ) -> Var<'t, F> {
        self.forward(pass, x, context.neighbours.symmetric_norm())
    }
}
