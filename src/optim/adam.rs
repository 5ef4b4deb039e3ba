//! Adam and AdamW.

use super::{Parameter, Rates, Rule};
use crate::error::{Result, Rules};
use crate::kernels::update::{AdamStep, adam};
use crate::real::Real;
use serde::{Deserialize, Serialize};

/// Adam (Kingma and Ba, 2015, algorithm 1); weight decay is added to the gradient:
///
/// d = g + λ p,   m ← β₁ m + (1 − β₁) d,   v ← β₂ v + (1 − β₂) d²,   p ← p − η m̂ / (√v̂ + ε)
///
/// with m̂ = m / (1 − β₁ᵗ), v̂ = v / (1 − β₂ᵗ) in step t. Constants and values as those of PyTorch's `Adam`.
///
/// *State.* m and v.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Adam {
    /// β₁
    pub beta1: f64,
    /// β₂
    pub beta2: f64,
    /// ε
    pub eps: f64,
}

/// AdamW (Loshchilov and Hutter, 2019, algorithm 2): [`Adam`] with weight decay apart from the gradient, p
/// ← (1 − η λ) p before the update, and d = g.
///
/// *State.* m and v.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct AdamW {
    /// β₁
    pub beta1: f64,
    /// β₂
    pub beta2: f64,
    /// ε
    pub eps: f64,
}

impl Rule for Adam {
    /// 0 ≤ β < 1 and 0 ≤ ε.
    fn validate(&self) -> Result<()> {
        for (name, beta) in [("β₁", self.beta1), ("β₂", self.beta2)] {
            Rules("").hold((0.0..1.0).contains(&beta), name, "0 ≤ β < 1", beta)?;
        }
        Rules("").from_zero("ε", self.eps)
    }

    fn start<F: Real>(&self, _: Parameter<'_>, p: &[F]) -> Vec<Vec<F>> {
        vec![vec![F::zero(); p.len()]; 2]
    }

    fn update<F: Real>(
        &self,
        _: Parameter<'_>,
        p: &mut [F],
        g: &[F],
        state: &mut [Vec<F>],
        at: Rates,
    ) {
        descend(p, g, state, self.constants(at, at.decay, 1.0));
    }
}

impl AdamW {
    fn adam(self) -> Adam {
        let Self { beta1, beta2, eps } = self;
        Adam { beta1, beta2, eps }
    }
}

impl Rule for AdamW {
    /// As that of [`Adam`].
    fn validate(&self) -> Result<()> {
        self.adam().validate()
    }

    fn start<F: Real>(&self, of: Parameter<'_>, p: &[F]) -> Vec<Vec<F>> {
        self.adam().start(of, p)
    }

    fn update<F: Real>(
        &self,
        _: Parameter<'_>,
        p: &mut [F],
        g: &[F],
        state: &mut [Vec<F>],
        at: Rates,
    ) {
        let constants = self.adam().constants(at, 0.0, 1.0 - at.lr * at.decay);
        descend(p, g, state, constants);
    }
}

impl Adam {
    fn constants<F: Real>(&self, at: Rates, decay: f64, shrink: f64) -> AdamStep<F> {
        let power = |beta: f64| beta.powf(at.step as f64);
        AdamStep {
            lr: F::of(at.lr / (1.0 - power(self.beta1))),
            decay: F::of(decay),
            shrink: F::of(shrink),
            one_minus_beta1: F::of(1.0 - self.beta1),
            beta2: F::of(self.beta2),
            one_minus_beta2: F::of(1.0 - self.beta2),
            root: F::of((1.0 - power(self.beta2)).sqrt()),
            eps: F::of(self.eps),
        }
    }
}

fn descend<F: Real>(p: &mut [F], g: &[F], state: &mut [Vec<F>], step: AdamStep<F>) {
    let [m, v] = state else {
        unreachable!("`start` makes m and v")
    };
    adam(p, g, [m, v], step);
}
