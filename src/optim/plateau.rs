//! A learning rate that falls when progress stops.

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// Lowers the learning rate when a loss has stopped falling: PyTorch's `ReduceLROnPlateau` in its mode `min`
/// with a relative threshold. Its state is part of a checkpoint.
///
/// A loss is an improvement if it is below best · (1 − threshold). After more than `patience` observations
/// without one, the factor is multiplied with γ (not below `least`), and for `cooldown` observations none is
/// counted as bad.
///
/// ```
/// use emmy::optim::Plateau;
/// let mut plateau = Plateau { patience: 1, ..Plateau::default() };
/// for loss in [3.0, 2.0, 2.0, 2.0] {
///     plateau.observe(loss);
/// }
/// assert_eq!(plateau.factor(), 0.1);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Plateau {
    /// γ, what the factor is multiplied with; PyTorch's default is 0.1
    pub gamma: f64,
    /// Observations without improvement that are let pass; default 10
    pub patience: usize,
    /// Relative improvement that counts; default 10⁻⁴
    pub threshold: f64,
    /// Observations after a drop during which none is bad; default 0
    pub cooldown: usize,
    /// The least factor; default 0
    pub least: f64,
    /// What it has seen.
    pub state: PlateauState,
}

/// What a [`Plateau`] has seen.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PlateauState {
    factor: f64,
    best: f64,
    bad: usize,
    cooling: usize,
}

impl Default for PlateauState {
    fn default() -> Self {
        Self {
            factor: 1.0,
            best: f64::INFINITY,
            bad: 0,
            cooling: 0,
        }
    }
}

impl Default for Plateau {
    fn default() -> Self {
        Self {
            gamma: 0.1,
            patience: 10,
            threshold: 1e-4,
            cooldown: 0,
            least: 0.0,
            state: PlateauState::default(),
        }
    }
}

impl Plateau {
    /// What the base learning rate is multiplied with now.
    pub fn factor(&self) -> f64 {
        self.state.factor
    }

    /// Takes note of the loss after one epoch.
    pub fn observe(&mut self, loss: f64) {
        let state = &mut self.state;
        if loss < state.best * (1.0 - self.threshold) {
            state.best = loss;
            state.bad = 0;
        } else {
            state.bad += 1;
        }
        if state.cooling > 0 {
            state.cooling -= 1;
            state.bad = 0;
        }
        if state.bad > self.patience {
            state.factor = (state.factor * self.gamma).max(self.least);
            state.cooling = self.cooldown;
            state.bad = 0;
        }
    }

    /// Whether the other has the same constants, whatever it has seen.
    pub fn same_rule(&self, other: &Self) -> bool {
        let state = PlateauState::default();
        Self { state, ..*self } == Self { state, ..*other }
    }

    /// Checks the constants: 0 ≤ γ < 1, 0 ≤ threshold < 1, 0 ≤ least ≤ 1.
    ///
    /// # Errors
    /// [`Error::Invalid`] names the first that breaks its rule.
    pub fn validate(&self) -> Result<()> {
        for (what, rule, x, ok) in [
            (
                "plateau: γ",
                "0 ≤ γ < 1",
                self.gamma,
                (0.0..1.0).contains(&self.gamma),
            ),
            (
                "plateau: threshold",
                "0 ≤ threshold < 1",
                self.threshold,
                (0.0..1.0).contains(&self.threshold),
            ),
            (
                "plateau: least factor",
                "between 0 and 1",
                self.least,
                (0.0..=1.0).contains(&self.least),
            ),
        ] {
            if !ok {
                return Err(Error::invalid(what, rule, x.to_string()));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_cooldown_and_floor() {
        let mut plateau = Plateau {
            gamma: 0.5,
            patience: 1,
            threshold: 0.1,
            cooldown: 2,
            least: 0.3,
            ..Plateau::default()
        };
        // 9.5 is not 10 % below 10: bad, as the next; then two observations of cooling, and two bad ones again.
        let losses = [10.0, 9.5, 9.5, 9.5, 9.5, 9.5, 9.5, 1.0, 1.0];
        let factors: Vec<f64> = (losses.iter())
            .map(|&loss| {
                plateau.observe(loss);
                plateau.factor()
            })
            .collect();
        assert_eq!(factors, [1.0, 1.0, 0.5, 0.5, 0.5, 0.5, 0.3, 0.3, 0.3]);
    }

    #[test]
    fn senseless_constants_are_refused() {
        let good = Plateau::default();
        assert!(good.validate().is_ok());
        for bad in [
            Plateau { gamma: 1.0, ..good },
            Plateau {
                threshold: f64::NAN,
                ..good
            },
            Plateau { least: 2.0, ..good },
        ] {
            assert!(bad.validate().is_err(), "{bad:?}");
        }
    }
}
