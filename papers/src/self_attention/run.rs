//! The run of a cell, and its outcome.

use crate::self_attention::cell::{BATCH, CONTEXT, Cell, INTERVAL};
use crate::support;
use crate::support::paper::{self, Progress};
use emmy::data::text::{Symbol, Text};
use emmy::nn::{LanguageModel, Pass};
use emmy::train::{History, NextSymbol, Trainer, each_epoch};
use emmy::{Result, Var};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The finished runs of cells.
pub type Run = paper::Finished<Cell>;

/// The number of windows of an evaluation, and of the test; a short training has fewer test windows.
const EVALUATED: usize = 120;
const TESTED: usize = 1000;
const TESTED_PER_STEP: usize = 10;

/// The outcome of a run, in nats per character.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Outcome {
    /// The test loss of the model of the best evaluation; `None` if no evaluation had a finite loss.
    pub test_loss: Option<f64>,
    pub val_loss: Option<f64>,
    /// The test loss of a model that knows the frequencies of the training text's characters and nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unigram_loss: Option<f64>,
    /// The steps of the best evaluation; 0 if there is none.
    pub best_step: usize,
    pub steps: usize,
    /// The validation loss at each evaluation; none if it is not finite.
    pub curve: Vec<Option<f32>>,
    /// The norm of the gradient of each block: the mean over the steps before each evaluation.
    pub gradients: Vec<Vec<Option<f32>>>,
    /// The reason if the run ended early.
    pub stopped: Option<String>,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.test_loss {
            Some(loss) => write!(f, "{loss:.3} nats")?,
            None => write!(f, "diverged")?,
        }
        write!(f, " at step {} of {}", self.best_step, self.steps)
    }
}

fn forward<'t>(
    net: &LanguageModel<f32>,
    pass: &Pass<'t, '_, f32>,
    symbols: &[usize],
    sequences: usize,
) -> Var<'t, f32> {
    net.forward(pass, symbols, sequences)
}

impl Cell {
    /// Trains the model of the cell.
    ///
    /// # Errors
    /// If the cell is not valid. A loss that becomes infinite is an outcome, not an error.
    pub fn train(&self, text: &Text, progress: &Progress) -> Result<Outcome> {
        let task = NextSymbol::new(text, CONTEXT, BATCH, forward)?
            .steps_per_epoch(INTERVAL.min(self.steps) as usize)
            .evaluated_on(EVALUATED);
        let net = LanguageModel::<f32>::new(self.network(text), self.seed)?;
        let mut trainer = Trainer::new(net, self.training())?;
        let each = each_epoch(|_: &Trainer<f32, LanguageModel<f32>>, _| progress.step());
        let fitted = trainer.fit_observed(&task, each);
        let history = trainer.history();
        let stopped = support::diverged(fitted, history);
        let best = history.best();
        let part = match text.test.len() {
            0 | 1 => &text.validation,
            _ => &text.test,
        };
        let windows = TESTED.min(TESTED_PER_STEP * self.steps as usize);
        let finite = |x: f64| Some(x as f32).filter(|x| x.is_finite());
        let records = history.records.iter();
        Ok(Outcome {
            test_loss: best.map(|_| task.mean_loss(&trainer.best_model(), part, windows)),
            val_loss: best.map(|best| best.metrics["val_loss"]),
            unigram_loss: Some(unigram_loss(text, part)),
            best_step: best.map_or(0, |best| best.steps),
            steps: history.steps.len(),
            curve: records.map(|r| finite(r.metrics["val_loss"])).collect(),
            gradients: gradients(history, self.layers as usize),
            stopped,
        })
    }
}

/// The cross-entropy of a part of the text with the frequencies of the training text, each count one larger.
fn unigram_loss(text: &Text, part: &[Symbol]) -> f64 {
    let mut counts = vec![1.0; text.symbol_count()];
    for &symbol in &text.train {
        counts[usize::from(symbol)] += 1.0;
    }
    let all: f64 = counts.iter().sum();
    let loss = |&symbol: &Symbol| -(counts[usize::from(symbol)] / all).ln();
    part.iter().map(loss).sum::<f64>() / part.len() as f64
}

/// Per evaluation, the mean norm of the gradient of each block over the steps before it.
fn gradients(history: &History, layers: usize) -> Vec<Vec<Option<f32>>> {
    let block = |name: &str| -> Option<usize> {
        let rest = name.strip_prefix("blocks.layers.")?;
        rest.split('.').next()?.parse().ok()
    };
    let blocks: Vec<Option<usize>> = history.names.iter().map(|name| block(name)).collect();
    let epochs = history.steps.last().map_or(0, |step| step.epoch);
    let mut sums = vec![vec![0.0; layers]; epochs];
    let mut counts = vec![0.0; epochs];
    for step in &history.steps {
        let mut squares = vec![0.0; layers];
        for (norm, block) in step.gradient_norms.iter().zip(&blocks) {
            if let Some(block) = block {
                squares[*block] += norm * norm;
            }
        }
        let sums = &mut sums[step.epoch - 1];
        for (sum, square) in sums.iter_mut().zip(squares) {
            *sum += square.sqrt();
        }
        counts[step.epoch - 1] += 1.0;
    }
    let mean = |sum: f64, count: f64| Some((sum / count) as f32).filter(|x| x.is_finite());
    sums.into_iter()
        .zip(counts)
        .map(|(sums, count)| sums.into_iter().map(|sum| mean(sum, count)).collect())
        .collect()
}
