//! Measures by layer: how far the tokens of an item have collapsed.

use emmy::linalg::svd;
use emmy::{Tensor, Var};
use serde::{Deserialize, Serialize};

/// Measures by layer, each the mean over items: of the tokens before the first block and behind each, and of
/// the attention of each block. NaN is not written to JSON, so a layer with an infinite number has none.
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
    /// The singular values behind the last block over their sum, largest first.
    pub spectrum: Vec<f32>,
}

/// The mean of finite numbers; none if one is not.
fn mean(values: impl Iterator<Item = f64>) -> Option<f32> {
    let values: Vec<f64> = values.collect();
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    mean.is_finite().then_some(mean as f32)
}

/// Item k of `[items, n, m]`, its first rows and columns.
fn matrix(x: &Tensor<f32>, k: usize, [rows, columns]: [usize; 2]) -> ndarray::Array2<f64> {
    ndarray::Array2::from_shape_fn((rows, columns), |(i, j)| f64::from(x[[k, i, j]]))
}

use emmy::ndarray;

impl Layers {
    /// Of the tokens before the first block, `[items, n, width]`, and what
    /// [`by_layer`](emmy::nn::Transformer::by_layer) gives. Of item k only the first `lengths[k]` tokens count,
    /// the others are padding.
    pub fn of(
        embedded: Var<'_, f32>,
        blocks: &[(Var<'_, f32>, Var<'_, f32>)],
        lengths: &[usize],
    ) -> Self {
        let mut out = Self::default();
        let tokens = std::iter::once(&embedded).chain(blocks.iter().map(|(y, _)| y));
        for (l, x) in tokens.enumerate() {
            let (value, width) = (x.value(), x.shape()[2]);
            let items = lengths.iter().enumerate();
            let items: Vec<_> = items.map(|(k, &n)| matrix(&value, k, [n, width])).collect();
            let is_finite = items.iter().all(|x| x.iter().all(|v| v.is_finite()));
            let of = |measure: fn(&ndarray::Array2<f64>) -> f64| {
                mean(items.iter().filter(|_| is_finite).map(measure))
            };
            out.effective_rank.push(of(rank));
            out.feature_similarity.push(of(cosine_of_rows));
            out.variance_share.push(of(variance_share));
            if l == blocks.len() && is_finite {
                out.spectrum = spectrum(&items);
            }
        }
        for (_, alpha) in blocks {
            let shape = alpha.shape();
            let (heads, n) = (shape[1], shape[2]);
            let value = alpha.reshape(&[shape[0] * heads, n, n]).value();
            let all = lengths.iter().enumerate().flat_map(|(k, &n)| {
                let head = move |h: usize| (k * heads + h, n);
                (0..heads).map(head)
            });
            let columns = all.map(|(k, n)| matrix(&value, k, [n, n]).reversed_axes());
            let columns: Vec<_> = columns.map(|a| cosine_of_rows(&a)).collect();
            out.attention_similarity.push(mean(columns.into_iter()));
        }
        out
    }

    /// The effective rank behind the last block.
    pub fn last_rank(&self) -> Option<f64> {
        self.effective_rank.last().copied().flatten().map(f64::from)
    }
}

fn rank(x: &ndarray::Array2<f64>) -> f64 {
    emmy::linalg::effective_rank(x.view())
}

/// The mean over i < j of the cosine of rows i and j.
fn cosine_of_rows(x: &ndarray::Array2<f64>) -> f64 {
    let n = x.nrows() as f64;
    let mut sum = ndarray::Array1::<f64>::zeros(x.ncols());
    let mut own = 0.0;
    for row in x.rows() {
        let norm = row.dot(&row).sqrt();
        if norm > 0.0 {
            sum.scaled_add(norm.recip(), &row);
            own += 1.0;
        }
    }
    (sum.dot(&sum) - own) / (n * (n - 1.0))
}

fn variance_share(x: &ndarray::Array2<f64>) -> f64 {
    let mean = x.mean_axis(ndarray::Axis(0)).expect("a token");
    let centred = x - &mean;
    let square = |a: &ndarray::Array2<f64>| a.iter().map(|v| v * v).sum::<f64>();
    square(&centred) / square(x)
}

/// The mean over items of the singular values over their sum.
fn spectrum(items: &[ndarray::Array2<f64>]) -> Vec<f32> {
    let mut out: Vec<f64> = Vec::new();
    for item in items {
        let s = svd(item.view()).1;
        let total = s.sum().max(f64::MIN_POSITIVE);
        out.resize(out.len().max(s.len()), 0.0);
        for (sum, s) in out.iter_mut().zip(s) {
            *sum += s / total / items.len() as f64;
        }
    }
    out.into_iter().map(|x| x as f32).collect()
}
