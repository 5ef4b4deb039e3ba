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
///
/// ```
/// use emmy::{Tape, init, nn::{Embedding, Pass}, tensor::tensor};
///
/// let mut table = Embedding::<f64>::new(3, 2, &mut init::rng(0));
/// table.weight = tensor(&[3, 2], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
/// let tape = Tape::new();
/// let pass = Pass::train(&tape, &table, 0);
/// let y = table.forward(&pass, &[2, 0, 2]);
/// assert_eq!(y.value(), tensor(&[3, 2], vec![5.0, 6.0, 1.0, 2.0, 5.0, 6.0]));
/// // Row 2 is used twice, row 1 not at all.
/// let g = &pass.gradients(y.sum_all())[0];
/// assert_eq!(g, tensor(&[3, 2], vec![1.0, 1.0, 0.0, 0.0, 2.0, 2.0]));
/// ```
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
