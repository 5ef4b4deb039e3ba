//! Tools that several tests use.

use emmy::{Tensor, init};

#[track_caller]
pub fn near(x: f64, y: f64, tolerance: f64) {
    assert!(
        (x - y).abs() <= tolerance * y.abs().max(1e-300),
        "{x} and {y}"
    );
}

/// n tokens of d features, standard normal.
pub fn tokens(n: usize, d: usize, seed: u64) -> Tensor<f64> {
    init::normal(&[n, d], 1.0, &mut init::rng(seed))
}
