//! + − × ÷ between tensors, with NumPy's broadcasting, and with scalars.

use crate::autodiff::{Kind, Var};
use crate::kernels::map;
use crate::real::Real;
use std::ops::{Add, Div, Mul, Neg, Sub};

impl<F: Real> Add for Var<'_, F> {
    type Output = Self;

    /// y = a + b,   ā = ȳ,   b̄ = ȳ   (summed over what was broadcast)
    #[track_caller]
    fn add(self, b: Self) -> Self {
        let y = map::binary("add", &self.value(), &b.value(), |a, b| a + b);
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

#[cfg(test)]
mod tests {
    use crate::autodiff::{Tape, Var};
    use crate::real::Real;

    /// Literals on either side, and methods on the result, for a type that is not known.
    fn mixed<F: Real>(x: Var<'_, F>) -> Var<'_, F> {
        (0.5 * x).exp() + (1.0 - x).sin() + (1.0 / x).ln() + (2.0 + x * F::of(3.0)).sqrt()
    }

    /// The same numbers on the right.
    fn right<F: Real>(x: Var<'_, F>) -> Var<'_, F> {
        (x * 0.5).exp()
            + (-(x - 1.0)).sin()
            + (x / 1.0).powf(-F::one()).ln()
            + (x * 3.0 + 2.0).sqrt()
    }

    #[test]
    fn literals_stand_on_both_sides_for_every_type() {
        let expected = 1.0_f64.exp() + (-1.0_f64).sin() + 0.5_f64.ln() + 8.0_f64.sqrt();
        let (double, single) = (Tape::new(), Tape::new());
        let (x, z) = (double.scalar(2.0_f64), single.scalar(2.0_f32));
        for (x, z) in [(mixed(x), mixed(z)), (right(x), right(z))] {
            assert!((x.item() - expected).abs() < 1e-15);
            assert!((z.item() - expected as f32).abs() < 1e-6);
        }
        // A number of the type itself is not rounded.
        let third = z * (1.0_f32 / 3.0) + (z / 2.0_f32);
        assert_eq!(third.item(), 2.0_f32 * (1.0 / 3.0) + 1.0);
        let concrete = (0.5 * z).exp() + (1.0 - z * 1.0).sin();
        assert!((concrete.item() - (1.0_f32.exp() + (-1.0_f32).sin())).abs() < 1e-6);
    }
}
