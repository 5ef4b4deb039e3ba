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
    /// ```
    /// use emmy::{Tape, Tensor};
    /// let tape = Tape::new();
    /// let x = tape.var(Tensor::<f64>::ones(vec![1000]));
    /// assert_eq!(x.dropout(0.0, 7).value(), x.value());
    /// // One element in four stays, four times as large: the mean is about 1.
    /// let y = x.dropout(0.75, 7);
    /// assert!(y.value().iter().all(|&y| y == 0.0 || y == 4.0));
    /// assert!((y.mean_all().item() - 1.0).abs() < 0.2);
    /// assert_eq!(x.dropout(0.75, 7).value(), y.value());
    /// assert_ne!(x.dropout(0.75, 8).value(), y.value());
    /// ```
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
