//! How an operation is defined, in this crate and by a user.

use crate::autodiff::{Kind, Var, Vjp};
use crate::real::Real;
use crate::tensor::Tensor;

impl<F: Real> Var<'_, F> {
    /// Records y = f(x) with its derivative x̄ = pull(ȳ): the way to define an operation.
    ///
    /// `value` is y, computed on plain tensors. `pull` is written in differentiable operations, so that
    /// derivatives of any order follow; it may capture owned data only, and gets ȳ, y and x from its
    /// argument, a [`Vjp`].
    ///
    /// `kind` says what the operation is. A name alone says nothing: then no conservation law of an
    /// `emmy::nn::Trace` passes through it, and it has no Lipschitz bound. A
    /// [`Function`](crate::autodiff::Function) or a [linear map](crate::autodiff::Map) has both;
    /// [`check_kind`](crate::autodiff::check_kind) compares what is said with numbers.
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
        kind: impl Into<Kind>,
        value: Tensor<F>,
        pull: impl for<'a> Fn(&Vjp<'a, F>) -> Var<'a, F> + 'static,
    ) -> Self {
        self.tape
            .record(kind, &[self], value, move |p| vec![p.term(0, &pull)])
    }

    /// Records y = f(a, b) with its derivatives ā = pull_a(ȳ) and b̄ = pull_b(ȳ), each called only where it
    /// is wanted. Each must have the shape of its argument. `value` is y.
    ///
    /// # Panics
    /// If the operands stand on different tapes.
    #[track_caller]
    pub fn binary(
        self,
        kind: impl Into<Kind>,
        b: Self,
        value: Tensor<F>,
        pull_a: impl for<'a> Fn(&Vjp<'a, F>) -> Var<'a, F> + 'static,
        pull_b: impl for<'a> Fn(&Vjp<'a, F>) -> Var<'a, F> + 'static,
    ) -> Self {
        self.tape.record(kind, &[self, b], value, move |p| {
            vec![p.term(0, &pull_a), p.term(1, &pull_b)]
        })
    }
}
