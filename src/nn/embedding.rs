//! A table of vectors.

use super::Pass;
use crate::autodiff::Var;
use crate::init::{self, Rng};
use crate::real::Real;
use crate::tensor::Tensor;

/// y_k = W[i_k, :], a learnt vector for each of a number of things.
///
/// W `[count, width]`, drawn from N(0, 1) as in PyTorch.
#[derive(Debug, Clone)]
pub struct Embedding<F: Real> {
    /// W, one row a thing.
    pub weight: Tensor<F>,
}
crate::module!(Embedding: weight);

impl<F: Real> Embedding<F> {
    /// A table of `count` vectors of the given width.
    pub fn new(count: usize, width: usize, rng: &mut Rng) -> Self {
        Self {
            weight: init::normal(&[count, width], 1.0, rng),
        }
    }

    /// The rows with the given numbers, shape `[indices.len(), width]`.
    ///
    /// # Panics
    /// If an index is not below `count`.
    #[track_caller]
    pub fn forward<'t>(&self, pass: &Pass<'t, F>, indices: &[usize]) -> Var<'t, F> {
        pass.param(&self.weight).index_select(0, indices.to_vec())
    }
}
