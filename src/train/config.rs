//! How to train.

use crate::error::{Error, Result};
use crate::optim::{Method, Optimizer, Plateau, Schedule};
use crate::real::Real;
use serde::{Deserialize, Serialize};

/// By what the best epoch is chosen; the first of equals wins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Select {
    /// The largest accuracy on the validation nodes.
    #[default]
    Accuracy,
    /// The smallest cross-entropy on the validation nodes.
    Loss,
}

/// How to train. The default is Adam with a learning rate of 0.01 for 200 epochs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TrainConfig {
    /// The rule of the updates.
    pub method: Method,
    /// η, the base learning rate.
    pub lr: f64,
    /// λ, weight decay of all parameters, coupled or not as the method has it.
    pub weight_decay: f64,
    /// What becomes of the learning rate with the epochs.
    pub schedule: Schedule,
    /// What becomes of it when the validation loss has stopped falling.
    pub plateau: Option<Plateau>,
    /// The most epochs to train.
    pub epochs: usize,
    /// Stop after so many epochs without a better one.
    pub patience: Option<usize>,
    /// Stop when the training loss is below.
    pub loss_threshold: Option<f64>,
    /// By what the best epoch is chosen.
    pub select: Select,
    /// The seed of dropout and all else that is random in a pass.
    pub seed: u64,
}

impl Default for TrainConfig {
    fn default() -> Self {
        Self {
            method: Method::ADAM,
            lr: 0.01,
            weight_decay: 0.0,
            schedule: Schedule::default(),
            plateau: None,
            epochs: 200,
            patience: None,
            loss_threshold: None,
            select: Select::default(),
            seed: 0,
        }
    }
}

impl TrainConfig {
    /// The optimiser before its first step.
    pub fn optimizer<F: Real>(&self) -> Optimizer<F> {
        Optimizer::new(self.method).weight_decay(self.weight_decay)
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
        self.optimizer::<f64>().validate()?;
        self.schedule.validate()?;
        self.plateau.map_or(Ok(()), |plateau| plateau.validate())
    }
}
