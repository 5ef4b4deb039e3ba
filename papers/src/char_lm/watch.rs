//! Observers of the training: its conservation laws, its progress, its pace.

use crate::support::interrupt;
use emmy::nn::Trace;
use emmy::train::{History, LawMonitor, Observer, Point, Worst};
use emmy::{Real, Result};
use indicatif::{ProgressBar, ProgressStyle};
use std::cell::{Cell, RefCell};
use std::time::Instant;

/// The laws of the model, at every step or at the first one after each evaluation.
pub struct Watch {
    monitor: LawMonitor,
    always: bool,
    epoch: Cell<usize>,
}

impl Watch {
    /// Cross-entropy does not change if one number is added to all logits of a character, so the laws of such
    /// losses are measured too.
    pub fn new(trace: Trace, always: bool, worst: Option<Worst>) -> Self {
        let laws = [trace.laws(), trace.softmax_laws()].concat();
        Self {
            monitor: LawMonitor::resumed(laws, worst),
            always,
            epoch: Cell::new(0),
        }
    }

    pub fn worst(&self) -> Option<Worst> {
        self.monitor.worst()
    }
}

impl<F: Real, M> Observer<F, M> for &Watch {
    fn before_step(&mut self, point: &Point<'_, F>) -> Result<()> {
        if !self.always && point.epoch == self.epoch.replace(point.epoch) {
            return Ok(());
        }
        Observer::<F, M>::before_step(&mut &self.monitor, point)
    }
}

/// A progress bar over the steps, on standard error if that is a terminal, and the time of each step.
pub struct Steps {
    bar: ProgressBar,
    /// Milliseconds from step to step, without evaluations.
    times: RefCell<Vec<f64>>,
    /// The epoch and the moment of the last step.
    last: Cell<Option<(usize, Instant)>>,
}

impl Steps {
    pub fn new(steps: usize, history: &History) -> Self {
        let style =
            ProgressStyle::with_template("step {pos}/{len} {bar:30} [{elapsed} < {eta}] {msg}")
                .expect("a valid template");
        let bar = ProgressBar::new(steps as u64).with_style(style);
        bar.set_position(history.steps.len() as u64);
        bar.reset_eta();
        Self {
            bar,
            times: RefCell::default(),
            last: Cell::default(),
        }
    }

    /// Runs a function while the bar is not on the screen.
    pub fn aside<R>(&self, what: impl FnOnce() -> R) -> R {
        self.bar.suspend(what)
    }

    /// The median of the milliseconds per step so far, without evaluations; `None` before the second step of
    /// an interval.
    pub fn pace(&self) -> Option<f64> {
        let mut times = self.times.borrow().clone();
        times.sort_by(f64::total_cmp);
        times.get(times.len() / 2).copied()
    }

    /// Shows a message beside the bar.
    pub fn say(&self, what: &'static str) {
        self.bar.set_message(what);
    }

    /// Removes the bar.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}

impl<F: Real, M> Observer<F, M> for &Steps {
    fn before_step(&mut self, point: &Point<'_, F>) -> Result<()> {
        let now = Instant::now();
        if let Some((epoch, before)) = self.last.replace(Some((point.epoch, now)))
            && epoch == point.epoch
        {
            let ms = now.duration_since(before).as_secs_f64() * 1e3;
            self.times.borrow_mut().push(ms);
        }
        if !self.bar.is_hidden() {
            self.bar.set_message(format!("loss {:.3}", point.loss));
            self.bar.inc(1);
        }
        interrupt::check()
    }
}
