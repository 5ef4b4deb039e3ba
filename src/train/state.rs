//! The state of a run.

use super::History;
use crate::error::{Error, Result};
use crate::nn::{Entry, Module, entries, entries_mut};
use crate::optim::{Optimizer, Plateau};
use crate::real::Real;
use crate::tensor::Tensor;
use serde::{Deserialize, Serialize};

/// Everything that a run needs to continue as if it had not stopped: plain data for a checkpoint
/// ([`crate::store`]).
///
/// The seed and the numbers of epochs and steps determine everything that is random, so they are the state of
/// the random numbers: the number of steps before a step determines its pass, the number of epochs before an
/// epoch determines the order of its batches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct TrainState<F: Real> {
    /// A description of the model and the data: a run with another description is another run.
    pub description: String,
    /// The seed of dropout and everything else that is random.
    pub seed: u64,
    /// The parameters after the last step, with their names.
    pub parameters: Vec<(String, Tensor<F>)>,
    /// The model's state after the last step, such as running statistics, with the names of its tensors.
    pub states: Vec<(String, Tensor<F>)>,
    /// The parameters of the best epoch, then the model's state there; empty as long as no epoch is best.
    pub best: Vec<Tensor<F>>,
    /// The state of the optimiser.
    pub optimizer: Optimizer<F>,
    /// The state of the plateau schedule, if there is one.
    pub plateau: Option<Plateau>,
    /// Every step and every epoch so far.
    pub history: History,
    /// The largest relative δ of the steps so far, where the conservation laws are watched. The trainer does not
    /// know it: who saves the state takes it from the [`LawMonitor`](super::LawMonitor::worst).
    pub worst: Option<Worst>,
}

/// The largest relative δ, and the law, the neuron and the epoch where it was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Worst {
    /// |δ| / Σ|w θ G|.
    pub delta: f64,
    /// The name of the law.
    pub law: String,
    /// The number of the neuron among those of the law, from 0; for a matrix the row.
    pub neuron: usize,
    /// The number of the epoch, from 1.
    pub epoch: usize,
    /// Σ|w θ G| of the neuron relative to the largest of any neuron in that epoch. If this is less than the
    /// rounding error ε of the numbers, δ may be only a rounding error, as large as its terms: large
    /// contributions to G cancel and leave rounding errors
    /// ([`Residual::worst_above`](crate::symmetry::Residual::worst_above)). `None` if all gradients are zero,
    /// and in files of an earlier version, which did not record it.
    #[serde(default)]
    pub share: Option<f64>,
}

impl<F: Real> TrainState<F> {
    /// The number of finished epochs.
    pub fn epochs(&self) -> usize {
        self.history.epochs()
    }

    /// The number of steps taken, those of an unfinished epoch included.
    pub fn steps(&self) -> usize {
        self.history.steps.len()
    }

    /// Checks that this is the state of a training of such a model, and that its parts agree with each other.
    ///
    /// # Errors
    /// If a name or a shape differs; the message names the first difference. If another part does not fit.
    pub fn check_model(&self, model: &impl Module<F>) -> Result<()> {
        let entries = entries(model).into_iter();
        let (trained, states) = entries.partition(Entry::is_trained);
        let of = |all: Vec<Entry<&Tensor<F>>>| -> Vec<String> {
            all.iter().map(|e| listed(&e.name, e.tensor)).collect()
        };
        check_list("parameter", &of(trained), &self.parameters)?;
        check_list("state", &of(states), &self.states)?;
        let names: Vec<&str> = self.parameters.iter().map(|(name, _)| &**name).collect();
        self.history.check(&names)?;
        let all = || self.parameters.iter().chain(&self.states);
        let fits = (self.best.iter().map(|p| p.shape())).eq(all().map(|(_, p)| p.shape()));
        let none_yet = self.best.is_empty() && self.history.best().is_none();
        if !(fits || none_yet) {
            return Err(Error::invalid(
                "checkpoint: best parameters",
                "the shapes of the parameters",
                "others",
            ));
        }
        self.optimizer.check_state(model)?;
        // With an optimiser in the state before the first step the run could continue, but with another
        // result.
        let (expected, found) = (self.steps(), self.optimizer.steps());
        if found != expected as u64 {
            return Err(Error::invalid(
                "checkpoint: state of the optimiser",
                format!("that after {expected} steps"),
                format!("that after {found}"),
            ));
        }
        Ok(())
    }

    /// Gives `model` the weights of the best epoch, as [`Trainer::best_model`](super::Trainer::best_model)
    /// does.
    ///
    /// # Errors
    /// As [`check_model`](Self::check_model), or if no epoch is finished yet.
    pub fn restore_best(&self, model: &mut impl Module<F>) -> Result<()> {
        self.check_model(model)?;
        if self.best.is_empty() {
            let found = format!("{} steps and no evaluation", self.steps());
            return Err(Error::invalid("checkpoint", "an evaluated model", found));
        }
        restore(model, self.best.iter().cloned());
        Ok(())
    }

    /// Checks that a run of `model` in the state `other` can continue from this state: the description,
    /// model, seed and rule of updates must be the same.
    pub(super) fn check_run(&self, other: &Self, model: &impl Module<F>) -> Result<()> {
        self.check_identity(&other.description, other.seed)?;
        self.check_model(model)?;
        let same_plateau = match (&self.plateau, &other.plateau) {
            (Some(a), Some(b)) => a.same_rule(b),
            (None, None) => true,
            _ => false,
        };
        if !self.optimizer.same_rule(&other.optimizer) || !same_plateau {
            let rule = |s: &Self| {
                let plateau = s.plateau.as_ref().map(Plateau::rule);
                format!("{}, plateau {plateau:?}", s.optimizer.rule())
            };
            let (expected, found) = from_difference(&rule(other), &rule(self));
            return Err(differs("rule of updates", expected, found));
        }
        Ok(())
    }

    /// Checks that this is a state of the run with this description and this seed.
    pub(super) fn check_identity(&self, description: &str, seed: u64) -> Result<()> {
        if self.description != description {
            let (expected, found) = from_difference(description, &self.description);
            return Err(differs("description", expected, found));
        }
        if self.seed != seed {
            return Err(differs("seed", seed.to_string(), self.seed.to_string()));
        }
        Ok(())
    }
}

fn differs(what: &str, expected: String, found: String) -> Error {
    Error::invalid(
        format!("checkpoint of another run: {what}"),
        expected,
        found,
    )
}

/// Two texts from a few characters before their first difference on, since messages quote beginnings.
fn from_difference(a: &str, b: &str) -> (String, String) {
    let equal = a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count();
    let rest = |text: &str| match equal.saturating_sub(40) {
        0 => text.to_owned(),
        skipped => "…".to_owned() + &text.chars().skip(skipped).collect::<String>(),
    };
    (rest(a), rest(b))
}

fn listed<F: Real>(name: &str, tensor: &Tensor<F>) -> String {
    format!("{name} of shape {:?}", tensor.shape())
}

fn check_list<F: Real>(
    what: &str,
    expected: &[String],
    found: &[(String, Tensor<F>)],
) -> Result<()> {
    let found: Vec<String> = found.iter().map(|(name, p)| listed(name, p)).collect();
    let at = |list: &[String], k: usize| list.get(k).map_or("none".to_owned(), String::clone);
    match (0..expected.len().max(found.len())).find(|&k| expected.get(k) != found.get(k)) {
        None => Ok(()),
        Some(k) => Err(Error::invalid(
            format!("checkpoint of another model: {what} {k}"),
            at(expected, k),
            at(&found, k),
        )),
    }
}

/// Writes parameters, then state, to a model; tensors that are not given stay as they are.
pub(super) fn restore<F: Real>(
    model: &mut impl Module<F>,
    tensors: impl Iterator<Item = Tensor<F>>,
) {
    for (to, from) in entries_mut(model).into_iter().zip(tensors) {
        *to.tensor = from;
    }
}
