//! Gradient descent.

use super::{Parameter, Rates, Rule};
use crate::error::{Result, Rules};
use crate::kernels::update::{momentum, sgd};
use crate::real::Real;
use serde::{Deserialize, Serialize};

/// Gradient descent: v ← μ v + g + λ p, p ← p − η v; with Nesterov's look-ahead p ← p − η (g + λ p + μ v).
/// Values as those of PyTorch's `SGD`, without dampening.
///
/// *State.* v; none for μ = 0.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Sgd {
    /// μ; 0 for plain descent
    pub momentum: f64,
    /// Whether to look ahead (Sutskever et al., 2013).
    pub nesterov: bool,
}

impl Sgd {
    /// Descent without momentum.
    pub const PLAIN: Self = Self {
        momentum: 0.0,
        nesterov: false,
    };
}

impl Rule for Sgd {
    /// 0 ≤ μ, and Nesterov only with momentum.
    fn validate(&self) -> Result<()> {
        let rules = Rules("");
        rules.from_zero("momentum", self.momentum)?;
        let holds = !self.nesterov || self.momentum > 0.0;
        rules.hold(holds, "Nesterov's look-ahead", "momentum", "none")
    }

    fn start<F: Real>(&self, _: Parameter<'_>, p: &[F]) -> Vec<Vec<F>> {
        match self.momentum {
            0.0 => Vec::new(),
            _ => vec![vec![F::zero(); p.len()]],
        }
    }

    fn update<F: Real>(
        &self,
        _: Parameter<'_>,
        p: &mut [F],
        g: &[F],
        state: &mut [Vec<F>],
        at: Rates,
    ) {
        let (lr, decay) = (F::of(at.lr), F::of(at.decay));
        match state {
            [] => sgd(p, g, [lr, decay]),
            [v, ..] => {
                let mu = F::of(self.momentum);
                let ahead = if self.nesterov { mu } else { F::zero() };
                momentum(p, v, g, [lr, decay, mu, ahead]);
            }
        }
    }
}
