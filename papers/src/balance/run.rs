//! The run of a cell, and its outcome.

use crate::balance::cell::Cell;
use crate::balance::change::{LayerChange, layer_changes};
use crate::balance::dynamics::Dynamics;
use crate::support;
use crate::support::paper::{self, Cell as _, Progress};
use emmy::data::{self, Dataset, Direction, Options, Split};
use emmy::init::Initialization;
use emmy::nn::{GraphNet, Module, Role, Summary, Trace, Traced};
use emmy::train::{LawMonitor, NodeClassification, Recorder, Trainer, Worst, each_epoch};
use emmy::{Real, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;

/// The finished runs of cells.
pub type Run = paper::Finished<Cell>;
pub type Runs = paper::Runs<Cell>;

/// The outcome of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Outcome {
    /// Test accuracy at the best validation epoch; none if no epoch had a finite validation loss.
    pub test_acc: Option<f64>,
    pub val_acc: Option<f64>,
    /// The best validation epoch; 0 if there is none.
    pub best_epoch: usize,
    pub epochs: usize,
    /// The training loss at the point where the last step began; none if the first loss was
    /// infinite.
    pub final_loss: Option<f64>,
    /// The largest relative δ over all laws, neurons and epochs; none if the network has no law, or
    /// δ was NaN (see `stopped`).
    pub max_delta: Option<f64>,
    /// The law, neuron and epoch of this δ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worst: Option<Worst>,
    /// The reason if the run ended early: a loss or a δ that is not finite.
    pub stopped: Option<String>,
    /// The change of the parameters from the start to the best epoch, layer by layer.
    pub changes: Vec<LayerChange>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dynamics: Option<Dynamics>,
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

/// A data set, prepared for a cell.
pub struct Prepared {
    set: Dataset,
    split: Split,
}

impl Prepared {
    /// # Errors
    /// If the set is not found, damaged, or has no such split.
    pub fn new(cell: &Cell, folder: Option<&Path>) -> Result<Self> {
        let direction = match cell.directed {
            true => Direction::Directed,
            false => Direction::Symmetrised,
        };
        let options = Options {
            folder: folder.map(Path::to_owned),
            direction,
            ..Options::default()
        };
        let set = data::load(&cell.dataset, &options)?;
        let mut split = set.split(cell.split)?.clone();
        if cell.without_isolated {
            split = set.without_isolated(&split);
        }
        Ok(Self { set, split })
    }

    pub fn set(&self) -> &Dataset {
        &self.set
    }
}

impl Cell {
    /// The layers of the cell's network as a table.
    ///
    /// # Errors
    /// If the cell is not valid.
    pub fn summary(&self, data: &Prepared) -> Result<Summary> {
        self.check(data)?;
        let set = &data.set;
        let config = self.network(set)?;
        let net = GraphNet::<f32>::new(config, self.seed)?;
        let (x, neighbours) = (data::features::<f32>(set), config.neighbourhood(&set.graph));
        let trace = Trace::of(&net, |pass| {
            net.forward(pass, pass.tape().sparse(&x), &neighbours)
        });
        Ok(trace.summary())
    }

    /// Trains the cell's network in numbers of one type.
    ///
    /// # Errors
    /// If the cell is not valid. A loss that becomes infinite is an outcome, not an error.
    pub fn train<F: Real>(&self, data: &Prepared, progress: &Progress) -> Result<Outcome> {
        let Prepared { set, split } = data;
        let network = self.network(set)?;
        let mut net = GraphNet::<F>::new(network, self.seed)?;
        let init: Initialization = self.init.parse()?;
        init.apply(&mut net, self.seed)?;
        let initial: Vec<_> = net.tensors().into_iter().cloned().collect();
        let attention: Vec<bool> = attention_parameters(&net);

        let laws: Vec<_> = net.laws().into_iter().chain(net.softmax_laws()).collect();
        let has_laws = !laws.is_empty();
        let mut monitor = LawMonitor::new(laws.clone());
        let mut recorder = (self.record_every).map(|every| Recorder::new(&net, laws, every));
        let x = match self.raw_features {
            true => set.raw_features(),
            false => data::features::<F>(set),
        };
        let neighbours = network.neighbourhood(&set.graph);
        let task = NodeClassification::new(&set.labels, split, |net: &GraphNet<F>, pass| {
            net.forward(pass, pass.tape().sparse(&x), &neighbours)
        })?;
        let mut trainer = Trainer::new(net, self.training())?;
        let epochs = each_epoch(|_: &Trainer<F, GraphNet<F>>, _| progress.step());
        let fitted = trainer.fit_observed(&task, (&mut monitor, (recorder.as_mut(), epochs)));
        let max_delta = has_laws.then(|| monitor.max_delta());
        let not_a_number = max_delta.filter(|d| d.is_nan());
        let history = trainer.history();
        // If the split fits, the only possible error is a loss that is not finite.
        let stopped = support::diverged(fitted, history)
            .or(not_a_number.map(|_| "δ is not a number".to_owned()));
        let best_model = trainer.best_model();
        let best = history.best();
        Ok(Outcome {
            test_acc: best.map(|best| best.metrics["test_acc"]),
            val_acc: best.map(|best| best.metrics["val_acc"]),
            best_epoch: best.map_or(0, |best| best.epoch),
            epochs: history.epochs(),
            final_loss: history.last().map(|last| history.training_loss(last.epoch)),
            max_delta: max_delta.filter(|d| d.is_finite()),
            worst: monitor.worst().filter(|w| w.delta.is_finite()),
            stopped,
            changes: layer_changes(&initial, &best_model.tensors(), &attention),
            dynamics: recorder.map(|r| Dynamics::new(r.recording(), history)),
        })
    }
}

/// For each parameter, whether it is an attention vector.
fn attention_parameters<F: Real>(net: &GraphNet<F>) -> Vec<bool> {
    let parameters = net.parameters().into_iter();
    parameters.map(|p| p.role == Role::Attention).collect()
}
