//! The progress of a run, on standard error; there is none if that is not a terminal.

use emmy::lipschitz::Interval;
use emmy::train::History;
use indicatif::{ProgressBar, ProgressStyle};

/// The bar of one run.
pub struct Epochs(ProgressBar);

impl Epochs {
    /// A bar of `epochs` epochs at most, of which `done` are done.
    pub fn new(what: &str, epochs: usize, done: usize) -> Self {
        let style =
            ProgressStyle::with_template("{prefix} {bar:30} {pos}/{len} [{elapsed} < {eta}] {msg}")
                .expect("a valid template");
        let bar = ProgressBar::new(epochs as u64).with_style(style);
        bar.set_prefix(what.to_owned());
        bar.set_position(done as u64);
        bar.reset_eta();
        Self(bar)
    }

    /// Advances the bar by one epoch, the last of `history`. The text is built only if the bar is
    /// visible.
    pub fn epoch(&self, history: &History) {
        if let (false, Some(last)) = (self.0.is_hidden(), history.last()) {
            self.0.set_message(format!(
                "loss {:.4}, val {:.1} %",
                history.training_loss(last.epoch),
                100.0 * last.metrics["val_acc"]
            ));
        }
        self.0.inc(1);
    }
}

impl Drop for Epochs {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// The two ends of a number that a search brings together.
pub struct Ends(ProgressBar);

impl Ends {
    pub fn new(what: &str) -> Self {
        let style = ProgressStyle::with_template("{prefix} [{elapsed}] {pos} branches, {msg}")
            .expect("a valid template");
        let bar = ProgressBar::no_length().with_style(style);
        bar.set_prefix(what.to_owned());
        Self(bar)
    }

    pub fn show(&self, ends: &Interval, branches: usize) {
        self.0.set_position(branches as u64);
        self.0.set_message(format!(
            "{:.6} to {:.6}",
            ends.lower.get(),
            ends.upper.get()
        ));
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
