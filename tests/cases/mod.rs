//! What tests with many random cases share.
#![allow(dead_code, reason = "each test program uses the part it needs")]

use proptest::test_runner::{Config as ProptestConfig, contextualize_config};
use std::ops::Range;

/// How many of the `count` cases of a test run: an eighth of them, rounded up, so that nobody waits long for
/// `cargo test`. `EMMY_CASES=1` runs all, as CI does; `EMMY_CASES=100` runs 100 times as many.
pub fn number(count: u64) -> u64 {
    match std::env::var("EMMY_CASES") {
        Ok(times) => count * times.parse::<u64>().expect("EMMY_CASES: a number"),
        Err(_) => count.div_ceil(8),
    }
}

/// The number of cases of a property, of which `cargo test` runs an eighth ([`number`]). Failing cases are
/// not stored, since a case is determined by its seed.
///
/// A property that discards the cases where a law holds by 0 = 0 fails if they are more than half as many as
/// those to be tried (and twenty, for a run of few cases).
pub fn proptest_cases(cases: u32) -> ProptestConfig {
    let config = contextualize_config(ProptestConfig {
        cases: number(cases.into()) as u32,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    ProptestConfig {
        max_global_rejects: config.cases / 2 + 20,
        ..config
    }
}

/// The seeds of the cases that run.
pub fn cases(count: u64) -> Range<u64> {
    0..number(count)
}

/// Requires |x − y| ≤ tolerance · |y|.
#[track_caller]
pub fn near(x: f64, y: f64, tolerance: f64) {
    assert!(
        (x - y).abs() <= tolerance * y.abs().max(1e-300),
        "{x} and {y}"
    );
}
