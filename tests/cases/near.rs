//! Comparison of numbers of any size.

/// Requires |x − y| ≤ tolerance · |y|.
#[track_caller]
pub fn near(x: f64, y: f64, tolerance: f64) {
    assert!(
        (x - y).abs() <= tolerance * y.abs().max(1e-300),
        "{x} and {y}"
    );
}
