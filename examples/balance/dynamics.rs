//! What figures keep of a recorded training: spreads over neurons instead of every neuron.

use emmy::train::{History, Recording, Spread};
use serde::{Deserialize, Serialize};

/// A training, sampled.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Dynamics {
    /// The names of the laws and of the parameters.
    pub laws: Vec<String>,
    pub parameters: Vec<String>,
    pub samples: Vec<Sample>,
}

/// One point of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Sample {
    pub epoch: usize,
    pub loss: f64,
    pub val_acc: f64,
    pub test_acc: f64,
    /// Of each law over its neurons: δ, |δ| relative to what it sums, c.
    pub delta: Vec<Option<Spread>>,
    pub relative_delta: Vec<Option<Spread>>,
    pub balance: Vec<Option<Spread>>,
    /// ‖G‖_F / ‖θ‖_F of each parameter; none where θ = 0.
    pub gradient: Vec<Option<f64>>,
}

impl Dynamics {
    /// From what was recorded and the history of the same training.
    pub fn new(recording: &Recording, history: &History) -> Self {
        let finite =
            |values: &Vec<f64>| Spread::of(values.iter().copied().filter(|v| v.is_finite()));
        let samples = recording.samples.iter().filter_map(|sample| {
            // The accuracies are those after the step that begins at the sample.
            let record = history.records.get(sample.epoch - 1)?;
            let gradient = (0..recording.parameters.len()).map(|k| {
                let ratio = sample.relative_gradient(k).whole;
                ratio.is_finite().then_some(ratio)
            });
            Some(Sample {
                epoch: sample.epoch,
                loss: sample.loss,
                val_acc: record.metrics["val_acc"],
                test_acc: record.metrics["test_acc"],
                delta: sample.delta_absolute.iter().map(finite).collect(),
                relative_delta: sample.delta.iter().map(finite).collect(),
                balance: sample.balance.iter().map(finite).collect(),
                gradient: gradient.collect(),
            })
        });
        Self {
            laws: recording.laws.clone(),
            parameters: recording.parameters.clone(),
            samples: samples.collect(),
        }
    }
}
