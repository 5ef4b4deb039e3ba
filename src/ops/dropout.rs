//! Dropout with a seeded mask.

use crate::autodiff::{Kind, Var};
use crate::kernels::random;
use crate::real::Real;

impl<F: Real> Var<'_, F> {
    /// y = x ⊙ m / (1 − p), mᵢ = 1 with probability 1 − p, else 0,   x̄ = ȳ ⊙ m / (1 − p)
    ///
    /// The mask is a hash of `seed` and the element's number (row-major), so the same seed gives the same
    /// mask on any number of threads, and nothing is stored for the derivative. Srivastava et al., "Dropout",
    /// JMLR 2014, in its inverted form.
    ///
    /// # Panics
    /// If p is not within 0 ≤ p ≤ 1.
    #[track_caller]
    pub fn dropout(self, p: f64, seed: u64) -> Self {
        let kind = Kind::Dropout {
            factor: (1.0 - p).recip().next_up(),
        };
        let y = random::dropout(&self.value(), p, seed);
        self.unary(kind, y, move |vjp| vjp.gy().dropout(p, seed))
    }
}
