//! How far parameters have moved, counted as in "Are GATs Out of Balance?" (section 7).

use super::entries::{Change, Spread, change};
use emmy::{Real, Tensor};
use serde::{Deserialize, Serialize};

/// The change of one parameter of the network, a weight or an attention vector.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LayerChange {
    /// The number of the parameter in the network's list.
    pub parameter: usize,
    pub is_attention: bool,
    /// The share of its entries that are unchanged, bit for bit.
    pub unchanged: f64,
    /// The share of its significant entries whose relative change |(w* − w₀)/w*| exceeds 0.05, and 0.5; 0 if
    /// none is significant.
    pub beyond_005: f64,
    pub beyond_05: f64,
    /// The change of the entries that changed: the relative change of a weight, the absolute change
    /// |a* − a₀| of an attention entry. None if no entry changed.
    pub spread: Option<Spread>,
}

/// The change of every parameter.
pub fn layer_changes<F: Real>(
    initial: &[Tensor<F>],
    last: &[&Tensor<F>],
    attention: &[bool],
) -> Vec<LayerChange> {
    let triples = initial.iter().zip(last).zip(attention).enumerate();
    triples
        .map(|(parameter, ((w0, w), &is_attention))| {
            let change = change(w0, w);
            let beyond = |least: f64| match change.share_above(least, Change::SIGNIFICANT) {
                share if share.is_nan() => 0.0,
                share => share,
            };
            LayerChange {
                parameter,
                is_attention,
                unchanged: change.share_unchanged(),
                beyond_005: beyond(0.05),
                beyond_05: beyond(0.5),
                spread: match is_attention {
                    true => change.absolute_spread(),
                    false => change.relative_spread(),
                },
            }
        })
        .collect()
}
