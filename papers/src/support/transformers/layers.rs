//! Measures per layer: how far the tokens of an item have collapsed.

use emmy::collapse::{Spectrum, attention_similarity, cosine_similarity, value, variance};
use emmy::{Tensor, Var};
use serde::{Deserialize, Serialize};

/// Measures per layer, each the mean over items: of the tokens before the first block and after each block,
/// and of the attention of each block. A layer with a number that is not finite has no measures.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Layers {
    /// exp(entropy of the singular values over their sum), Definition 3.1.
    pub effective_rank: Vec<Option<f32>>,
    /// The mean cosine of two tokens, Appendix C.
    pub feature_similarity: Vec<Option<f32>>,
    /// ‖X − 1x̄ᵀ‖² / ‖X‖²: the part of the tokens that is not their mean. (The variance itself grows with the
    /// stream of a pre-norm model.)
    pub variance_share: Vec<Option<f32>>,
    /// The mean cosine of two columns of a head's coefficients, Appendix C; one number per block.
    pub attention_similarity: Vec<Option<f32>>,
    /// The singular values after the last block over their sum, largest first.
    pub spectrum: Vec<f32>,
}

/// The mean of finite numbers; `None` if one of them is not finite.
fn mean(values: impl Iterator<Item = f64>) -> Option<f32> {
    let values: Vec<f64> = values.collect();
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    mean.is_finite().then_some(mean as f32)
}

impl Layers {
    /// The measures of the tokens before the first block, `[items, n, width]`, and of the result of
    /// [`by_layer`](emmy::nn::Transformer::by_layer). Only the first `lengths[k]` tokens of item k count; the
    /// others are padding.
    pub fn of(
        embedded: Var<'_, f32>,
        blocks: &[(Var<'_, f32>, Var<'_, f32>)],
        lengths: &[usize],
    ) -> Self {
        let mut out = Self::default();
        let items = |x: Var<'_, f32>| -> Vec<Tensor<f32>> {
            let items = lengths.iter().enumerate();
            let of = |(k, &n): (usize, &usize)| x.slice(0, k..k + 1).squeeze(0).slice(0, 0..n);
            items.map(|item| of(item).value()).collect()
        };
        let tokens = std::iter::once(embedded).chain(blocks.iter().map(|(y, _)| *y));
        for x in tokens {
            let items = items(x);
            if !items.iter().flatten().all(|x| x.is_finite()) {
                for list in [
                    &mut out.effective_rank,
                    &mut out.feature_similarity,
                    &mut out.variance_share,
                ] {
                    list.push(None);
                }
                out.spectrum.clear();
                continue;
            }
            let spectra: Vec<Spectrum> = items.iter().map(Spectrum::of).collect();
            let ranks = spectra.iter().map(Spectrum::effective_rank);
            out.effective_rank.push(mean(ranks));
            let alike = items.iter().map(|x| value(x, cosine_similarity));
            out.feature_similarity.push(mean(alike));
            out.variance_share
                .push(mean(items.iter().map(variance_share)));
            out.spectrum = shares(&spectra);
        }
        for (_, alpha) in blocks {
            let of = |(k, &n): (usize, &usize)| {
                let heads = alpha.slice(0, k..k + 1).squeeze(0);
                let seen = heads.slice(1, 0..n).slice(2, 0..n);
                f64::from(attention_similarity(seen).item())
            };
            let alike = lengths.iter().enumerate().map(of);
            out.attention_similarity.push(mean(alike));
        }
        out
    }

    /// The effective rank after the last block.
    pub fn last_rank(&self) -> Option<f64> {
        self.effective_rank.last().copied().flatten().map(f64::from)
    }
}

fn variance_share(x: &Tensor<f32>) -> f64 {
    let square: f64 = x.iter().map(|&v| f64::from(v) * f64::from(v)).sum();
    value(x, variance) / square
}

/// The mean over items of the singular values over their sum.
fn shares(spectra: &[Spectrum]) -> Vec<f32> {
    let mut out: Vec<f64> = Vec::new();
    for Spectrum { values, .. } in spectra {
        let total = values.iter().sum::<f64>().max(f64::MIN_POSITIVE);
        out.resize(out.len().max(values.len()), 0.0);
        for (sum, s) in out.iter_mut().zip(values) {
            *sum += s / total / spectra.len() as f64;
        }
    }
    out.into_iter().map(|x| x as f32).collect()
}
