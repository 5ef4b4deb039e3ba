//! Where a run stands.

use super::History;
use crate::error::{Error, Result};
use crate::optim::{Optimizer, Plateau};
use crate::real::Real;
use crate::tensor::Tensor;
use serde::{Deserialize, Serialize};

/// All that a run needs to go on as if it had not stopped: plain data for a checkpoint ([`crate::store`]).
///
/// What is random in epoch e follows from the seed and e alone, so these two are the state of the random numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Progress<F: Real> {
    /// What is trained on what: a run with another description is another run.
    pub description: String,
    /// The seed of dropout and all else that is random in a pass.
    pub seed: u64,
    /// The parameters after the last epoch, with their names.
    pub parameters: Vec<(String, Tensor<F>)>,
    /// The parameters of the best epoch.
    pub best: Vec<Tensor<F>>,
    /// The state of the optimiser.
    pub optimizer: Optimizer<F>,
    /// The state of the plateau schedule, if there is one.
    pub plateau: Option<Plateau>,
    /// Every epoch so far.
    pub history: History,
}

impl<F: Real> Progress<F> {
    /// The number of epochs done.
    pub fn epoch(&self) -> usize {
        self.history.epochs()
    }

    /// Checks that this is the progress of a model with these parameters, and one that can be: state and history fit them.
    ///
    /// # Errors
    /// If a name or a shape differs; the message names the first that does. If another part does not fit.
    pub fn check_parameters(&self, expected: &[(String, &Tensor<F>)]) -> Result<()> {
        let list = |name: &str, shape: &[usize]| format!("{name} of shape {shape:?}");
        let nothing = || "none".to_owned();
        for k in 0..expected.len().max(self.parameters.len()) {
            let expected = expected.get(k).map(|(name, p)| list(name, p.shape()));
            let found = (self.parameters.get(k)).map(|(name, p)| list(name, p.shape()));
            if expected != found {
                return Err(Error::invalid(
                    format!("checkpoint of another model: parameter {k}"),
                    expected.unwrap_or_else(nothing),
                    found.unwrap_or_else(nothing),
                ));
            }
        }
        let names: Vec<&str> = expected.iter().map(|(name, _)| name.as_str()).collect();
        self.history.check(&names)?;
        let shapes = |p: &Tensor<F>| p.shape().to_vec();
        let fits = self
            .best
            .iter()
            .map(shapes)
            .eq(self.parameters.iter().map(|(_, p)| shapes(p)));
        let none_yet = self.best.is_empty() && self.epoch() == 0;
        if !(fits || none_yet) {
            return Err(Error::invalid(
                "checkpoint: best parameters",
                "the shapes of the parameters",
                "others",
            ));
        }
        let sizes: Vec<usize> = self.parameters.iter().map(|(_, p)| p.len()).collect();
        self.optimizer.check_sizes(&sizes)?;
        // An epoch is a step. With the state before the first the run would go on, but otherwise than it would have.
        let (steps, epochs) = (self.optimizer.steps(), self.epoch());
        if steps != epochs as u64 {
            return Err(Error::invalid(
                "checkpoint: state of the optimiser",
                format!("that after {epochs} steps, one an epoch"),
                format!("that after {steps}"),
            ));
        }
        Ok(())
    }

    /// Checks that the run that stands at `other` may go on from here: the same model, description, seed and rule of updates.
    pub(super) fn check_run(&self, other: &Self) -> Result<()> {
        let differs = |what: &str, expected: String, found: String| {
            Err(Error::invalid(
                format!("checkpoint of another run: {what}"),
                expected,
                found,
            ))
        };
        if self.description != other.description {
            let (expected, found) = (other.description.clone(), self.description.clone());
            return differs("description", expected, found);
        }
        let parameters = other.parameters.iter().map(|(name, p)| (name.clone(), p));
        self.check_parameters(&parameters.collect::<Vec<_>>())?;
        if self.seed != other.seed {
            return differs("seed", other.seed.to_string(), self.seed.to_string());
        }
        let same_plateau = match (&self.plateau, &other.plateau) {
            (Some(a), Some(b)) => a.same_rule(b),
            (None, None) => true,
            _ => false,
        };
        if !self.optimizer.same_rule(&other.optimizer) || !same_plateau {
            let rule = |p: &Self| format!("{:?}, plateau {:?}", p.optimizer.method(), p.plateau);
            return differs("rule of updates", rule(other), rule(self));
        }
        Ok(())
    }
}
