//! A recorded training as figures store it: the spread over neurons in place of every neuron.

use super::entries::Spread;
use emmy::train::{History, Recording};
use serde::{Deserialize, Serialize};

/// Samples of a training.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Dynamics {
    /// The names of the laws and of the parameters.
    pub laws: Vec<String>,
    pub parameters: Vec<String>,
    pub samples: Vec<Sample>,
}

/// One sample.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Sample {
    pub epoch: usize,
    pub loss: f64,
    pub val_acc: f64,
    pub test_acc: f64,
    /// The spread of each law over its neurons: δ, |δ| relative to the sum of its terms, c.
    pub delta: Vec<Option<Spread>>,
    pub relative_delta: Vec<Option<Spread>>,
    pub balance: Vec<Option<Spread>>,
    /// ‖G‖_F / ‖θ‖_F of each parameter; none where θ = 0.
    pub gradient: Vec<Option<f64>>,
}

impl Dynamics {
    /// The samples from the records of a training and its history.
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
