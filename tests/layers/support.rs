//! The inputs for tests of layers.

use emmy::{Tensor, init};

pub const INPUTS: usize = 5;

/// Standard normal features.
pub fn features(nodes: usize, seed: u64) -> Tensor<f64> {
    init::normal(&[nodes, INPUTS], 1.0, &mut init::rng(seed))
}
