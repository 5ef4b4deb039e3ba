//! + − × ÷ between tensors, with NumPy's broadcasting, and with scalars.

use crate::autodiff::Var;
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
            "add",
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
            "sub",
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
            "mul",
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
            "div",
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
        self.unary("neg", map::unary(&self.value(), |x| -x), |p| -p.gy())
    }
}

impl<F: Real> Var<'_, F> {
    /// y = x + c,   x̄ = ȳ
    pub fn add_scalar(self, c: F) -> Self {
        self.unary(
            "add_scalar",
            map::unary(&self.value(), move |x| x + c),
            |p| p.gy(),
        )
        .noting(c.as_f64())
    }

    /// y = c x,   x̄ = c ȳ
    pub fn scale(self, c: F) -> Self {
        self.unary(
            "scale",
            map::unary(&self.value(), move |x| x * c),
            move |p| p.gy().scale(c),
        )
        .noting(c.as_f64())
    }
}

impl<F: Real> Add<F> for Var<'_, F> {
    type Output = Self;
    fn add(self, c: F) -> Self {
        self.add_scalar(c)
    }
}

impl<F: Real> Sub<F> for Var<'_, F> {
    type Output = Self;
    fn sub(self, c: F) -> Self {
        self.add_scalar(-c)
    }
}

impl<F: Real> Mul<F> for Var<'_, F> {
    type Output = Self;
    fn mul(self, c: F) -> Self {
        self.scale(c)
    }
}

impl<F: Real> Div<F> for Var<'_, F> {
    type Output = Self;
    fn div(self, c: F) -> Self {
        self.scale(c.recip())
    }
}

/// Scalars on the left need a concrete type on the left; the two float types are all there is.
macro_rules! scalar_on_the_left {
    ($($float:ty),*) => {$(
        impl<'t> Add<Var<'t, $float>> for $float {
            type Output = Var<'t, $float>;
            fn add(self, x: Var<'t, $float>) -> Var<'t, $float> {
                x.add_scalar(self)
            }
        }

        impl<'t> Sub<Var<'t, $float>> for $float {
            type Output = Var<'t, $float>;
            fn sub(self, x: Var<'t, $float>) -> Var<'t, $float> {
                (-x).add_scalar(self)
            }
        }

        impl<'t> Mul<Var<'t, $float>> for $float {
            type Output = Var<'t, $float>;
            fn mul(self, x: Var<'t, $float>) -> Var<'t, $float> {
                x.scale(self)
            }
        }

        impl<'t> Div<Var<'t, $float>> for $float {
            type Output = Var<'t, $float>;
            fn div(self, x: Var<'t, $float>) -> Var<'t, $float> {
                x.powf(-1.0).scale(self)
            }
        }
    )*};
}

scalar_on_the_left!(f32, f64);
