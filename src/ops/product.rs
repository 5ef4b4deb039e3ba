//! Matrix products.

use crate::autodiff::Var;
use crate::real::Real;

impl<F: Real> Var<'_, F> {
    /// x with its last two axes exchanged; a view, nothing is copied.   x̄ = ȳ with them exchanged back
    ///
    /// # Panics
    /// If x has fewer than two dimensions.
    #[track_caller]
    pub fn t(self) -> Self {
        self.unary(
            "t",
            |x| {
                let n = x.ndim();
                assert!(
                    n >= 2,
                    "t: shape {:?} has fewer than two dimensions",
                    x.shape()
                );
                let mut y = x.clone();
                y.swap_axes(n - 2, n - 1);
                y
            },
            |p| p.gy().t(),
        )
    }
}
