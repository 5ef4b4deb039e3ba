//! Learning-rate schedules that depend on the number of epochs or steps alone.

use crate::error::{Result, Rules};
use serde::{Deserialize, Serialize};
use std::f64::consts::PI;

/// What is counted: epochs, or steps. An epoch is one pass over the data and has one step per batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Unit {
    /// Passes over the data.
    #[default]
    Epochs,
    /// Updates of the parameters.
    Steps,
}

/// The factor of the base learning rate at each time k: a pure function of k, which counts epochs or steps
/// from 0.
///
/// During the first `warm_up` epochs or steps the factor is (k + 1) / warm_up; then `then` runs from its
/// beginning.
///
/// ```
/// use emmy::optim::{Decay, Schedule, Unit};
/// let then = Decay::Cosine { over: 100, end: 0.0 };
/// let schedule = Schedule { warm_up: 10, then, unit: Unit::Steps };
/// let percent = |k| (100.0 * schedule.factor(k)).round();
/// assert_eq!([0, 4, 9, 10, 60, 110, 500].map(percent), [10.0, 50.0, 100.0, 100.0, 50.0, 0.0, 0.0]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Schedule {
    /// Epochs or steps until the full rate.
    pub warm_up: usize,
    /// The decay that follows.
    pub then: Decay,
    /// Whether all its lengths count epochs or steps.
    pub unit: Unit,
}

/// How the factor of the learning rate decreases after the warm-up, where it is 1.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub enum Decay {
    /// 1
    #[default]
    Constant,
    /// γ^⌊k / every⌋, as PyTorch's `StepLR`
    Step {
        /// Epochs or steps between two drops.
        every: usize,
        /// γ
        gamma: f64,
    },
    /// end + (1 − end) (1 + cos(π k / over)) / 2, as `CosineAnnealingLR`; `end` from then on
    Cosine {
        /// Epochs or steps from 1 down to `end`.
        over: usize,
        /// The factor it ends at.
        end: f64,
    },
    /// √(over / (over + k)). Where `over` is the length of the warm-up, this is √(warm_up / K) after K steps
    /// in all: the factor of the Transformer one step later (Vaswani et al., "Attention Is All You Need",
    /// NeurIPS 2017, Eq. (3), has it in step K, counted from 1)
    InverseSqrt {
        /// Epochs or steps in which the square of the factor halves.
        over: usize,
    },
}

impl Schedule {
    /// The factor after k epochs, or steps if the schedule counts those.
    pub fn factor(&self, k: usize) -> f64 {
        if k < self.warm_up {
            (k + 1) as f64 / self.warm_up as f64
        } else {
            self.then.factor(k - self.warm_up)
        }
    }

    /// The factor of the step that follows on so many epochs and steps: [`factor`](Self::factor) of the one
    /// that the schedule counts.
    pub fn at(&self, epochs: usize, steps: usize) -> f64 {
        self.factor(match self.unit {
            Unit::Epochs => epochs,
            Unit::Steps => steps,
        })
    }

    /// Checks the constants: factors are finite and at least 0, `every` and the `over` of a square root are
    /// at least 1.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) names the first that breaks its rule.
    pub fn validate(&self) -> Result<()> {
        match self.then {
            Decay::Constant => Ok(()),
            Decay::Step { every, gamma } => {
                let rules = Rules("step schedule");
                rules.sizes(&[("every", every)])?;
                rules.from_zero("γ", gamma)
            }
            Decay::InverseSqrt { over } => {
                Rules("inverse square root schedule").sizes(&[("over", over)])
            }
            Decay::Cosine { end, .. } => Rules("cosine schedule").from_zero("end", end),
        }
    }
}

impl Decay {
    fn factor(self, k: usize) -> f64 {
        match self {
            Self::Constant => 1.0,
            Self::Step { every, gamma } => gamma.powf((k / every.max(1)) as f64),
            Self::InverseSqrt { over } => {
                let over = over.max(1) as f64;
                (over / (over + k as f64)).sqrt()
            }
            Self::Cosine { over, end } if k >= over => end,
            Self::Cosine { over, end } => {
                let done = k as f64 / over as f64;
                end + (1.0 - end) * (1.0 + (PI * done).cos()) / 2.0
            }
        }
    }
}

impl From<Decay> for Schedule {
    /// Without warm-up, counted in epochs.
    fn from(then: Decay) -> Self {
        Self {
            then,
            ..Self::default()
        }
    }
}
