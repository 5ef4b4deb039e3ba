//! Tools that several tests use.

use emmy::{Tensor, init};
use std::ops::Range;

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

/// The seeds of `count` cases. More on request: `EMMY_LIPSCHITZ_CASES=100 cargo test --test lipschitz` has 100
/// times as many.
pub fn cases(count: u64) -> Range<u64> {
    let times = match std::env::var("EMMY_LIPSCHITZ_CASES") {
        Ok(times) => times.parse().expect("EMMY_LIPSCHITZ_CASES: a number"),
        Err(_) => 1,
    };
    0..count * times
}
