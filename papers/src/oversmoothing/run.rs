//! The run of a cell, and its outcome.

use crate::oversmoothing::cell::{Cell, Split as Nodes};
use crate::oversmoothing::net::DeepGcn;
use crate::support;
use crate::support::paper::{self, Progress};
use emmy::collapse::{Spectrum, cosine_similarity, value};
use emmy::data::{self, Dataset, Options, Split};
use emmy::graph::Neighbourhood;
use emmy::train::{NodeClassification, Trainer, each_epoch};
use emmy::{Real, Result, Tensor};
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
    /// Test accuracy after the last epoch, which the published code reports.
    pub last_test_acc: Option<f64>,
    pub final_loss: Option<f64>,
    /// The class that the last network predicts for all nodes, if there is one.
    pub constant: Option<usize>,
    /// Effective rank and mean cosine similarity of the nodes after each hidden layer of the last network.
    pub erank: Vec<Option<f32>>,
    pub similarity: Vec<Option<f32>>,
    /// The reason if the run ended early.
    pub stopped: Option<String>,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.last_test_acc, self.constant) {
            (Some(accuracy), None) => write!(f, "{:.1} %", 100.0 * accuracy),
            (Some(accuracy), Some(class)) => {
                write!(f, "{:.1} %, class {class} for all nodes", 100.0 * accuracy)
            }
            (None, _) => write!(f, "diverged"),
        }
    }
}

/// A data set with its training, validation and test nodes.
pub struct Prepared {
    pub set: Dataset,
    pub split: Split,
}

impl Prepared {
    /// # Errors
    /// If the set is not found or damaged.
    pub fn new(cell: &Cell, folder: Option<&Path>) -> Result<Self> {
        let options = Options {
            folder: folder.map(Path::to_owned),
            ..Options::default()
        };
        let source = data::find(&cell.dataset)?;
        let set = source.load(&options)?;
        let mut split = set.split(0)?.clone();
        // The splits of the heterophilic sets cover all nodes already.
        if cell.split == Nodes::Published && !source.heterophilic {
            split.test = (0..set.nodes())
                .map(|i| !split.train[i] && !split.val[i])
                .collect();
        }
        Ok(Self { set, split })
    }
}

impl Cell {
    /// Trains the cell's network in numbers of one type.
    ///
    /// # Errors
    /// If the cell is not valid. A loss that becomes infinite is an outcome, not an error.
    pub fn train<F: Real>(&self, data: &Prepared, progress: &Progress) -> Result<Outcome> {
        let Prepared { set, split } = data;
        let net = DeepGcn::<F>::new(self, set.feature_count(), set.classes)?;
        let x = match self.raw_features {
            true => set.raw_features::<F>(),
            false => set.normalized_features(),
        };
        let neighbours = Neighbourhood::of(set.graph.with_self_loops());
        let task = NodeClassification::new(&set.labels, split, |net: &DeepGcn<F>, pass| {
            net.forward(pass, pass.tape().sparse(&x), &neighbours, &mut |_| {})
        })?;
        let mut trainer = Trainer::new(net, self.training())?;
        let epochs = each_epoch(|_: &Trainer<F, DeepGcn<F>>, _| progress.step());
        let fitted = trainer.fit_observed(&task, epochs);
        let history = trainer.history();
        let stopped = support::diverged(fitted, history);
        let best = history.best().filter(|_| stopped.is_none());
        let metric = |name: &str| best.map(|best| best.metrics[name]);
        let (layers, logits) = trainer.model().by_layer(&x, &neighbours);
        let of_layers = |measure: &dyn Fn(&Tensor<F>) -> f64| {
            // After a diverged training numbers are not finite, and have no measure.
            let is_finite = |h: &&Tensor<F>| h.iter().all(|x| x.is_finite());
            let values = (layers.iter()).map(|h| Some(h).filter(is_finite).map(measure));
            let values = values.map(|found| found.map(|found| found as f32));
            values.map(|m| m.filter(|m| m.is_finite())).collect()
        };
        Ok(Outcome {
            test_acc: metric("test_acc"),
            val_acc: metric("val_acc"),
            best_epoch: best.map_or(0, |best| best.epoch),
            last_test_acc: (history.last().filter(|_| stopped.is_none()))
                .map(|last| last.metrics["test_acc"]),
            final_loss: history.last().map(|last| history.training_loss(last.epoch)),
            constant: constant(&logits),
            erank: of_layers(&|h| Spectrum::of(h).effective_rank()),
            similarity: of_layers(&|h| value(h, cosine_similarity).as_f64()),
            stopped,
        })
    }
}

/// The class with the largest logit in all rows, if all rows agree.
fn constant<F: Real>(logits: &Tensor<F>) -> Option<usize> {
    let mut classes = logits.outer_iter().map(|row| {
        let better = |best: usize, k: usize| if row[k] > row[best] { k } else { best };
        (0..row.len()).fold(0, better)
    });
    let first = classes.next()?;
    classes.all(|class| class == first).then_some(first)
}
