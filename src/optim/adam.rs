//! Adam and AdamW.

use super::{Parameter, Rates, Rule};
use crate::error::{Result, Rules};
use crate::kernels::update::blocks;
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
        let constants = self.constants(at, at.decay, 1.0);
        descend(p, g, state, constants);
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

/// The constants of a step, computed in `f64` and rounded once.
struct Constants<F> {
    /// η / (1 − β₁ᵗ)
    lr: F,
    /// λ of Adam; 0 in AdamW
    decay: F,
    /// 1 − η λ of AdamW; 1 in Adam
    shrink: F,
    one_minus_beta1: F,
    beta2: F,
    one_minus_beta2: F,
    /// √(1 − β₂ᵗ)
    root: F,
    eps: F,
}

impl Adam {
    fn constants<F: Real>(&self, at: Rates, decay: f64, shrink: f64) -> Constants<F> {
        let power = |beta: f64| beta.powf(at.step as f64);
        Constants {
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

/// p ← shrink · p, then Adam's update. The arithmetic is PyTorch's, operation by operation.
#[inline(never)]
fn descend<F: Real>(p: &mut [F], g: &[F], state: &mut [Vec<F>], c: Constants<F>) {
    let [m, v] = state else {
        unreachable!("`start` makes m and v")
    };
    blocks([p, m, v], g, |[p, m, v], g| {
        for i in 0..p.len().min(m.len()).min(v.len()).min(g.len()) {
            let x = p[i] * c.shrink;
            let d = g[i] + c.decay * x;
            m[i] += c.one_minus_beta1 * (d - m[i]);
            v[i] = c.beta2 * v[i] + c.one_minus_beta2 * d * d;
            p[i] = x - c.lr * m[i] / (v[i].sqrt() / c.root + c.eps);
        }
    });
}
