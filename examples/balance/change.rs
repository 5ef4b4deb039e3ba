//! How far parameters have moved, as "Are GATs Out of Balance?" counts it (section 7).

use emmy::{Real, Tensor};
use serde::{Deserialize, Serialize};

/// A parameter counts as significant from this size on (|w*| ≥ 10⁻⁴).
const SIGNIFICANT: f64 = 1e-4;

/// Numbers that a box of a box plot is drawn from.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    pub least: f64,
    pub quarter: f64,
    pub median: f64,
    pub three_quarters: f64,
    pub largest: f64,
    pub mean: f64,
}

/// The change of one parameter of the network, a weight or an attention vector.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LayerChange {
    /// Its place in the network's list.
    pub parameter: usize,
    pub is_attention: bool,
    /// The share of its entries that are what they were, bit for bit.
    pub unchanged: f64,
    /// The share of its significant entries whose relative change |(w* − w₀)/w*| exceeds 0.05, and 0.5.
    pub beyond_005: f64,
    pub beyond_05: f64,
    /// Of the entries that changed: the relative change of a weight, the absolute change |a* − a₀| of an attention entry. None if no
    /// entry changed.
    pub spread: Option<Spread>,
}

/// The change of every parameter.
pub fn layer_changes<F: Real>(
    initial: &[Tensor<F>],
    last: &[&Tensor<F>],
    attention: &[bool],
) -> Vec<LayerChange> {
    let pairs = initial.iter().zip(last).zip(attention).enumerate();
    pairs
        .map(|(parameter, ((w0, w), &is_attention))| {
            let entries: Vec<(f64, f64)> = (w0.iter().zip(w.iter()))
                .map(|(a, b)| (a.as_f64(), b.as_f64()))
                .collect();
            let share = |count: usize, of: usize| count as f64 / of.max(1) as f64;
            let relative = |&(w0, w): &(f64, f64)| ((w - w0) / w).abs();
            let significant: Vec<f64> = (entries.iter())
                .filter(|(_, w)| w.abs() >= SIGNIFICANT)
                .map(relative)
                .collect();
            let beyond = |least: f64| {
                share(
                    significant.iter().filter(|&&c| c > least).count(),
                    significant.len(),
                )
            };
            let changed = entries.iter().filter(|(w0, w)| w0 != w);
            let sizes: Vec<f64> = match is_attention {
                true => changed.map(|(w0, w)| (w - w0).abs()).collect(),
                false => changed.map(relative).filter(|c| c.is_finite()).collect(),
            };
            LayerChange {
                parameter,
                is_attention,
                unchanged: share(
                    entries.iter().filter(|(w0, w)| w0 == w).count(),
                    entries.len(),
                ),
                beyond_005: beyond(0.05),
                beyond_05: beyond(0.5),
                spread: Spread::of(sizes),
            }
        })
        .collect()
}

impl Spread {
    /// Of nothing, none.
    pub fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let place = share * (values.len() - 1) as f64;
            let (low, part) = (place.floor() as usize, place.fract());
            let high = (low + 1).min(values.len() - 1);
            values[low] + part * (values[high] - values[low])
        };
        (!values.is_empty()).then(|| Self {
            least: at(0.0),
            quarter: at(0.25),
            median: at(0.5),
            three_quarters: at(0.75),
            largest: at(1.0),
            mean: values.iter().sum::<f64>() / values.len() as f64,
        })
    }
}
