//! What happened, epoch by epoch.

use super::Select;
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One epoch: a forward pass, a backward pass, a step, an evaluation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The number of the epoch, from 1.
    pub epoch: usize,
    /// The training loss before the step, with dropout.
    pub loss: f64,
    /// The learning rate of the step.
    pub lr: f64,
    /// ‖∂L/∂θ‖ of each parameter before the step, in the order of [`History::names`].
    pub gradient_norms: Vec<f64>,
    /// The accuracy on the training nodes after the step, without dropout; the same holds for what follows.
    pub train_acc: f64,
    /// The cross-entropy on the validation nodes.
    pub val_loss: f64,
    /// The accuracy on the validation nodes.
    pub val_acc: f64,
    /// The accuracy on the test nodes.
    pub test_acc: f64,
    /// Milliseconds the epoch took, evaluation included. The only field that differs between runs of one seed.
    pub ms: f64,
}

/// The records of all epochs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct History {
    /// The names of the parameters.
    pub names: Vec<String>,
    /// One record an epoch.
    pub records: Vec<Record>,
    best: Option<usize>,
}

impl History {
    /// An empty history of a model with these parameters.
    pub(super) fn new(names: Vec<String>) -> Self {
        Self {
            names,
            ..Self::default()
        }
    }

    /// Adds a record; says whether it is the best so far.
    pub(super) fn push(&mut self, record: Record, select: Select) -> bool {
        let better = self.best().is_none_or(|best| match select {
            Select::Accuracy => record.val_acc > best.val_acc,
            // Nothing is below NaN, so one that came first would stay.
            Select::Loss => {
                record.val_loss < best.val_loss
                    || (best.val_loss.is_nan() && !record.val_loss.is_nan())
            }
        });
        if better {
            self.best = Some(self.records.len());
        }
        self.records.push(record);
        better
    }

    /// Checks that this is a history of a model with parameters of these names; for histories that come from a file.
    ///
    /// # Errors
    /// [`Error::Invalid`] names what does not fit.
    pub(super) fn check(&self, names: &[&str]) -> Result<()> {
        let refuse = |what: &str, expected: String, found: String| {
            Err(Error::invalid(format!("history: {what}"), expected, found))
        };
        if self.names != names {
            return refuse("names", format!("{names:?}"), format!("{:?}", self.names));
        }
        for (k, record) in self.records.iter().enumerate() {
            if record.epoch != k + 1 {
                return refuse("epoch", (k + 1).to_string(), record.epoch.to_string());
            }
            let norms = record.gradient_norms.len();
            if norms != names.len() {
                let what = format!("gradient norms of epoch {}", k + 1);
                return refuse(&what, names.len().to_string(), norms.to_string());
            }
        }
        if self.best.is_some() != self.best().is_some() {
            let expected = format!("one of {}", self.records.len());
            return refuse("best record", expected, format!("{:?}", self.best));
        }
        Ok(())
    }

    /// The number of epochs.
    pub fn epochs(&self) -> usize {
        self.records.len()
    }

    /// The best epoch so far.
    pub fn best(&self) -> Option<&Record> {
        self.records.get(self.best?)
    }

    /// The last epoch.
    pub fn last(&self) -> Option<&Record> {
        self.records.last()
    }

    /// Milliseconds an epoch took on average, evaluation included; NaN before the first.
    pub fn ms_per_epoch(&self) -> f64 {
        self.records.iter().map(|r| r.ms).sum::<f64>() / self.records.len() as f64
    }

    /// √Σ ‖∂L/∂θ‖² over the parameters of each layer, epoch by epoch. A parameter's layer is its name up to its last number
    /// (`layers.0` of `layers.0.source.weight`), or the whole name if there is none.
    pub fn layer_gradient_norms(&self) -> BTreeMap<String, Vec<f64>> {
        let mut out: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for (k, name) in self.names.iter().enumerate() {
            let norms = out
                .entry(layer_of(name))
                .or_insert_with(|| vec![0.0; self.epochs()]);
            for (norm, record) in norms.iter_mut().zip(&self.records) {
                *norm = norm.hypot(record.gradient_norms[k]);
            }
        }
        out
    }
}

fn layer_of(name: &str) -> String {
    let parts: Vec<&str> = name.split('.').collect();
    let is_number = |part: &&str| part.parse::<usize>().is_ok();
    match parts.iter().rposition(is_number) {
        Some(last) => parts[..=last].join("."),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(epoch: usize, val_acc: f64, val_loss: f64) -> Record {
        Record {
            epoch,
            loss: 1.0,
            lr: 0.1,
            gradient_norms: vec![3.0, 4.0, 5.0],
            train_acc: 0.5,
            val_loss,
            val_acc,
            test_acc: 0.5,
            ms: epoch as f64,
        }
    }

    #[test]
    fn the_first_of_equals_is_best() {
        for (select, best) in [(Select::Accuracy, 2), (Select::Loss, 1)] {
            let mut history = History::default();
            assert!(history.best().is_none());
            for (epoch, acc, loss) in [
                (1, 0.2, 1.0),
                (2, 0.5, 2.0),
                (3, 0.5, 1.0),
                (4, f64::NAN, f64::NAN),
            ] {
                history.push(record(epoch, acc, loss), select);
            }
            assert_eq!(history.best().unwrap().epoch, best);
            assert_eq!(history.ms_per_epoch(), 2.5);
        }
    }

    #[test]
    fn a_loss_that_is_not_a_number_is_no_best_one() {
        let mut history = History::default();
        for (epoch, loss) in [(1, f64::NAN), (2, 3.0), (3, f64::NAN), (4, 2.0)] {
            history.push(record(epoch, 0.5, loss), Select::Loss);
        }
        assert_eq!(history.best().unwrap().epoch, 4);
    }

    #[test]
    fn gradient_norms_are_taken_together_by_layer() {
        let names = ["layers.0.weight", "layers.0.source.bias", "scale"].map(String::from);
        let mut history = History::new(names.to_vec());
        history.push(record(1, 0.1, 1.0), Select::Accuracy);
        let norms = history.layer_gradient_norms();
        assert_eq!(norms.len(), 2);
        assert_eq!((norms["layers.0"][0], norms["scale"][0]), (5.0, 5.0));
        assert_eq!(layer_of("blocks.1.layers.0.weight"), "blocks.1.layers.0");
    }
}
