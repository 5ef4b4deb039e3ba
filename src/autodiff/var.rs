//! The handle to a node.

use super::tape::{NodeId, Tape, Vjp};
use crate::real::Real;
use crate::tensor::Tensor;
use std::fmt;

/// A differentiable tensor: a handle to a node on a [`Tape`], free to copy.
///
/// Operations are methods and operators (see [`crate::ops`]); each appends a node and returns its handle.
#[derive(Clone, Copy)]
pub struct Var<'t, F: Real> {
    pub(crate) tape: &'t Tape<F>,
    pub(crate) id: NodeId,
}

impl<'t, F: Real> Var<'t, F> {
    /// The tape it stands on.
    pub fn tape(self) -> &'t Tape<F> {
        self.tape
    }

    /// The value; clones share their data, so this copies nothing.
    pub fn value(self) -> Tensor<F> {
        self.tape.node(self.id).value.clone()
    }

    /// The sizes of its dimensions.
    pub fn shape(self) -> Vec<usize> {
        self.tape.node(self.id).value.shape().to_vec()
    }

    /// The number of dimensions.
    pub fn ndim(self) -> usize {
        self.tape.node(self.id).value.ndim()
    }

    /// The number of elements.
    pub fn len(self) -> usize {
        self.tape.node(self.id).value.len()
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

    /// The same value as a constant: derivatives stop here.
    pub fn detach(self) -> Self {
        self.tape.constant(self.value())
    }

    /// The same variable; its operation is marked with the number or axis that it was given, so that a reader
    /// of the tape can identify it.
    pub(crate) fn noting(self, constant: f64) -> Self {
        self.tape.note(self.id, constant);
        self
    }

    /// Whether a derivative can flow into it.
    pub fn is_differentiable(self) -> bool {
        self.tape.node(self.id).differentiable
    }

    /// Records y = f(x) with its derivative x̄ = pull(ȳ): the way to define an operation.
    ///
    /// `value` is y, computed on plain tensors. `pull` is written in differentiable operations, so that
    /// derivatives of any order follow; it may capture owned data only, and gets ȳ, y and x from its
    /// argument, a [`Vjp`]. `op` is the name in messages and counts.
    ///
    /// A trace ([`crate::nn::Trace`]) knows an operation by its name. Choose a name that no operation of the
    /// crate has: the trace then lists no law that goes through the operation.
    ///
    /// ```
    /// use emmy::{Real, Var, autodiff::check_grads, kernels::map, tensor::tensor};
    ///
    /// /// y = sinh x,   x̄ = ȳ cosh x
    /// fn sinh<F: Real>(x: Var<'_, F>) -> Var<'_, F> {
    ///     x.unary("sinh", map::unary(&x.value(), F::sinh), |p| p.gy() * cosh(p.x()))
    /// }
    ///
    /// /// y = cosh x,   x̄ = ȳ sinh x
    /// fn cosh<F: Real>(x: Var<'_, F>) -> Var<'_, F> {
    ///     x.unary("cosh", map::unary(&x.value(), F::cosh), |p| p.gy() * sinh(p.x()))
    /// }
    ///
    /// check_grads(|x| sinh(x[0]), &[tensor(&[2], vec![0.5, -1.0])])?;
    /// # Ok::<(), emmy::Error>(())
    /// ```
    pub fn unary(
        self,
        op: &'static str,
        value: Tensor<F>,
        pull: impl for<'a> Fn(&Vjp<'a, F>) -> Var<'a, F> + 'static,
    ) -> Self {
        self.tape
            .record(op, &[self], value, move |p| vec![p.term(0, &pull)])
    }

    /// Records y = f(a, b) with its derivatives ā = pull_a(ȳ) and b̄ = pull_b(ȳ), each called only where it
    /// is wanted. Each must have the shape of its argument. `value` is y.
    ///
    /// # Panics
    /// If the operands stand on different tapes.
    #[track_caller]
    pub fn binary(
        self,
        op: &'static str,
        b: Self,
        value: Tensor<F>,
        pull_a: impl for<'a> Fn(&Vjp<'a, F>) -> Var<'a, F> + 'static,
        pull_b: impl for<'a> Fn(&Vjp<'a, F>) -> Var<'a, F> + 'static,
    ) -> Self {
        self.tape.record(op, &[self, b], value, move |p| {
            vec![p.term(0, &pull_a), p.term(1, &pull_b)]
        })
    }
}

impl<F: Real> fmt::Debug for Var<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let node = self.tape.node(self.id);
        write!(f, "Var #{} {} {}", self.id, node.op, node.value)
    }
}
