//! The records of a training, step by step and epoch by epoch.

use super::{BestBy, Metrics};
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};

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
/// The training loss and the gradient at the same point are in the record of the step that begins there:
/// `history.steps.get(record.steps)`, and none for the last epoch.
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

    /// Whether the best epoch is that which `best_by` chooses.
    pub(super) fn is_best_by(&self, best_by: &BestBy) -> bool {
        let mut again = Self::new(self.names.clone());
        for record in &self.records {
            if record.metrics.get(best_by.metric()).is_none() {
                return false;
            }
            again.push(record.clone(), best_by);
        }
        again.best == self.best
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
}
