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
        self.optimizer.check_sizes(&sizes)
    }
}
