//! The handle to a node.

use super::tape::{NodeId, Tape};
use crate::real::Real;
use crate::tensor::Tensor;
use std::fmt;

/// A differentiable tensor: a handle to a node on a [`Tape`], free to copy.
///
/// Operations are methods and operators (see [`crate::ops`]); each appends a node and returns its handle.
/// Operands must stand on one tape, else an operation panics. A handle cannot outlive its tape; its
/// [`value`](Self::value) can.
///
/// ```
/// use emmy::{Tape, Tensor, Var};
/// fn length(x: Var<'_, f64>) -> Var<'_, f64> {
///     (x * x).sum_all().sqrt()
/// }
/// let tape = Tape::new();
/// let y: Tensor<f64> = length(tape.var(vec![3.0, 4.0])).value();
/// drop(tape);
/// assert_eq!(y[[]], 5.0);
/// ```
#[derive(Clone, Copy)]
pub struct Var<'t, F: Real> {
    pub(crate) tape: &'t Tape<F>,
    pub(crate) id: NodeId,
}

impl<'t, F: Real> Var<'t, F> {
    /// The number of its node on the tape.
    #[doc(hidden)]
    pub fn id(self) -> NodeId {
        self.id
    }

    /// The tape it stands on.
    pub fn tape(self) -> &'t Tape<F> {
        self.tape
    }

    /// The value; clones share their data, so this copies nothing.
    pub fn value(self) -> Tensor<F> {
        self.tape.value(self.id)
    }

    /// The sizes of its dimensions.
    pub fn shape(self) -> Vec<usize> {
        self.tape.node(self.id).shape.to_vec()
    }

    /// The number of dimensions.
    pub fn ndim(self) -> usize {
        self.tape.node(self.id).shape.len()
    }

    /// The number of elements.
    pub fn len(self) -> usize {
        self.tape.node(self.id).shape.iter().product()
    }

    /// Whether it has no elements.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The value of a tensor with exactly one element.
    ///
    /// # Panics
    /// If it has no element or several.
    #[track_caller]
    pub fn item(self) -> F {
        let value = self.value();
        assert!(
            value.len() == 1,
            "item: shape {:?} does not hold exactly one element",
            value.shape()
        );
        value.first().copied().expect("one element")
    }

    /// Whether its value is in memory, and not forgotten.
    #[doc(hidden)]
    pub fn is_kept(self) -> bool {
        self.tape.node(self.id).value.get().is_some()
    }

    /// The same value as a constant: derivatives stop here.
    pub fn detach(self) -> Self {
        self.tape.constant(self.value())
    }

    /// Whether a derivative can flow into it.
    pub fn is_differentiable(self) -> bool {
        self.tape.node(self.id).differentiable
    }
}

impl<F: Real> fmt::Debug for Var<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let node = self.tape.node(self.id);
        write!(f, "Var #{} {} ", self.id, node.kind.name())?;
        match node.value.get() {
            Some(value) => write!(f, "{value}"),
            None => write!(f, "of shape {:?}, forgotten", node.shape),
        }
    }
}
