//! The input of a layer: dense or sparse features.

use crate::autodiff::Var;
use crate::ops::Sparse;
use crate::real::Real;

/// Features of n nodes: dense `[n, d]`, or a sparse n × d matrix, which no layer converts to dense.
///
/// The same features, dense and sparse:
///
/// ```
/// use emmy::{Tape, init, nn::{Linear, Pass}, sparse::Csr, tensor::tensor};
///
/// let mut layer = Linear::<f64>::new(3, 1, false, &mut init::rng(0));
/// layer.weight = tensor(&[1, 3], vec![1.0, 10.0, 100.0]);
/// let x = tensor(&[2, 3], vec![0.0, 5.0, 0.0, 2.0, 0.0, 3.0]);
/// let tape = Tape::new();
/// let pass = Pass::eval(&tape, &layer);
/// let dense = layer.forward(&pass, tape.constant(x.clone()));
/// let sparse = layer.forward(&pass, tape.sparse(&Csr::from_dense(&x)));
/// assert_eq!(dense.value(), tensor(&[2, 1], vec![50.0, 302.0]));
/// assert_eq!(sparse.value(), dense.value());
/// ```
#[derive(Debug, Clone)]
pub enum Input<'t, F: Real> {
    /// A tensor `[n, d]`; [`Linear`](super::Linear) also takes `[.., d]`.
    Dense(Var<'t, F>),
    /// A sparse matrix n × d, without heads.
    Sparse(Sparse<'t, F>),
}

impl<'t, F: Real> From<Var<'t, F>> for Input<'t, F> {
    fn from(x: Var<'t, F>) -> Self {
        Self::Dense(x)
    }
}

impl<'t, F: Real> From<Sparse<'t, F>> for Input<'t, F> {
    fn from(x: Sparse<'t, F>) -> Self {
        Self::Sparse(x)
    }
}

impl<'t, F: Real> Input<'t, F> {
    /// x Wᵀ for a weight `[out, d]`.
    ///
    /// # Panics
    /// If the widths differ.
    #[track_caller]
    pub fn linear(&self, w: Var<'t, F>) -> Var<'t, F> {
        match self {
            Self::Dense(x) => x.linear(w),
            Self::Sparse(x) => x.linear(w),
        }
    }

    /// The variable that holds the numbers: x, or the values of the sparse matrix.
    pub fn var(&self) -> Var<'t, F> {
        match self {
            Self::Dense(x) => *x,
            Self::Sparse(x) => x.values,
        }
    }

    /// n, the number of rows; 1 for a tensor of one axis or none.
    pub fn rows(&self) -> usize {
        match self {
            Self::Dense(x) => x.shape().iter().rev().nth(1).copied().unwrap_or(1),
            Self::Sparse(x) => x.pattern.rows(),
        }
    }

    /// Panics if the number of rows is not the number of nodes of the graph; the message names
    /// `layer`.
    #[track_caller]
    pub(in crate::nn) fn check_nodes(&self, layer: &str, nodes: usize) {
        let rows = self.rows();
        assert!(
            rows == nodes,
            "{layer}: x has {rows} rows, the graph has {nodes} nodes"
        );
    }

    /// Panics if the number of features is not the number that the layer's weight reads; the
    /// message names `layer`.
    #[track_caller]
    pub(in crate::nn) fn check_features(&self, layer: &str, expected: usize) {
        let found = match self {
            Self::Dense(x) => x.shape(),
            Self::Sparse(x) => vec![x.pattern.rows(), x.pattern.cols()],
        };
        assert!(
            found.len() >= 2 && found.last() == Some(&expected),
            "{layer}: x has shape {found:?}, the weight reads {expected} features: x must be [.., n, {expected}]"
        );
    }

    /// The features as a dense tensor; zeros of a sparse matrix are written out.
    pub fn to_dense(&self) -> Var<'t, F> {
        match self {
            Self::Dense(x) => *x,
            Self::Sparse(x) => x.to_dense(),
        }
    }
}
