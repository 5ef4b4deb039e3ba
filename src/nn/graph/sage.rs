//! GraphSAGE with the mean as aggregator.

use super::{CommonOptions, ConvOptions, GraphContext, GraphConv, Site};
use crate::autodiff::Var;
use crate::graph::Neighbourhood;
use crate::init::{self, Rng};
use crate::nn::linear::add_bias;
use crate::nn::{Input, Layer, Params, Pass};
use crate::real::Real;
use crate::symmetry::Ports;
use crate::tensor::Tensor;
use serde::{Deserialize, Serialize};

/// y_i = W_n mean_{j ∈ N(i)} x_j + W_r x_i + b: a node and the mean of its neighbours, each
/// multiplied by its own weight.
///
/// Hamilton, Ying and Leskovec, "Inductive Representation Learning on Large Graphs", NeurIPS 2017, Algorithm
/// 1 with the mean aggregator and the concatenation written as a sum of two products; without their
/// normalisation of rows.
///
/// | letter | shape |
/// |---|---|
/// | x | `[n, in]`, dense or sparse |
/// | W_n, W_r | `[out, in]` |
/// | b | `[out]` |
///
/// As PyTorch Geometric's `SAGEConv`, whose `lin_l` is W_n with b and whose `lin_r` is W_r. A node without
/// neighbours has the mean 0. Weights start Xavier-uniform, b at 0.
///
/// A path of three nodes with the features 1, 2, 3. With W_n = 1 and W_r = 10 each node gets the mean of its
/// neighbours, which is 2 for all three, and ten times its own feature.
///
/// ```
/// use emmy::graph::{Duplicates, Neighbourhood, SelfLoops};
/// use emmy::{Graph, Tape, init, nn::{Pass, SageConv}, tensor::tensor};
///
/// let path = Graph::new(3, &[(0, 1), (1, 2)], Duplicates::Reject, SelfLoops::Reject)?.symmetrise();
/// let mut layer = SageConv::<f64>::new(1, 1, true, &mut init::rng(0));
/// layer.neighbours = tensor(&[1, 1], vec![1.0]);
/// layer.root = tensor(&[1, 1], vec![10.0]);
/// let tape = Tape::new();
/// let x = tape.constant(tensor(&[3, 1], vec![1.0, 2.0, 3.0]));
/// let y = layer.forward(&Pass::eval(&tape, &layer), x, &Neighbourhood::of(path));
/// assert_eq!(y.value(), tensor(&[3, 1], vec![12.0, 22.0, 32.0]));
/// # Ok::<(), emmy::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct SageConv<F: Real> {
    /// W_n.
    pub neighbours: Tensor<F>,
    /// W_r.
    pub root: Tensor<F>,
    /// b.
    pub bias: Option<Tensor<F>>,
}
crate::module!(SageConv: neighbours = Weight as "lin_l.weight", root = Weight as "lin_r.weight", bias = Bias as "lin_l.bias");

/// The options of [`SageConv`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SageOptions {
    /// Whether there is a bias.
    pub bias: bool,
}

impl<F: Real> SageConv<F> {
    /// A layer from `input` to `out` neurons.
    pub fn new(input: usize, out: usize, bias: bool, rng: &mut Rng) -> Self {
        Self {
            neighbours: init::xavier_uniform(&[out, input], 1.0, rng),
            root: init::xavier_uniform(&[out, input], 1.0, rng),
            bias: bias.then(|| init::zeros(&[out])),
        }
    }

    /// The output `[n, out]`.
    ///
    /// # Panics
    /// If x does not have one row per node, or as many features as the weights read.
    #[track_caller]
    pub fn forward<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        x: impl Into<Input<'t, F>>,
        neighbours: &Neighbourhood<F>,
    ) -> Var<'t, F> {
        let x = x.into();
        x.check_nodes("SageConv", neighbours.nodes());
        x.check_features("SageConv", self.root.shape()[1]);
        pass.call(self, &[x.var()], || {
            let mean = pass.tape().sparse(neighbours.mean());
            let of_neighbours = mean.matmul(x.linear(pass.param(&self.neighbours)));
            let y = of_neighbours + x.linear(pass.param(&self.root));
            add_bias(pass, y, self.bias.as_ref())
        })
    }
}

impl<F: Real> Layer<F> for SageConv<F> {
    /// Row i of both weights writes output neuron i; column i of both reads input neuron i.
    fn ports(&self, params: &Params<'_, F>) -> Option<Ports> {
        let weights = [&self.neighbours, &self.root];
        let written = weights.into_iter().chain(&self.bias);
        let read = weights.map(|w| params.columns(w));
        Some(Ports::writes(written.map(|p| params.rows(p))).reads(read))
    }
}

impl ConvOptions for SageOptions {
    type Layer<F: Real> = SageConv<F>;

    fn build<F: Real>(&self, at: Site, rng: &mut Rng) -> SageConv<F> {
        SageConv::new(at.input, at.width, self.bias, rng)
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

impl<F: Real> GraphConv<F> for SageConv<F> {
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
