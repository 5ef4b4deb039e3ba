//! The records of a training, step by step and epoch by epoch.

use super::{BestBy, Metrics};
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The record of one step. All numbers are of the point θ at which the step began, that is after `step` − 1
/// steps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepRecord {
    /// The number of the step, from 1.
    pub step: usize,
    /// The number of the epoch it is part of, from 1.
    pub epoch: usize,
    /// The loss of the batch in the training pass, with dropout.
    pub loss: f64,
    /// The metrics of the batch in the same pass.
    pub metrics: Metrics,
    /// The learning rate of the step.
    pub lr: f64,
    /// ‖∂L/∂θ‖ of each parameter, before clipping, in the order of [`History::names`].
    pub gradient_norms: Vec<f64>,
}

/// The record of an epoch. All numbers are of the point θ after its last step.
///
/// The training loss and the gradient at the same point are in the record of the step that begins there,
/// [`History::step_from`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The number of epochs up to this point, from 1.
    pub epoch: usize,
    /// The number of steps up to this point.
    pub steps: usize,
    /// The evaluation at this point, without anything random: [`Task::evaluate`](super::Task::evaluate).
    pub metrics: Metrics,
    /// The time of the epoch in milliseconds, evaluation included. It is the only field that differs between
    /// runs with the same seed.
    pub ms: f64,
}

/// The records of all steps and all epochs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct History {
    /// The names of the parameters.
    pub names: Vec<String>,
    /// One record per epoch.
    pub records: Vec<Record>,
    /// One record per step, those of an unfinished epoch included.
    pub steps: Vec<StepRecord>,
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

    /// Adds the record of an epoch; returns whether the epoch is the best so far. This record and those
    /// before must have the metric that chooses the best epoch.
    pub(super) fn push(&mut self, record: Record, best_by: &BestBy) -> bool {
        let value = |record: &Record| record.metrics[best_by.metric()];
        let loss = record.metrics.get("val_loss");
        let counts = value(&record).is_finite() && loss.is_none_or(f64::is_finite);
        let better = counts
            && self
                .best()
                .is_none_or(|best| best_by.is_better(value(&record), value(best)));
        if better {
            self.best = Some(self.records.len());
        }
        self.records.push(record);
        better
    }

    /// Checks that this is a history of a model with parameters of these names; for histories that come from
    /// a file.
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
        // The epoch of each step, according to the records.
        let mut done = 0;
        for (k, record) in self.records.iter().enumerate() {
            if record.epoch != k + 1 {
                return refuse("epoch", (k + 1).to_string(), record.epoch.to_string());
            }
            let (expected, found) = (done..=self.steps.len(), record.steps);
            if !expected.contains(&found) {
                let what = format!("steps until epoch {}", k + 1);
                return refuse(&what, format!("{expected:?}"), found.to_string());
            }
            done = found;
            let (expected, found) = (&self.records[0].metrics, &record.metrics);
            if !found.names().eq(expected.names()) {
                let what = format!("metrics of epoch {}", k + 1);
                return refuse(&what, expected.listed(), found.listed());
            }
        }
        let mut ends = self.records.iter().map(|record| record.steps).peekable();
        let mut epoch = 1;
        for (k, step) in self.steps.iter().enumerate() {
            while ends.next_if(|&end| end <= k).is_some() {
                epoch += 1;
            }
            if (step.step, step.epoch) != (k + 1, epoch) {
                let place = |step, epoch| format!("{step} of epoch {epoch}");
                let found = place(step.step, step.epoch);
                return refuse("step", place(k + 1, epoch), found);
            }
            let norms = step.gradient_norms.len();
            if norms != names.len() {
                let what = format!("gradient norms of step {}", k + 1);
                return refuse(&what, names.len().to_string(), norms.to_string());
            }
        }
        if self.best.is_some() != self.best().is_some() {
            let expected = format!("one of {}", self.records.len());
            return refuse("best record", expected, format!("{:?}", self.best));
        }
        Ok(())
    }

    /// The number of finished epochs.
    pub fn epochs(&self) -> usize {
        self.records.len()
    }

    /// The number of steps taken since the last finished epoch.
    pub fn unfinished_steps(&self) -> usize {
        self.steps.len() - self.last().map_or(0, |last| last.steps)
    }

    /// The best epoch so far. `None` if no epoch had a finite metric of [`BestBy`] and, if the task has one,
    /// a finite `val_loss`.
    pub fn best(&self) -> Option<&Record> {
        self.records.get(self.best?)
    }

    /// The last epoch.
    pub fn last(&self) -> Option<&Record> {
        self.records.last()
    }

    /// The step that begins where an epoch ended: its loss and gradient are of the point of this record.
    /// `None` for the last epoch.
    pub fn step_from(&self, record: &Record) -> Option<&StepRecord> {
        self.steps.get(record.steps)
    }

    /// The steps of an epoch, counted from 1.
    pub fn steps_of(&self, epoch: usize) -> &[StepRecord] {
        let begin = self.steps.partition_point(|step| step.epoch < epoch);
        let end = self.steps.partition_point(|step| step.epoch <= epoch);
        &self.steps[begin..end]
    }

    /// The mean of the training losses of an epoch, counted from 1, each computed before its step; NaN if the
    /// epoch has no step.
    ///
    /// With several steps these are losses of several points, and of one batch each. With one step it is the
    /// loss of the point where the epoch began.
    pub fn training_loss(&self, epoch: usize) -> f64 {
        let steps = self.steps_of(epoch);
        steps.iter().map(|step| step.loss).sum::<f64>() / steps.len() as f64
    }

    /// The mean time of an epoch in milliseconds, evaluation included; NaN before the first.
    pub fn ms_per_epoch(&self) -> f64 {
        self.records.iter().map(|r| r.ms).sum::<f64>() / self.records.len() as f64
    }

    /// √Σ ‖∂L/∂θ‖² over the parameters of each layer, step by step. A parameter's layer is its name up to its
    /// last number (`layers.0` of `layers.0.source.weight`), or the whole name if there is none.
    pub fn layer_gradient_norms(&self) -> BTreeMap<String, Vec<f64>> {
        let mut out: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for (k, name) in self.names.iter().enumerate() {
            let norms = out
                .entry(layer_of(name))
                .or_insert_with(|| vec![0.0; self.steps.len()]);
            for (norm, step) in norms.iter_mut().zip(&self.steps) {
                *norm = norm.hypot(step.gradient_norms[k]);
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
            steps: 2 * epoch,
            metrics: [("val_acc", val_acc), ("val_loss", val_loss)].into(),
            ms: epoch as f64,
        }
    }

    fn step(step: usize, loss: f64) -> StepRecord {
        StepRecord {
            step,
            epoch: step.div_ceil(2),
            loss,
            metrics: Metrics::default(),
            lr: 0.1,
            gradient_norms: vec![3.0, 4.0, 5.0],
        }
    }

    fn best_epoch(best_by: &BestBy, records: &[(usize, f64, f64)]) -> usize {
        let mut history = History::default();
        assert!(history.best().is_none());
        for &(epoch, acc, loss) in records {
            history.push(record(epoch, acc, loss), best_by);
        }
        assert_eq!(history.ms_per_epoch(), 2.5);
        history.best().unwrap().epoch
    }

    #[test]
    fn the_first_of_equals_is_best() {
        let records = [
            (1, 0.2, 1.0),
            (2, 0.5, 2.0),
            (3, 0.5, 1.0),
            (4, f64::NAN, f64::NAN),
        ];
        assert_eq!(best_epoch(&BestBy::ACCURACY, &records), 2);
        assert_eq!(best_epoch(&BestBy::LOSS, &records), 1);
    }

    #[test]
    fn what_is_not_a_number_is_no_best_one() {
        let nan = f64::NAN;
        let records = [(1, nan, nan), (2, 0.5, 3.0), (3, nan, nan), (4, 0.6, 2.0)];
        assert_eq!(best_epoch(&BestBy::ACCURACY, &records), 4);
        assert_eq!(best_epoch(&BestBy::LOSS, &records), 4);
        // A good accuracy does not count if the loss is not finite.
        let infinity = f64::INFINITY;
        let records = [
            (1, 0.9, nan),
            (2, 0.5, 3.0),
            (3, 0.9, infinity),
            (4, 0.4, -infinity),
        ];
        assert_eq!(best_epoch(&BestBy::ACCURACY, &records), 2);
        assert_eq!(best_epoch(&BestBy::LOSS, &records), 2);
    }

    #[test]
    fn of_epochs_that_are_not_finite_none_is_best() {
        let mut history = History::default();
        for epoch in [1, 2] {
            assert!(!history.push(record(epoch, 0.5, f64::NAN), &BestBy::ACCURACY));
        }
        assert!(history.best().is_none() && history.last().is_some());
    }

    #[test]
    fn gradient_norms_are_taken_together_by_layer() {
        let names = ["layers.0.weight", "layers.0.source.bias", "scale"].map(String::from);
        let mut history = History::new(names.to_vec());
        history.steps.push(step(1, 1.0));
        let norms = history.layer_gradient_norms();
        assert_eq!(norms.len(), 2);
        assert_eq!((norms["layers.0"][0], norms["scale"][0]), (5.0, 5.0));
        assert_eq!(layer_of("blocks.1.layers.0.weight"), "blocks.1.layers.0");
    }

    #[test]
    fn steps_and_epochs_are_found_from_each_other() {
        let names = ["a", "b", "c"];
        let mut history = History::new(names.map(String::from).to_vec());
        for (k, loss) in [4.0, 3.0, 2.0, 1.0, 0.5].into_iter().enumerate() {
            history.steps.push(step(k + 1, loss));
            if k % 2 == 1 {
                let record = record(k / 2 + 1, 0.5, 0.5);
                history.push(record, &BestBy::LOSS);
            }
        }
        assert_eq!((history.epochs(), history.unfinished_steps()), (2, 1));
        let losses = |epoch| -> Vec<f64> {
            let steps = history.steps_of(epoch).iter();
            steps.map(|step| step.loss).collect()
        };
        assert_eq!(losses(2), [2.0, 1.0]);
        assert_eq!(losses(3), [0.5]);
        assert_eq!(history.training_loss(1), 3.5);
        assert!(history.training_loss(4).is_nan());
        let next = history.step_from(&history.records[0]).unwrap();
        assert_eq!((next.step, next.loss), (3, 2.0));
        history.check(&names).unwrap();
        // If an epoch lacks a metric, or a file has a wrong name for it, the metric would be missing when
        // epochs are compared.
        let mut other = history.clone();
        other.records[1].metrics = [("val_acc", 0.5), ("val_los", 0.5)].into();
        let message = other.check(&names).unwrap_err().to_string();
        let expected = "metrics of epoch 2: expected val_acc, val_loss, found val_acc, val_los";
        assert!(message.contains(expected), "{message}");
        // A history with another count of steps, or with steps of other epochs, is of another run.
        let mut other = history.clone();
        other.records[0].steps = 3;
        let message = other.check(&names).unwrap_err().to_string();
        assert!(
            message.contains("expected 3 of epoch 1, found 3 of epoch 2"),
            "{message}"
        );
        history.steps.pop();
        history.steps.pop();
        let message = history.check(&names).unwrap_err().to_string();
        assert!(
            message.contains("steps until epoch 2: expected 2..=3, found 4"),
            "{message}"
        );
    }
}
