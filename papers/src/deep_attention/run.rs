//! The run of a cell, and its outcome.

use crate::deep_attention::cell::Cell;
use crate::deep_attention::net::{DeepNet, features};
use crate::deep_attention::trees;
use crate::support;
use crate::support::paper::{self, Progress};
use emmy::data::{self, Dataset, Options, Split};
use emmy::train::{History, NodeClassification, Trainer, each_epoch};
use emmy::{Real, Result, init};
use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;

/// The finished runs of cells.
pub type Run = paper::Finished<Cell>;
pub type Runs = paper::Runs<Cell>;

/// The outcome of a run. An accuracy is `None` if no epoch had a finite validation loss.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Outcome {
    /// Test accuracy at the best validation epoch.
    pub test_acc: Option<f64>,
    pub val_acc: Option<f64>,
    /// The best validation epoch; 0 if there is none.
    pub best_epoch: usize,
    /// Test accuracy at the last epoch, which the published code reports.
    pub last_test_acc: Option<f64>,
    /// The largest training accuracy of any epoch, without dropout.
    pub train_acc: Option<f64>,
    pub epochs: usize,
    /// The training loss where the last step began.
    pub final_loss: Option<f64>,
    /// The largest norm, at any step, of the gradient of the attention parameters of one layer (of all
    /// parameters if the layer has no attention). `None` if no gradient was finite.
    pub max_gradient_norm: Option<f64>,
    /// The same over all parameters of a layer.
    pub max_layer_gradient_norm: Option<f64>,
    /// The reason if the run ended early.
    pub stopped: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dynamics: Option<Dynamics>,
}

/// A training, epoch by epoch.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Dynamics {
    pub train_acc: Vec<f32>,
    pub val_acc: Vec<f32>,
    /// The norms of gradients of which `max_gradient_norm` is the largest: per epoch one number per layer;
    /// `None` if it is not finite.
    pub gradients: Vec<Vec<Option<f32>>>,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.test_acc {
            Some(accuracy) => write!(f, "{:.1} %", 100.0 * accuracy)?,
            None => write!(f, "diverged")?,
        }
        write!(f, " at epoch {} of {}", self.best_epoch, self.epochs)
    }
}

/// A data set with its split.
pub struct Prepared {
    set: Dataset,
    split: Split,
}

/// The seed of TREES: the trees are a data set, the same for all cells.
const TREES: u64 = 2021;

impl Prepared {
    /// # Errors
    /// If the set is not found or damaged.
    pub fn new(cell: &Cell, folder: Option<&Path>) -> Result<Self> {
        let set = match trees::depth(&cell.dataset) {
            Some(depth) => trees::trees(depth, cell.trees.unwrap_or(0), TREES)?,
            None => {
                let options = Options {
                    folder: folder.map(Path::to_owned),
                    ..Options::default()
                };
                data::load(&cell.dataset, &options)?
            }
        };
        let split = set.split(0)?.clone();
        Ok(Self { set, split })
    }

    pub fn set(&self) -> &Dataset {
        &self.set
    }

    pub fn split(&self) -> &Split {
        &self.split
    }

    /// The nodes whose features are erased: a part of the nodes outside the training set, drawn anew for
    /// every seed.
    pub fn erased(&self, percent: f64, seed: u64) -> Vec<bool> {
        let others = |&i: &usize| !self.split.train[i];
        let mut nodes: Vec<usize> = (0..self.set.nodes()).filter(others).collect();
        nodes.shuffle(&mut init::rng(seed));
        let count = (nodes.len() as f64 * percent / 100.0).round() as usize;
        let mut erased = vec![false; self.set.nodes()];
        for &node in &nodes[..count.min(nodes.len())] {
            erased[node] = true;
        }
        erased
    }
}

impl Cell {
    /// Trains the cell's network in numbers of one type.
    ///
    /// # Errors
    /// If the cell is not valid. A loss that becomes infinite is an outcome, not an error.
    pub fn train<F: Real>(&self, data: &Prepared, progress: &Progress) -> Result<Outcome> {
        let Prepared { set, split } = data;
        let network = self.network(set)?;
        let net =
            DeepNet::<F>::new(network, self.seed, self.published_start)?.with_residuals(self.place);
        let (all, attention) = (net.layers(), net.attention());
        let scored = match attention.iter().all(Vec::is_empty) {
            true => all.clone(),
            false => attention,
        };
        let x = features::<F>(set, self.normalized, &data.erased(self.missing, self.seed));
        let neighbours = network.neighbourhood(&set.graph);
        let task = NodeClassification::new(&set.labels, split, |net: &DeepNet<F>, pass| {
            net.forward(pass, pass.tape().sparse(&x), &neighbours)
        })?;
        let mut trainer = Trainer::new(net, self.training())?;
        let epochs = each_epoch(|_: &Trainer<F, DeepNet<F>>, _| progress.step());
        let fitted = trainer.fit_observed(&task, epochs);
        let history = trainer.history();
        let stopped = support::diverged(fitted, history);
        let metric = |name: &str| history.best().map(|best| best.metrics[name]);
        let records = history.records.iter();
        let gradients = norms(history, &scored);
        let largest = |norms: &[Vec<f64>]| {
            let finite = norms.iter().flatten().copied().filter(|n| n.is_finite());
            finite.reduce(f64::max)
        };
        Ok(Outcome {
            test_acc: metric("test_acc"),
            val_acc: metric("val_acc"),
            best_epoch: history.best().map_or(0, |best| best.epoch),
            last_test_acc: (history.last().filter(|_| stopped.is_none()))
                .map(|last| last.metrics["test_acc"]),
            train_acc: metric("train_acc")
                .and(records.map(|r| r.metrics["train_acc"]).reduce(f64::max)),
            epochs: history.epochs(),
            final_loss: history.last().map(|last| history.training_loss(last.epoch)),
            max_gradient_norm: largest(&gradients),
            max_layer_gradient_norm: largest(&norms(history, &all)),
            stopped,
            dynamics: self.recorded.then(|| Dynamics::new(history, &gradients)),
        })
    }
}

/// Per step, the norms of the gradients of groups of parameters.
fn norms(history: &History, groups: &[Vec<usize>]) -> Vec<Vec<f64>> {
    let steps = history.steps.iter();
    let of = |norms: &[f64], group: &Vec<usize>| {
        group.iter().fold(0.0, |sum: f64, &k| sum.hypot(norms[k]))
    };
    steps
        .map(|step| {
            groups
                .iter()
                .map(|group| of(&step.gradient_norms, group))
                .collect()
        })
        .collect()
}

impl Dynamics {
    fn new(history: &History, gradients: &[Vec<f64>]) -> Self {
        let metric = |name: &str| {
            let records = history.records.iter();
            records.map(|record| record.metrics[name] as f32).collect()
        };
        let finite = |&norm: &f64| Some(norm as f32).filter(|norm| norm.is_finite());
        Self {
            train_acc: metric("train_acc"),
            val_acc: metric("val_acc"),
            gradients: gradients
                .iter()
                .map(|norms| norms.iter().map(finite).collect())
                .collect(),
        }
    }
}
