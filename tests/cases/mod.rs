//! What tests with many random cases share.

use std::ops::Range;

/// The seeds of the cases of a test. `EMMY_CASES=100 cargo test --test lipschitz` runs 100 times as many.
pub fn cases(count: u64) -> Range<u64> {
    let times = match std::env::var("EMMY_CASES") {
        Ok(times) => times.parse().expect("EMMY_CASES: a number"),
        Err(_) => 1,
    };
    0..count * times
}

/// Requires |x − y| ≤ tolerance · |y|.
#[track_caller]
pub fn near(x: f64, y: f64, tolerance: f64) {
    assert!(
        (x - y).abs() <= tolerance * y.abs().max(1e-300),
        "{x} and {y}"
    );
}
