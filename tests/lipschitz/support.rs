//! Tools that several tests use.

pub use crate::cases::{cases, near};
use emmy::{Tensor, init};

/// n tokens of d features, standard normal.
pub fn tokens(n: usize, d: usize, seed: u64) -> Tensor<f64> {
    init::normal(&[n, d], 1.0, &mut init::rng(seed))
}
