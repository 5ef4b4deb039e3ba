//! How to train.

use crate::error::{Error, Result, Rules};
use crate::nn::{self, Entry, Module, Role};
use crate::optim::{Algorithm, Clip, Optimizer, Plateau, Schedule};
use crate::real::Real;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The metric of the evaluation that chooses the best epoch; the first of equals wins. An epoch is never best
/// if its metric, or its `val_loss` if the task has one, is not a finite number.
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
        // Comparisons with NaN are false, so a first value of NaN would stay the best.
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
    /// λ, the weight decay; the algorithm determines whether it is coupled.
    pub weight_decay: f64,
    /// The roles of the parameters that decay; with `None` all parameters decay.
    pub decay_roles: Option<Vec<Role>>,
    /// Weight decays of parts of the model, by their path (`"layers"`, `"layers.3.map"`), in place of
    /// [`weight_decay`](Self::weight_decay); the first that fits a parameter counts.
    pub decay_paths: Vec<(String, f64)>,
    /// How gradients are clipped before a step. Records and observers get the gradients before clipping.
    pub clip: Option<Clip>,
    /// The factor of the learning rate by the number of epochs or steps.
    pub schedule: Schedule,
    /// The factor of the learning rate by the metric `val_loss`, observed after every epoch.
    pub plateau: Option<Plateau>,
    /// The most epochs to train.
    pub epochs: usize,
    /// Stop after so many epochs without a better epoch, at least 1.
    pub patience: Option<usize>,
    /// Stop after an epoch whose mean training loss
    /// ([`History::training_loss`](super::History::training_loss)) is below this number.
    pub loss_threshold: Option<f64>,
    /// What chooses the best epoch.
    pub best_by: BestBy,
    /// The seed of dropout, of the order of batches, and of everything else that is random in the training.
    pub seed: u64,
}

impl Default for TrainConfig {
    fn default() -> Self {
        Self {
            algorithm: Algorithm::ADAM,
            lr: 0.01,
            weight_decay: 0.0,
            decay_roles: None,
            decay_paths: Vec::new(),
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
        let optimizer = optimizer.of_roles(nn::roles(model));
        if self.decay_roles.is_none() && self.decay_paths.is_empty() {
            return optimizer;
        }
        let decays = |role| (self.decay_roles.as_ref()).is_none_or(|roles| roles.contains(&role));
        optimizer.decay_each(model.parameters(), |Entry { name, role, .. }| {
            let mut paths = self.decay_paths.iter();
            match paths.find(|(path, _)| is_within(&name, path)) {
                _ if !decays(role) => 0.0,
                Some(&(_, lambda)) => lambda,
                None => self.weight_decay,
            }
        })
    }

    /// Checks that each path of [`decay_paths`](Self::decay_paths) leads to parameters.
    ///
    /// # Errors
    /// [`Error::Invalid`] names the first path that does not.
    pub fn validate_for<F: Real>(&self, model: &impl Module<F>) -> Result<()> {
        let names: Vec<String> = model.parameters().into_iter().map(|p| p.name).collect();
        for (path, _) in &self.decay_paths {
            if !names.iter().any(|name| is_within(name, path)) {
                let what = "weight decay: path";
                let rule = format!("one of the model, such as {}", names.join(", "));
                return Err(Error::invalid(what, rule, path.clone()));
            }
        }
        Ok(())
    }

    /// Checks whether a training with this configuration is possible.
    ///
    /// # Errors
    /// If a constant breaks its rule; the message names it.
    pub fn validate(&self) -> Result<()> {
        let rules = Rules("");
        rules.from_zero("learning rate", self.lr)?;
        rules.finite("loss threshold", self.loss_threshold.unwrap_or(0.0))?;
        rules.sizes(&[("patience", self.patience.unwrap_or(1))])?;
        let optimizer = Optimizer::<f64>::new(self.algorithm);
        let lambdas = self.decay_paths.iter().map(|&(_, lambda)| lambda);
        let optimizer = optimizer.weight_decay(self.weight_decay);
        optimizer.decay_each(lambdas, |lambda| lambda).validate()?;
        self.schedule.validate()?;
        self.clip.map_or(Ok(()), |clip| clip.validate())?;
        self.plateau.map_or(Ok(()), |plateau| plateau.validate())
    }
}

/// Whether the parameter `name` is the one at `path`, or in the part there.
fn is_within(name: &str, path: &str) -> bool {
    let rest = name.strip_prefix(path);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}
