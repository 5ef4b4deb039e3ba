//! A problem for a network over a graph.

use super::Loss;
use crate::autodiff::Tape;
use crate::graph::Graph;
use crate::init;
use crate::nn::Input;
use crate::real::Real;
use crate::sparse::Csr;
use crate::tensor::Tensor;

/// A graph, features of its nodes, and a loss of outputs for them.
///
/// ```
/// use emmy::{Tape, Tensor, graph::generators::star, testing::{Loss, Problem}};
/// let problem = Problem { graph: star(3), inputs: 2, sparse: false, loss: Loss::Smooth, seed: 7 };
/// let x: Tensor<f64> = problem.features();
/// assert_eq!(x.shape(), [4, 2]);
/// assert_eq!(problem.input(&Tape::<f64>::new()).var().shape(), [4, 2]);
/// ```
#[derive(Debug, Clone)]
pub struct Problem {
    /// The graph.
    pub graph: Graph,
    /// The number of features per node.
    pub inputs: usize,
    /// Whether the features are given as a sparse matrix.
    pub sparse: bool,
    /// The loss.
    pub loss: Loss,
    /// The seed of features, labels, targets and dropout.
    pub seed: u64,
}

impl Problem {
    /// The features, standard normal, drawn alike for both types; a third of them zeros where they are
    /// sparse.
    pub fn features<F: Real>(&self) -> Tensor<F> {
        let shape = [self.graph.nodes(), self.inputs];
        let x: Tensor<F> = init::normal(&shape, 1.0, &mut init::rng(self.seed));
        let small = F::of(if self.sparse { 0.43 } else { 0.0 });
        x.mapv(|x| if x.abs() < small { F::zero() } else { x })
            .into_shared()
    }

    /// The features on a tape, as a constant.
    pub fn input<'t, F: Real>(&self, tape: &'t Tape<F>) -> Input<'t, F> {
        match self.sparse {
            true => tape.sparse(&Csr::from_dense(&self.features())).into(),
            false => tape.constant(self.features()).into(),
        }
    }
}
