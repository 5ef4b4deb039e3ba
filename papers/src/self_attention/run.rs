//! The run of a cell, and its outcome.

use crate::self_attention::cell::{BATCH, CONTEXT, Cell, INTERVAL};
use crate::self_attention::frequency_losses;
use crate::support;
use crate::support::paper::{self, Progress};
use emmy::data::text::{Symbol, Text};
use emmy::nn::{LanguageModel, Pass};
use emmy::ops::attention::Mask;
use emmy::train::{History, NextSymbol, Trainer, each_epoch};
use emmy::{Result, Tape, Var};
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
    /// The test losses of models that know the frequencies of the training text's characters, pairs, triples,
    /// and nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unigram_loss: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bigram_loss: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigram_loss: Option<f64>,
    /// At the start, the output of the first block's attention relative to its input: the root mean square of
    /// one divided by that of the other, on a window of the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch_size: Option<f64>,
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

/// The logits of the model whose attention is multiplied by a factor: of post-norm blocks, as all of them are
/// here.
fn scaled<'t>(
    net: &LanguageModel<f32>,
    pass: &Pass<'t, '_, f32>,
    symbols: &[usize],
    sequences: usize,
    factor: f32,
) -> Var<'t, f32> {
    let mut x = net.embedded(pass, symbols, sequences);
    for block in &net.blocks.layers {
        let y = block.attention.forward(pass, x, &Mask::causal());
        x = block.norm1.forward(pass, x + y * factor);
        x = (block.norm2).forward(pass, x + block.feed_forward.forward(pass, x));
    }
    match &net.head {
        Some(head) => head.forward(pass, x),
        None => x.linear(pass.param(&net.tokens.weight)),
    }
}

impl Cell {
    /// Trains the model of the cell.
    ///
    /// # Errors
    /// If the cell is not valid. A loss that becomes infinite is an outcome, not an error.
    pub fn train(&self, text: &Text, progress: &Progress) -> Result<Outcome> {
        let factor = self.factor as f32;
        let task = NextSymbol::new(
            text,
            CONTEXT,
            BATCH,
            |net: &LanguageModel<f32>, pass, symbols, n| match factor {
                1.0 => net.forward(pass, symbols, n),
                _ => scaled(net, pass, symbols, n, factor),
            },
        )?
        .steps_per_epoch(INTERVAL.min(self.steps) as usize)
        .evaluated_on(EVALUATED);
        let mut net = LanguageModel::<f32>::new(self.network(text), self.seed)?;
        for block in &mut net.blocks.layers {
            let weight = &mut block.attention.output.weight;
            *weight = weight.mapv(|w| w * self.branch as f32).into_shared();
        }
        let branch_size = branch_size(&net, &text.validation).map(|size| self.factor * size);
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
        let [unigram, bigram, trigram] = frequency_losses(text, part);
        let windows = TESTED.min(TESTED_PER_STEP * self.steps as usize);
        let finite = |x: f64| Some(x as f32).filter(|x| x.is_finite());
        let records = history.records.iter();
        Ok(Outcome {
            test_loss: best.map(|_| task.mean_loss(&trainer.best_model(), part, windows)),
            val_loss: best.map(|best| best.metrics["val_loss"]),
            unigram_loss: Some(unigram),
            bigram_loss: Some(bigram),
            trigram_loss: Some(trigram),
            branch_size,
            best_step: best.map_or(0, |best| best.steps),
            steps: history.steps.len(),
            curve: records.map(|r| finite(r.metrics["val_loss"])).collect(),
            gradients: gradients(history, self.layers as usize),
            stopped,
        })
    }
}

/// See [`Outcome::branch_size`]; `None` if the text has no character.
fn branch_size(net: &LanguageModel<f32>, text: &[Symbol]) -> Option<f64> {
    let window: Vec<usize> = text.iter().take(CONTEXT).map(|&s| s.into()).collect();
    let first = net.blocks.layers.first().filter(|_| !window.is_empty())?;
    let tape = Tape::new();
    let pass = Pass::eval(&tape, net);
    let x = net.embedded(&pass, &window, 1);
    let y = first.attention.forward(&pass, x, &Mask::causal());
    let square = |x: Var<'_, f32>| x.value().iter().map(|&x| f64::from(x).powi(2)).sum::<f64>();
    Some((square(y) / square(x)).sqrt()).filter(|size| size.is_finite())
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
