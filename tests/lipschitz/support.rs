//! Tools that several tests use.

pub use crate::cases::{cases, near};
use emmy::ndarray::Array2;
use emmy::{Tensor, init};

/// n tokens of d features, standard normal.
pub fn tokens(n: usize, d: usize, seed: u64) -> Tensor<f64> {
    init::normal(&[n, d], 1.0, &mut init::rng(seed))
}

/// A standard normal matrix.
pub fn matrix(rows: usize, columns: usize, seed: u64) -> Array2<f64> {
    let x: Tensor<f64> = init::normal(&[rows, columns], 1.0, &mut init::rng(seed));
    x.into_owned().into_dimensionality().unwrap()
}

/// The weights of a chain of linear maps with these widths.
pub fn weights(widths: &[usize], seed: u64) -> Vec<Array2<f64>> {
    let pairs = widths.windows(2).enumerate();
    pairs
        .map(|(k, w)| matrix(w[1], w[0], 100 * seed + k as u64))
        .collect()
}
