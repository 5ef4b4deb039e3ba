//! Functions of one number, applied to every element.

use crate::autodiff::Var;
use crate::kernels::map;
use crate::real::Real;

impl<F: Real> Var<'_, F> {
    /// y = exp x,   x̄ = ȳ y
    pub fn exp(self) -> Self {
        self.unary("exp", |x| map::unary(x, F::exp), |p| p.gy() * p.y())
    }

    /// y = xᵏ,   x̄ = k ȳ xᵏ⁻¹
    pub fn powf(self, k: F) -> Self {
        self.unary(
            "powf",
            |x| map::unary(x, |x| x.powf(k)),
            move |p| (p.gy() * p.x().powf(k - F::one())).scale(k),
        )
    }

    /// y = sin x,   x̄ = ȳ cos x
    pub fn sin(self) -> Self {
        self.unary("sin", |x| map::unary(x, F::sin), |p| p.gy() * p.x().cos())
    }

    /// y = cos x,   x̄ = −ȳ sin x
    pub fn cos(self) -> Self {
        self.unary(
            "cos",
            |x| map::unary(x, F::cos),
            |p| -(p.gy() * p.x().sin()),
        )
    }
}
