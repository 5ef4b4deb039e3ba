//! The value of a node. It may be freed before the tape ends, and is computed again when it is read.

use super::grad::constants;
use super::{Kind, Tape};
use crate::ops::sparse::{spmm, spmm_t};
use crate::real::Real;
use crate::tensor::{Tensor, memory};
use std::cell::OnceCell;
use std::ops::Deref;

/// A tensor, or its shape alone.
pub struct Value<F: Real> {
    kept: OnceCell<Tensor<F>>,
    /// The shape of a tensor that is not kept.
    shape: Vec<usize>,
}

impl<F: Real> From<Tensor<F>> for Value<F> {
    fn from(tensor: Tensor<F>) -> Self {
        Self {
            kept: tensor.into(),
            shape: Vec::new(),
        }
    }
}

impl<F: Real> Value<F> {
    /// A value of this shape that nobody has computed alone.
    pub(crate) fn forgotten(shape: Vec<usize>) -> Self {
        Self {
            kept: OnceCell::new(),
            shape,
        }
    }

    pub(super) fn shape(&self) -> &[usize] {
        self.kept.get().map_or(&self.shape, |kept| kept.shape())
    }

    pub(super) fn is_kept(&self) -> bool {
        self.kept.get().is_some()
    }

    /// Keeps the tensor again.
    pub(super) fn keep(&self, tensor: Tensor<F>) {
        let kept = self.kept.set(tensor);
        kept.unwrap_or_else(|_| unreachable!("a value is restored once"));
    }

    /// The tensor, of which the shape stays.
    pub(super) fn forget(&mut self) -> Tensor<F> {
        let kept = self.kept.take().expect("`Tape::take` read it");
        self.shape = kept.shape().to_vec();
        kept
    }

    pub(super) fn recycle(self) {
        self.kept.into_inner().map(memory::recycle);
    }
}

impl<F: Real> Deref for Value<F> {
    type Target = Tensor<F>;

    fn deref(&self) -> &Tensor<F> {
        self.kept.get().expect("a node is read by `Tape::node`")
    }
}

impl Kind {
    /// Whether [`compute`] knows its value.
    pub(super) fn is_repeatable(&self) -> bool {
        matches!(
            self,
            Self::Add | Self::MatMul { .. } | Self::SparseProduct { .. }
        )
    }
}

/// The value of a repeatable operation on the given operands: the operation itself, on a tape of its own.
pub(super) fn compute<F: Real>(kind: &Kind, args: Vec<Tensor<F>>) -> Tensor<F> {
    let tape = Tape::new();
    let args = constants(&tape, args);
    let [a, b] = args[..] else {
        unreachable!("a repeatable operation has two operands")
    };
    let y = match kind {
        Kind::Add => a + b,
        Kind::MatMul { transposed: false } => a.matmul(b),
        Kind::MatMul { transposed: true } => a.linear(b),
        Kind::SparseProduct {
            pattern,
            transposed,
        } => match transposed {
            false => spmm(pattern, a, b),
            true => spmm_t(pattern, a, b),
        },
        _ => unreachable!("{} is not repeatable", kind.name()),
    };
    y.value()
}
