//! The change of parameters since the start of a training, entry by entry.

use emmy::{Real, Tensor};
use serde::{Deserialize, Serialize};

/// The change from initial entries w₀ to later entries w*. In "Are GATs Out of Balance?", Figures 3a, 4a, 8
/// and 11, w* is the best model of a training.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// |w*|.
    pub magnitude: Vec<f64>,
    /// |w* − w₀|.
    pub absolute: Vec<f64>,
    /// |(w* − w₀) / w*|; 0 for an entry that did not move, ∞ for an entry that moved to 0.
    pub relative: Vec<f64>,
}

/// The change of each entry of a parameter, or of any two tensors of one shape.
///
/// # Panics
/// If the shapes differ.
#[track_caller]
pub fn change<F: Real>(initial: &Tensor<F>, last: &Tensor<F>) -> Change {
    let (from, to) = (initial.shape(), last.shape());
    assert!(from == to, "change: from shape {from:?} to shape {to:?}");
    let pairs = || {
        last.iter()
            .map(|x| x.as_f64())
            .zip(initial.iter().map(|x| x.as_f64()))
    };
    Change {
        magnitude: pairs().map(|(w, _)| w.abs()).collect(),
        absolute: pairs().map(|(w, w0)| (w - w0).abs()).collect(),
        relative: pairs()
            .map(|(w, w0)| match w == w0 {
                true => 0.0,
                false => (w - w0).abs() / w.abs(),
            })
            .collect(),
    }
}

impl Change {
    /// The least |w*| of an entry that is significant in the paper.
    pub const SIGNIFICANT: f64 = 1e-4;

    /// The share of entries whose relative change is above `threshold`, among the entries with |w*| ≥
    /// `least`; NaN if there are none.
    pub fn share_above(&self, threshold: f64, least: f64) -> f64 {
        let entries = self.magnitude.iter().zip(&self.relative);
        share(
            entries
                .filter(|(w, _)| **w >= least)
                .map(|(_, relative)| *relative > threshold),
        )
    }

    /// The share of the entries that did not change at all; NaN if there is none.
    pub fn share_unchanged(&self) -> f64 {
        share(self.absolute.iter().map(|d| *d == 0.0))
    }

    /// The distribution of the finite relative changes other than 0; `None` if there is none.
    pub fn relative_spread(&self) -> Option<Spread> {
        moved(&self.relative)
    }

    /// The distribution of the finite absolute changes other than 0; `None` if there is none.
    pub fn absolute_spread(&self) -> Option<Spread> {
        moved(&self.absolute)
    }
}

fn moved(changes: &[f64]) -> Option<Spread> {
    let finite = changes
        .iter()
        .copied()
        .filter(|d| *d != 0.0 && d.is_finite());
    Spread::of(finite)
}

fn share(of: impl Iterator<Item = bool>) -> f64 {
    let (hits, all) = of.fold((0_usize, 0_usize), |(hits, all), hit| {
        (hits + usize::from(hit), all + 1)
    });
    hits as f64 / all as f64
}

/// A distribution in six numbers: those of a box with whiskers, and the mean.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The smallest value.
    pub min: f64,
    /// The first quartile.
    pub lower: f64,
    /// The median.
    pub median: f64,
    /// The third quartile.
    pub upper: f64,
    /// The largest value.
    pub max: f64,
    /// The mean.
    pub mean: f64,
}

impl Spread {
    /// The distribution of `values`; quartiles are interpolated linearly. `None` if there are no values.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let last = values.len().checked_sub(1)?;
        let quantile = |q: f64| {
            let place = q * last as f64;
            let (below, part) = (values[place as usize], place.fract());
            let above = values[(place as usize + 1).min(last)];
            // Not below + part (above − below): ∞ − ∞ is not a number.
            if part == 0.0 {
                below
            } else {
                (1.0 - part) * below + part * above
            }
        };
        Some(Self {
            min: values[0],
            lower: quantile(0.25),
            median: quantile(0.5),
            upper: quantile(0.75),
            max: values[last],
            mean: values.iter().sum::<f64>() / values.len() as f64,
        })
    }
}
