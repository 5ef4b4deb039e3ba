//! A learning rate that falls when progress stops.

use crate::error::{Result, Rules};
use serde::{Deserialize, Serialize};

/// Lowers the learning rate when a loss has stopped falling: PyTorch's `ReduceLROnPlateau` in its mode `min`
/// with a relative threshold. Its state is part of a checkpoint.
///
/// A loss is an improvement if it is below best · (1 − threshold). After more than `patience` observations
/// without one, the factor is multiplied with γ (not below `least`), and for `cooldown` observations none is
/// counted as bad. A factor that would change the rate by at most `eps` stays as it is.
///
/// ```
/// use emmy::optim::Plateau;
/// let mut plateau = Plateau { patience: 1, ..Plateau::default() };
/// for loss in [3.0, 2.0, 2.0, 2.0] {
///     plateau.observe(loss, 0.01);
/// }
/// assert_eq!(plateau.factor(), 0.1);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Plateau {
    /// γ, what the factor is multiplied with; PyTorch's default is 0.1
    pub gamma: f64,
    /// The number of observations without improvement, one after the other, that do not lower the rate yet;
    /// default 10
    pub patience: usize,
    /// Relative improvement that counts; default 10⁻⁴
    pub threshold: f64,
    /// The number of observations after a drop that are not counted as bad; default 0
    pub cooldown: usize,
    /// The least factor; default 0
    pub least: f64,
    /// The largest change of the rate that is not made; default 10⁻⁸. It is no part of a checkpoint: a resumed run
    /// has that of its own configuration.
    #[serde(with = "in_text", default = "least_change")]
    pub eps: f64,
    /// What it has seen.
    pub state: PlateauState,
}

/// What a [`Plateau`] has seen.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PlateauState {
    factor: f64,
    #[serde(with = "or_infinite")]
    best: f64,
    bad: usize,
    cooling: usize,
}

fn least_change() -> f64 {
    1e-8
}

/// A number that stands in configurations as text, and takes no byte of a checkpoint.
mod in_text {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(x: &f64, to: S) -> Result<S::Ok, S::Error> {
        match to.is_human_readable() {
            true => x.serialize(to),
            false => to.serialize_unit(),
        }
    }

    pub fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<f64, D::Error> {
        match from.is_human_readable() {
            true => f64::deserialize(from),
            false => <()>::deserialize(from).map(|()| super::least_change()),
        }
    }
}

/// A number that may be infinite, which JSON has as null.
mod or_infinite {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(x: &f64, to: S) -> Result<S::Ok, S::Error> {
        match to.is_human_readable() {
            true => x.is_finite().then_some(*x).serialize(to),
            false => x.serialize(to),
        }
    }

    pub fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<f64, D::Error> {
        match from.is_human_readable() {
            true => Ok(Option::deserialize(from)?.unwrap_or(f64::INFINITY)),
            false => f64::deserialize(from),
        }
    }
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
            eps: least_change(),
            state: PlateauState::default(),
        }
    }
}

impl Plateau {
    /// What the base learning rate is multiplied with now.
    pub fn factor(&self) -> f64 {
        self.state.factor
    }

    /// Takes note of the loss after one epoch, where `lr` is the rate that the factor multiplies.
    pub fn observe(&mut self, loss: f64, lr: f64) {
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
            let factor = (state.factor * self.gamma).max(self.least);
            if (state.factor - factor) * lr > self.eps {
                state.factor = factor;
            }
            state.cooling = self.cooldown;
            state.bad = 0;
        }
    }

    /// Whether the other has the same constants that a checkpoint keeps, whatever it has seen.
    pub fn same_rule(&self, other: &Self) -> bool {
        self.rule() == other.rule()
    }

    /// The constants that a checkpoint keeps.
    pub(crate) fn rule(&self) -> Self {
        Self {
            state: PlateauState::default(),
            eps: 0.0,
            ..*self
        }
    }

    /// Checks the constants: 0 ≤ γ < 1, 0 ≤ threshold < 1, 0 ≤ least ≤ 1, 0 ≤ eps.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) names the first that breaks its rule.
    pub fn validate(&self) -> Result<()> {
        let (rules, share) = (Rules("plateau"), |x: f64| (0.0..1.0).contains(&x));
        rules.hold(share(self.gamma), "γ", "0 ≤ γ < 1", self.gamma)?;
        let rule = "0 ≤ threshold < 1";
        rules.hold(share(self.threshold), "threshold", rule, self.threshold)?;
        let within = (0.0..=1.0).contains(&self.least);
        rules.hold(within, "least factor", "between 0 and 1", self.least)?;
        rules.from_zero("eps", self.eps)
    }
}
