//! How to train.

use crate::error::{Error, Result};
use crate::nn::{Module, Role};
use crate::optim::{Algorithm, Clip, Optimizer, Plateau, Schedule};
use crate::real::Real;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The metric of the evaluation that chooses the best epoch; the first of equals wins. An epoch whose metric
/// is not a finite number is never best, nor is one whose `val_loss`, if the task has one, is not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum BestBy {
    /// The epoch with the largest value of this metric.
    Largest(Cow<'static, str>),
    /// The epoch with the smallest value of this metric.
    Smallest(Cow<'static, str>),
}

impl BestBy {
    /// The largest `val_acc`.
    pub const ACCURACY: Self = Self::Largest(Cow::Borrowed("val_acc"));

    /// The smallest `val_loss`.
    pub const LOSS: Self = Self::Smallest(Cow::Borrowed("val_loss"));

    /// The name of the metric.
    pub fn metric(&self) -> &str {
        let (Self::Largest(name) | Self::Smallest(name)) = self;
        name
    }

    /// Whether `value` is better than `best`.
    pub fn is_better(&self, value: f64, best: f64) -> bool {
        // Nothing compares with NaN, so one that came first would stay.
        let first_number = best.is_nan() && !value.is_nan();
        match self {
            Self::Largest(_) => value > best || first_number,
            Self::Smallest(_) => value < best || first_number,
        }
    }
}

impl Default for BestBy {
    /// [`ACCURACY`](Self::ACCURACY).
    fn default() -> Self {
        Self::ACCURACY
    }
}

/// How to train. The default is Adam with a learning rate of 0.01 for 200 epochs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrainConfig {
    /// The rule of the updates.
    pub algorithm: Algorithm,
    /// η, the base learning rate.
    pub lr: f64,
    /// λ, the weight decay, coupled or not as the algorithm has it.
    pub weight_decay: f64,
    /// The roles of the parameters that decay; without it all do.
    pub decay_roles: Option<Vec<Role>>,
    /// How gradients are clipped before a step. Records and observers have them as they were.
    pub clip: Option<Clip>,
    /// The factor of the learning rate by the number of epochs or steps.
    pub schedule: Schedule,
    /// The factor of the learning rate by the metric `val_loss`, observed after every epoch.
    pub plateau: Option<Plateau>,
    /// The most epochs to train.
    pub epochs: usize,
    /// Stop after so many epochs without a better one.
    pub patience: Option<usize>,
    /// Stop after an epoch whose mean training loss
    /// ([`History::training_loss`](super::History::training_loss)) is below.
    pub loss_threshold: Option<f64>,
    /// What chooses the best epoch.
    pub best_by: BestBy,
    /// The seed of dropout, the order of batches and all else that is random in the training.
    pub seed: u64,
}

impl Default for TrainConfig {
    fn default() -> Self {
        Self {
            algorithm: Algorithm::ADAM,
            lr: 0.01,
            weight_decay: 0.0,
            decay_roles: None,
            clip: None,
            schedule: Schedule::default(),
            plateau: None,
            epochs: 200,
            patience: None,
            loss_threshold: None,
            best_by: BestBy::default(),
            seed: 0,
        }
    }
}

impl TrainConfig {
    /// The optimiser of a model before its first step.
    pub fn optimizer<F: Real>(&self, model: &impl Module<F>) -> Optimizer<F> {
        let optimizer = Optimizer::new(self.algorithm).weight_decay(self.weight_decay);
        match &self.decay_roles {
            Some(roles) => optimizer.decay_only(model.roles(), |role| roles.contains(&role)),
            None => optimizer,
        }
    }

    /// Whether one can train so.
    ///
    /// # Errors
    /// If a constant breaks its rule; the message names it.
    pub fn validate(&self) -> Result<()> {
        if !(self.lr.is_finite() && self.lr >= 0.0) {
            let found = self.lr.to_string();
            return Err(Error::invalid(
                "learning rate",
                "a number, at least 0",
                found,
            ));
        }
        if let Some(least) = self.loss_threshold.filter(|least| !least.is_finite()) {
            let found = least.to_string();
            return Err(Error::invalid("loss threshold", "a finite number", found));
        }
        let optimizer = Optimizer::<f64>::new(self.algorithm);
        optimizer.weight_decay(self.weight_decay).validate()?;
        self.schedule.validate()?;
        self.clip.map_or(Ok(()), |clip| clip.validate())?;
        self.plateau.map_or(Ok(()), |plateau| plateau.validate())
    }
}
