//! Data for the tests of the kernels.

use emmy::kernels::draw;
use emmy::rand::{RngExt, SeedableRng};
use emmy::real::Real;
use emmy::sparse::Pattern;
use rand::rngs::ChaCha8Rng;
use std::sync::Arc;

/// `n` numbers uniform in [−1, 1).
pub fn data<F: Real>(n: usize, seed: u64) -> Vec<F> {
    let numbers = draw::uniform::<F>(&[n], 1.0, &mut draw::rng(seed));
    numbers.as_slice().unwrap().to_vec()
}

/// A random pattern with about `nnz` entries; row 0 and the last column stay empty where there is more than
/// one.
pub fn pattern(rows: usize, cols: usize, nnz: usize, seed: u64) -> Arc<Pattern> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let first = usize::from(rows > 1);
    let last = if cols > 1 { cols - 1 } else { cols };
    let pairs: Vec<_> = (0..if rows * cols == 0 { 0 } else { nnz })
        .map(|_| (rng.random_range(first..rows), rng.random_range(0..last)))
        .collect();
    Pattern::from_pairs(rows, cols, &pairs).expect("the pairs are in range")
}

/// The bits of numbers, so that comparisons are exact.
pub fn bits<'a, F: Real>(x: impl IntoIterator<Item = &'a F>) -> Vec<u64> {
    x.into_iter().map(|x| x.as_f64().to_bits()).collect()
}

/// Asserts that two slices agree to within `tolerance`.
#[track_caller]
pub fn close<F: Real>(a: &[F], b: &[F], tolerance: f64) {
    assert_eq!(a.len(), b.len());
    for (k, (x, y)) in a.iter().zip(b).enumerate() {
        assert!(
            (*x - *y).as_f64().abs() <= tolerance,
            "element {k}: {x} against {y}"
        );
    }
}
