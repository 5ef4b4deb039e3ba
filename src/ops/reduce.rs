//! Sums and other reductions over axes.

use crate::autodiff::Var;
use crate::real::Real;
use crate::tensor;

impl<F: Real> Var<'_, F> {
    /// y = Σ x over all elements, of shape `[]`,   x̄ = ȳ everywhere
    pub fn sum_all(self) -> Self {
        self.unary(
            "sum_all",
            |x| tensor::scalar(x.sum()),
            |p| p.gy().broadcast_to(&p.x().shape()),
        )
    }
}
