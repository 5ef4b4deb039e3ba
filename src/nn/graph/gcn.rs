//! Graph convolution.

use super::{CommonOptions, ConvOptions, GraphContext, GraphConv, Site};
use crate::autodiff::Var;
use crate::init::Rng;
use crate::nn::linear::{Linear, add_bias, affine};
use crate::nn::{Input, Layer, Params, Pass};
use crate::real::Real;
use crate::sparse::Csr;
use crate::symmetry::Ports;
use crate::tensor::Tensor;
use serde::{Deserialize, Serialize};

/// y = Â x Wᵀ + b: each node takes a fixed weighted mean of its neighbours and itself, then a linear map.
///
/// Kipf and Welling, "Semi-Supervised Classification with Graph Convolutional Networks", ICLR 2017, Eq. (2),
/// without the activation.
///
/// | letter | shape |
/// |---|---|
/// | Â | n × n sparse, usually [`Graph::gcn_norm`](crate::Graph::gcn_norm), D^-½ (A + I) D^-½ |
/// | x | `[n, in]`, dense or sparse |
/// | W, b | `[out, in]`, `[out]` |
///
/// The two products are taken in the cheaper order, Â (x Wᵀ) or (Â x) Wᵀ. As in PyTorch Geometric's `GCNConv`
/// the bias is added after propagation, W starts Xavier-uniform and b at 0; unlike there, the
/// caller computes Â, once per graph.
///
/// Two connected nodes, from one feature to two: every entry of Â is ½, so each node gets the mean of both,
/// times the weights 1 and 10.
///
/// ```
/// use emmy::graph::{Duplicates, SelfLoops};
/// use emmy::{Graph, Tape, init, nn::{GcnConv, Pass}, tensor::tensor};
///
/// let pair = Graph::new(2, &[(0, 1), (1, 0)], Duplicates::Reject, SelfLoops::Reject)?;
/// let mut layer = GcnConv::<f64>::new(1, 2, true, &mut init::rng(0));
/// layer.weight = tensor(&[2, 1], vec![1.0, 10.0]);
/// let tape = Tape::new();
/// let x = tape.constant(tensor(&[2, 1], vec![2.0, 4.0]));
/// let y = layer.forward(&Pass::eval(&tape, &layer), x, &pair.gcn_norm());
/// assert_eq!(y.shape(), [2, 2]);
/// let expected = [3.0, 30.0, 3.0, 30.0];
/// assert!(y.value().iter().zip(expected).all(|(y, e)| (y - e).abs() < 1e-12));
/// # Ok::<(), emmy::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct GcnConv<F: Real> {
    /// W: row i holds the incoming weights of neuron i.
    pub weight: Tensor<F>,
    /// b.
    pub bias: Option<Tensor<F>>,
}
crate::module!(GcnConv: weight = Weight as "lin.weight", bias = Bias);

impl<F: Real> GcnConv<F> {
    /// A convolution from `input` to `out` neurons.
    pub fn new(input: usize, out: usize, bias: bool, rng: &mut Rng) -> Self {
        let Linear { weight, bias } = Linear::new(input, out, bias, rng);
        Self { weight, bias }
    }

    /// Â x Wᵀ + b, shape `[n, out]`.
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
        x.check_nodes("GcnConv", adjacency.pattern.cols());
        x.check_features("GcnConv", self.weight.shape()[1]);
        pass.call(self, &[x.var()], || {
            let adjacency = pass.tape().sparse(adjacency);
            let weight = pass.param(&self.weight);
            let (out, input) = (self.weight.shape()[0], self.weight.shape()[1]);
            let y = match x {
                Input::Dense(x) if input < out => adjacency.matmul(x).linear(weight),
                x => {
                    let z = x.linear(weight);
                    let y = adjacency.matmul(z);
                    z.forget();
                    y
                }
            };
            add_bias(pass, y, self.bias.as_ref())
        })
    }
}

impl<F: Real> Layer<F> for GcnConv<F> {
    fn ports(&self, params: &Params<'_, F>) -> Option<Ports> {
        Some(affine(params, &self.weight, self.bias.as_ref()))
    }
}

/// The options of [`GcnConv`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GcnOptions {
    /// Whether there is a bias.
    pub bias: bool,
}

impl ConvOptions for GcnOptions {
    type Layer<F: Real> = GcnConv<F>;

    fn build<F: Real>(&self, at: Site, rng: &mut Rng) -> GcnConv<F> {
        GcnConv::new(at.input, at.width, self.bias, rng)
    }

    fn common(&mut self) -> CommonOptions<'_> {
        CommonOptions {
            bias: Some(&mut self.bias),
            ..CommonOptions::default()
        }
    }
}

impl<F: Real> GraphConv<F> for GcnConv<F> {
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
