//! Norms of features.

use emmy::{Real, Var};

/// A normalisation without parameters of features `[n, d]`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Norm {
    /// Every row: x / √(mean x²), Zhang and Sennrich, "Root Mean Square Layer Normalization", NeurIPS 2019.
    Rms,
}

impl Norm {
    pub fn apply<F: Real>(self, x: Var<'_, F>) -> Var<'_, F> {
        match self {
            Self::Rms => x.rms_norm(None, F::zero()),
        }
    }
}
