//! The operations + − × ÷ between tensors, with NumPy's broadcasting, and with scalars.

use crate::autodiff::{Kind, Var};
use crate::kernels::map;
use crate::real::Real;
use crate::tensor::Tensor;
use std::ops::{Add, Div, Mul, Neg, Sub};

impl<F: Real> Add for Var<'_, F> {
    type Output = Self;

    /// y = a + b,   ā = ȳ,   b̄ = ȳ   (summed over what was broadcast)
    #[track_caller]
    fn add(self, b: Self) -> Self {
        let y = map::binary("add", &self.value(), &b.value(), |a, b| a + b);
        self.added(b, y)
    }
}

impl<F: Real> Var<'_, F> {
    /// y = x + b along the last axis, for a product x that no other operation reads: y takes its memory, and
    /// the value of x is [forgotten](Self::forget).
    ///
    /// Shapes `[.., d]` and `[d]`.
    ///
    /// # Panics
    /// If the shapes do not fit.
    #[track_caller]
    pub fn add_bias(self, b: Self) -> Self {
        self.tape.accept("add_bias", &[b]);
        let (shape, found) = (self.shape(), b.shape());
        assert!(
            found.len() == 1 && shape.ends_with(&found),
            "add_bias: x {shape:?} and b {found:?}: they must be [.., d] and [d]"
        );
        let mut y = self.take();
        map::add_assign(&mut y, &b.value());
        self.added(b, y)
    }

    /// Records the sum y of two operands.
    #[track_caller]
    fn added(self, b: Self, y: Tensor<F>) -> Self {
        self.binary(
            Kind::Add,
            b,
            y,
            |p| p.gy().sum_like(p.a()),
            |p| p.gy().sum_like(p.b()),
        )
    }
}

impl<F: Real> Sub for Var<'_, F> {
    type Output = Self;

    /// y = a − b,   ā = ȳ,   b̄ = −ȳ   (summed over what was broadcast)
    #[track_caller]
    fn sub(self, b: Self) -> Self {
        let y = map::binary("sub", &self.value(), &b.value(), |a, b| a - b);
        self.binary(
            Kind::Subtract,
            b,
            y,
            |p| p.gy().sum_like(p.a()),
            |p| -p.gy().sum_like(p.b()),
        )
    }
}

impl<F: Real> Mul for Var<'_, F> {
    type Output = Self;

    /// y = a ⊙ b,   ā = ȳ ⊙ b,   b̄ = ȳ ⊙ a   (summed over what was broadcast)
    ///
    /// ```
    /// use emmy::{Tape, autodiff::grad, tensor::tensor};
    /// let tape = Tape::new();
    /// let a = tape.var(tensor(&[2, 2], vec![1.0_f64, 2.0, 3.0, 4.0]));
    /// let b = tape.var(vec![10.0, 100.0]);
    /// // b is broadcast to both rows of a, so its derivative is a sum over them.
    /// let y = a * b;
    /// assert_eq!(y.value(), tensor(&[2, 2], vec![10.0, 200.0, 30.0, 400.0]));
    /// assert_eq!(grad(y.sum_all(), &[b])[0], tensor(&[2], vec![4.0, 6.0]));
    /// ```
    #[track_caller]
    fn mul(self, b: Self) -> Self {
        let y = map::binary("mul", &self.value(), &b.value(), |a, b| a * b);
        self.binary(
            Kind::Multiply,
            b,
            y,
            |p| (p.gy() * p.b()).sum_like(p.a()),
            |p| (p.gy() * p.a()).sum_like(p.b()),
        )
    }
}

impl<F: Real> Div for Var<'_, F> {
    type Output = Self;

    /// y = a ⊘ b,   ā = ȳ ⊘ b,   b̄ = −ȳ ⊙ y ⊘ b   (summed over what was broadcast)
    #[track_caller]
    fn div(self, b: Self) -> Self {
        let y = map::binary("div", &self.value(), &b.value(), |a, b| a / b);
        self.binary(
            Kind::Divide,
            b,
            y,
            |p| (p.gy() / p.b()).sum_like(p.a()),
            |p| -(p.gy() * p.y() / p.b()).sum_like(p.b()),
        )
    }
}

impl<F: Real> Neg for Var<'_, F> {
    type Output = Self;

    /// y = −x,   x̄ = −ȳ
    fn neg(self) -> Self {
        self.unary(Kind::Scale(-1.0), map::unary(&self.value(), |x| -x), |p| {
            -p.gy()
        })
    }
}

impl<F: Real> Var<'_, F> {
    /// y = x + c,   x̄ = ȳ
    pub fn add_scalar(self, c: F) -> Self {
        let y = map::unary(&self.value(), move |x| x + c);
        self.unary(Kind::AddScalar(c.as_f64()), y, |p| p.gy())
    }

    /// y = c x,   x̄ = c ȳ
    ///
    /// ```
    /// use emmy::{Tape, tensor::tensor};
    /// let tape = Tape::new();
    /// let x = tape.var(vec![1.0_f64, 2.0]);
    /// assert_eq!(x.scale(3.0).value(), tensor(&[2], vec![3.0, 6.0]));
    /// assert_eq!((1.0 - x / 2.0).value(), tensor(&[2], vec![0.5, 0.0]));
    /// ```
    pub fn scale(self, c: F) -> Self {
        let y = map::unary(&self.value(), move |x| x * c);
        self.unary(Kind::Scale(c.as_f64()), y, move |p| p.gy().scale(c))
    }
}

// Scalars on the right: `F`, which stays as it is, or the other type, which is rounded to `F`. So `x * 0.9` compiles
// where `F` is not known: the literal is an `f64`.

impl<F: Real, C: Real> Add<C> for Var<'_, F> {
    type Output = Self;
    fn add(self, c: C) -> Self {
        self.add_scalar(F::of(c.as_f64()))
    }
}

impl<F: Real, C: Real> Sub<C> for Var<'_, F> {
    type Output = Self;
    fn sub(self, c: C) -> Self {
        self.add_scalar(-F::of(c.as_f64()))
    }
}

impl<F: Real, C: Real> Mul<C> for Var<'_, F> {
    type Output = Self;
    fn mul(self, c: C) -> Self {
        self.scale(F::of(c.as_f64()))
    }
}

impl<F: Real, C: Real> Div<C> for Var<'_, F> {
    type Output = Self;
    fn div(self, c: C) -> Self {
        self.scale(F::of(c.as_f64()).recip())
    }
}

// Scalars on the left, `f64` alone: with a second type, the compiler could not infer the type of 0.5 in
// `(0.5 * x).exp()`.

impl<'t, F: Real> Add<Var<'t, F>> for f64 {
    type Output = Var<'t, F>;
    fn add(self, x: Var<'t, F>) -> Var<'t, F> {
        x.add_scalar(F::of(self))
    }
}

impl<'t, F: Real> Sub<Var<'t, F>> for f64 {
    type Output = Var<'t, F>;
    fn sub(self, x: Var<'t, F>) -> Var<'t, F> {
        (-x).add_scalar(F::of(self))
    }
}

impl<'t, F: Real> Mul<Var<'t, F>> for f64 {
    type Output = Var<'t, F>;
    fn mul(self, x: Var<'t, F>) -> Var<'t, F> {
        x.scale(F::of(self))
    }
}

impl<'t, F: Real> Div<Var<'t, F>> for f64 {
    type Output = Var<'t, F>;
    fn div(self, x: Var<'t, F>) -> Var<'t, F> {
        x.powf(-F::one()).scale(F::of(self))
    }
}
