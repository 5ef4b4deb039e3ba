//! A table of vectors.

use super::{Layer, Params, Pass};
use crate::autodiff::Var;
use crate::init::{self, Rng};
use crate::real::Real;
use crate::symmetry::Ports;
use crate::tensor::Tensor;

/// y_k = W[i_k, :], a learnt vector per item.
///
/// W `[count, width]`, drawn from N(0, 1) as in PyTorch.
#[derive(Debug, Clone)]
pub struct Embedding<F: Real> {
    /// W, one row per item.
    pub weight: Tensor<F>,
}
crate::module!(Embedding: weight = Table);

impl<F: Real> Embedding<F> {
    /// A table of `count` vectors of the given width.
    pub fn new(count: usize, width: usize, rng: &mut Rng) -> Self {
        Self {
            weight: init::normal(&[count, width], 1.0, rng),
        }
    }

    /// The rows with the given indices, shape `[indices.len(), width]`.
    ///
    /// # Panics
    /// If an index is not below `count`.
    #[track_caller]
    pub fn forward<'t>(&self, pass: &Pass<'t, '_, F>, indices: &[usize]) -> Var<'t, F> {
        let count = self.weight.shape()[0];
        if let Some(k) = indices.iter().position(|&i| i >= count) {
            panic!(
                "Embedding: index {} at place {k}, the table has {count} rows",
                indices[k]
            );
        }
        pass.call(self, &[], || {
            pass.param(&self.weight).index_select(0, indices.to_vec())
        })
    }
}

impl<F: Real> Layer<F> for Embedding<F> {
    /// Column j of the table writes neuron j, in every row.
    fn ports(&self, params: &Params<'_, F>) -> Option<Ports> {
        Some(Ports::writes([params.columns(&self.weight)]))
    }
}
