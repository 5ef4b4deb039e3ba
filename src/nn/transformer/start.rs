//! The first values of the weights of transformers.

use crate::init::{self, Rng};
use crate::nn::{Module, Role, entries_mut};
use crate::real::Real;

/// Draws every weight and table of `model` from N(0, std²), the weights that add to the residual stream
/// (those whose names end in `output.weight` or `down.weight`) from N(0, `residual`²), and sets biases to 0.
/// Gains stay.
///
/// Radford et al., "Language Models are Unsupervised Multitask Learners" (GPT-2), 2019, Section 2.3: std
/// 0.02, and 0.02/√(2L) for the 2L parts that add to the stream of a model with L layers.
pub(super) fn normal<F: Real>(model: &mut impl Module<F>, std: f64, residual: f64, rng: &mut Rng) {
    for entry in entries_mut(model) {
        let adds = ["output.weight", "down.weight"]
            .iter()
            .any(|end| entry.name.ends_with(end));
        match entry.role {
            Role::Weight | Role::Table => {
                let std = if adds { residual } else { std };
                *entry.tensor = init::normal(entry.tensor.shape(), std, rng);
            }
            Role::Bias => *entry.tensor = init::zeros(entry.tensor.shape()),
            Role::Attention | Role::Gain | Role::Skip | Role::State => {}
        }
    }
}
