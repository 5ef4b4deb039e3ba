//! Learning-rate schedules that depend on the epoch alone.

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::f64::consts::PI;

/// What the base learning rate is multiplied with at each epoch: a pure function of the epoch.
///
/// During the first `warm_up` epochs the factor is (epoch + 1) / warm_up; then `then` runs from its beginning.
///
/// ```
/// use emmy::optim::{Decay, Schedule};
/// let schedule = Schedule { warm_up: 10, then: Decay::Cosine { epochs: 100, end: 0.0 } };
/// let percent = |epoch| (100.0 * schedule.factor(epoch)).round();
/// assert_eq!([0, 4, 9, 10, 60, 110, 500].map(percent), [10.0, 50.0, 100.0, 100.0, 50.0, 0.0, 0.0]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Schedule {
    /// Epochs until the full rate.
    pub warm_up: usize,
    /// What follows.
    pub then: Decay,
}

/// How a factor of 1 goes on.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub enum Decay {
    /// 1
    #[default]
    Constant,
    /// γ^⌊epoch / every⌋, as PyTorch's `StepLR`
    Step {
        /// Epochs between two drops.
        every: usize,
        /// γ
        gamma: f64,
    },
    /// end + (1 − end) (1 + cos(π epoch / epochs)) / 2, as `CosineAnnealingLR`; `end` from then on
    Cosine {
        /// Epochs from 1 down to `end`.
        epochs: usize,
        /// The factor it ends at.
        end: f64,
    },
}

impl Schedule {
    /// The factor at an epoch, counted from 0.
    pub fn factor(&self, epoch: usize) -> f64 {
        if epoch < self.warm_up {
            (epoch + 1) as f64 / self.warm_up as f64
        } else {
            self.then.factor(epoch - self.warm_up)
        }
    }

    /// Checks the constants: factors are finite and at least 0, `every` is at least 1.
    ///
    /// # Errors
    /// [`Error::Invalid`] names the first that breaks its rule.
    pub fn validate(&self) -> Result<()> {
        let (what, factor) = match self.then {
            Decay::Constant => return Ok(()),
            Decay::Step { every: 0, .. } => {
                return Err(Error::invalid("step schedule: every", "at least 1", "0"));
            }
            Decay::Step { gamma, .. } => ("step schedule: γ", gamma),
            Decay::Cosine { end, .. } => ("cosine schedule: end", end),
        };
        if factor.is_finite() && factor >= 0.0 {
            return Ok(());
        }
        let found = factor.to_string();
        Err(Error::invalid(what, "a number, at least 0", found))
    }
}

impl Decay {
    fn factor(self, epoch: usize) -> f64 {
        match self {
            Self::Constant => 1.0,
            Self::Step { every, gamma } => gamma.powf((epoch / every.max(1)) as f64),
            Self::Cosine { epochs, end } if epoch >= epochs => end,
            Self::Cosine { epochs, end } => {
                let done = epoch as f64 / epochs as f64;
                end + (1.0 - end) * (1.0 + (PI * done).cos()) / 2.0
            }
        }
    }
}

impl From<Decay> for Schedule {
    /// Without warm-up.
    fn from(then: Decay) -> Self {
        Self { warm_up: 0, then }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn factors(schedule: Schedule, epochs: usize) -> Vec<f64> {
        (0..epochs).map(|e| schedule.factor(e)).collect()
    }

    const STEP: Decay = Decay::Step {
        every: 3,
        gamma: 0.5,
    };

    #[test]
    fn each_schedule_is_its_formula() {
        assert_eq!(
            factors(STEP.into(), 7),
            [1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.25]
        );
        let cosine = Decay::Cosine {
            epochs: 4,
            end: 0.2,
        };
        let half = 0.4 * 0.5_f64.sqrt();
        let expected = [1.0, 0.6 + half, 0.6, 0.6 - half, 0.2, 0.2];
        for (a, b) in factors(cosine.into(), 6).iter().zip(expected) {
            assert!((a - b).abs() < 1e-15);
        }
        assert_eq!(Schedule::default().factor(1_000_000), 1.0);
    }

    #[test]
    fn after_the_warm_up_the_rest_starts_from_its_beginning() {
        let schedule = Schedule {
            warm_up: 2,
            then: STEP,
        };
        assert_eq!(factors(schedule, 6), [0.5, 1.0, 1.0, 1.0, 1.0, 0.5]);
        let at_once = Decay::Cosine {
            epochs: 0,
            end: 0.3,
        };
        assert_eq!(Schedule::from(at_once).factor(0), 0.3);
    }

    #[test]
    fn senseless_constants_are_refused() {
        let (every, gamma, epochs) = (0, 0.5, 3);
        for bad in [
            Decay::Step { every, gamma },
            Decay::Step {
                every: 1,
                gamma: f64::NAN,
            },
            Decay::Cosine { epochs, end: -0.1 },
        ] {
            assert!(Schedule::from(bad).validate().is_err(), "{bad:?}");
        }
        assert!(Schedule::default().validate().is_ok());
    }
}
