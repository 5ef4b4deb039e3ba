//! The output of `--watch`: how alike the nodes have become after each layer.

use crate::cora::cli::Cli;
use crate::support::{note, say};
use emmy::data::Dataset;
use emmy::graph::Neighbourhood;
use emmy::nn::{Collapse, GraphNet, GraphNetConfig, Trace};
use emmy::sparse::Csr;
use emmy::train::Trainer;
use emmy::{Real, Result};

/// Measures a network during its training.
pub struct Looks<F: Real> {
    x: Csr<F>,
    neighbours: Neighbourhood<F>,
    /// Epochs between two measurements.
    every: usize,
    json: bool,
}

impl<F: Real> Looks<F> {
    /// On the features of a data set.
    pub fn new(cli: &Cli, set: &Dataset, config: GraphNetConfig, x: Csr<F>) -> Self {
        Self {
            x,
            neighbours: config.neighbourhood(&set.graph),
            every: cli.training(0).epochs.div_ceil(10).max(1),
            json: cli.runs.json,
        }
    }

    /// The measures after each layer and norm.
    fn at(&self, net: &GraphNet<F>) -> Result<Collapse> {
        let trace = Trace::evaluated(net, |pass| {
            net.forward(pass, pass.tape().sparse(&self.x), &self.neighbours)
        });
        // The calls of the network itself that have parameters or a name: not its dropout.
        let graph = Some(self.neighbours.graph());
        trace.collapse_where(graph, |call| {
            call.parent == Some(0) && !call.path.is_empty()
        })
    }

    /// Shows all measures as a table.
    ///
    /// # Errors
    /// If standard output cannot be written.
    pub fn tell(&self, when: &str, net: &GraphNet<F>) -> Result<()> {
        self.print(format!("{when}:\n{}", self.at(net)?))
    }

    /// Shows effective ranks and similarities in a line, if a measurement is due in this epoch.
    ///
    /// # Errors
    /// If standard output cannot be written.
    pub fn during(&self, trainer: &Trainer<F, GraphNet<F>>) -> Result<()> {
        let epoch = trainer.history().epochs();
        if !epoch.is_multiple_of(self.every) {
            return Ok(());
        }
        let layers = self.at(trainer.model())?.layers;
        let row = |of: &dyn Fn(&emmy::nn::Measures) -> f64| {
            let texts = layers.iter().map(|m| format!("{:.2}", of(m)));
            texts.collect::<Vec<_>>().join(" ")
        };
        self.print(format!(
            "epoch {epoch}: effective rank {}; cosine similarity {}",
            row(&|m| m.effective_rank),
            row(&|m| m.similarity)
        ))
    }

    fn print(&self, text: String) -> Result<()> {
        match self.json {
            true => {
                note(text);
                Ok(())
            }
            false => say(text),
        }
    }
}
