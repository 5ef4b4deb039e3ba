//! Chains of linear maps in files of weights: matrices, and convolutions as matrices.

use super::chain::natural;
use emmy::ndarray::{Array1, Array2, ArrayD, Axis};
use emmy::store::weights::Weights;
use emmy::{Error, Result};
use std::path::Path;

/// W_k and b_k, from the first map to the last; biases that the file does not have are 0.
pub struct Chain {
    pub weights: Vec<Array2<f64>>,
    pub biases: Vec<Array1<f64>>,
}

/// The maps of a file in the natural order of their names: matrices `[out, in]`, and convolutions `[height,
/// width, in, out]` or `[height, width, out]` with stride 1 on square images of the size that the map
/// behind them reads, filled up with zeros at the border.
pub fn chain(path: &Path) -> Result<Chain> {
    let file = Weights::open(path)?;
    let mut keys: Vec<&str> = file.keys().filter(|key| key.ends_with("weight")).collect();
    // Convolutions come first, whatever their names.
    let is_matrix = |key: &str| file.shape(key).is_some_and(|shape| shape.len() == 2);
    keys.sort_by(|a, b| is_matrix(a).cmp(&is_matrix(b)).then_with(|| natural(a, b)));
    let tensors = keys
        .iter()
        .map(|key| file.get::<f64>(key))
        .collect::<Result<Vec<_>>>()?;
    let last_channels = tensors
        .iter()
        .rfind(|t| t.ndim() > 2)
        .and_then(|t| t.shape().last().copied());
    let behind = tensors.iter().find(|t| t.ndim() == 2).map(|t| t.shape()[1]);
    let side = last_channels
        .zip(behind)
        .map(|(channels, n)| (n / channels).isqrt());
    let refuse = |found: String| {
        let rule = "matrices [out, in], or convolutions of square images before them";
        Err(Error::invalid(
            format!("weights {}", path.display()),
            rule,
            found,
        ))
    };
    let (mut weights, mut biases) = (Vec::new(), Vec::new());
    for (key, tensor) in keys.iter().zip(tensors) {
        let shape = tensor.shape().to_vec();
        let map: Array2<f64> = match (shape.len(), side) {
            (2, _) => tensor.into_owned().into_dimensionality().expect("two axes"),
            (3, Some(side)) => convolution(&tensor.into_owned().insert_axis(Axis(2)), side),
            (4, Some(side)) => convolution(&tensor.into_owned(), side),
            _ => return refuse(format!("{key} of shape {shape:?}")),
        };
        let own = format!("{}bias", &key[..key.len() - "weight".len()]);
        let bias = match file.keys().any(|key| key == own) {
            true => file.get::<f64>(&own)?.iter().copied().collect(),
            false => vec![0.0; map.nrows()],
        };
        // The biases of a convolution are those of the channels of each pixel.
        if bias.is_empty() || !map.nrows().is_multiple_of(bias.len()) {
            return refuse(format!("{own} of {} numbers", bias.len()));
        }
        let repeated = bias.iter().copied().cycle().take(map.nrows());
        biases.push(repeated.collect());
        weights.push(map);
    }
    Ok(Chain { weights, biases })
}

/// A convolution as a matrix. Pixels are counted column by column, the channels of a pixel follow one
/// another: the order in which the published networks flatten their images.
fn convolution(kernel: &ArrayD<f64>, side: usize) -> Array2<f64> {
    let &[height, width, into, out] = kernel.shape() else {
        unreachable!("four axes");
    };
    let at = |y: usize, x: usize, c: usize, channels: usize| (x * side + y) * channels + c;
    let mut map = Array2::zeros((side * side * out, side * side * into));
    for (index, value) in kernel.indexed_iter() {
        let [dy, dx, i, o] = [index[0], index[1], index[2], index[3]];
        for y in 0..side {
            for x in 0..side {
                let from = |at: usize, d: usize, size: usize| {
                    (at + d).checked_sub(size / 2).filter(|p| *p < side)
                };
                if let (Some(r), Some(c)) = (from(y, dy, height), from(x, dx, width)) {
                    map[[at(y, x, o, out), at(r, c, i, into)]] += value;
                }
            }
        }
    }
    map
}
