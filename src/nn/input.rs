//! What a layer can be fed with.

use crate::autodiff::Var;
use crate::ops::Sparse;
use crate::real::Real;

/// Features of n nodes: dense `[n, d]`, or a sparse n × d matrix that no layer makes dense.
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

    /// As a dense tensor; zeros of a sparse matrix are written out.
    pub fn to_dense(&self) -> Var<'t, F> {
        match self {
            Self::Dense(x) => *x,
            Self::Sparse(x) => x.to_dense(),
        }
    }
}
