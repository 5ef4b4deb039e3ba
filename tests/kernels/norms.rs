//! Norms of matrices.

use emmy::linalg::{
    Lp, Upper, frobenius_norm, infinity_two_norm, power_iteration, spectral_norm, two_infinity_norm,
};
use ndarray::{Array2, array};
use rand::{RngExt, SeedableRng};

fn random(m: usize, n: usize, seed: u64) -> Array2<f64> {
    let mut rng = rand::rngs::ChaCha8Rng::seed_from_u64(seed);
    Array2::from_shape_simple_fn((m, n), || rng.random_range(-1.0..1.0))
}

#[test]
fn the_bound_is_sound_and_tight() {
    for (m, n, seed) in [(1, 1, 0), (7, 3, 1), (3, 7, 2), (40, 40, 3), (90, 50, 4)] {
        for size in [1.0, 1e-160, 1e150] {
            let a = random(m, n, seed) * size;
            let exact = emmy::linalg::svd((&a / size).view()).1[0] * size;
            let bound = spectral_norm(a.view()).get();
            assert!(
                bound >= exact * (1.0 - 1e-14),
                "{m} × {n}: {bound} < {exact}"
            );
            assert!(
                bound <= exact * (1.0 + 1e-8),
                "{m} × {n}: {bound} > {exact}"
            );
        }
    }
}

#[test]
fn known_norms() {
    let a = array![[1.0, -2.0], [3.0, 0.5]];
    let near = |bound: Upper, x: f64| bound.get() >= x && bound.get() <= x * (1.0 + 1e-8);
    assert!(near(Lp::One.matrix(a.view()), 4.0));
    assert!(near(Lp::Inf.matrix(a.view()), 3.5));
    assert!(near(frobenius_norm(a.view()), 14.25f64.sqrt()));
    assert!(near(infinity_two_norm(a.view()), 9.25f64.sqrt()));
    assert!(near(two_infinity_norm(a.view()), 13f64.sqrt()));
    // Many equal singular values: the Frobenius norm falls to the largest slowly.
    assert!(near(spectral_norm(Array2::eye(64).view()), 1.0));
    assert_eq!(spectral_norm(Array2::zeros((3, 2)).view()), Upper::ZERO);
    assert_eq!(spectral_norm(Array2::zeros((0, 2)).view()), Upper::ZERO);
}

/// Published certifiers took a power iteration for an upper bound. From a start that has no part in the
/// first singular vector it never comes near the norm.
#[test]
fn power_iteration_is_no_upper_bound() {
    let a = array![[3.0, 0.0], [0.0, 1.0]];
    let found = power_iteration(a.view(), array![0.0, 1.0].view(), 1000);
    assert!(found.get() <= 1.0);
    assert!(spectral_norm(a.view()).get() >= 3.0);
    let lucky = power_iteration(a.view(), array![1.0, 1.0].view(), 100);
    assert!((lucky.get() - 3.0).abs() < 1e-12);
}

#[test]
fn dual_norms_are_those_of_the_transpose() {
    let a = random(5, 8, 6);
    for p in Lp::ALL {
        let (x, y) = (p.matrix(a.t()).get(), p.dual().matrix(a.view()).get());
        assert!((x - y).abs() <= 1e-9 * x);
    }
}

#[test]
#[should_panic(expected = "the entry at (0, 1) is NaN")]
fn not_a_number_has_no_norm() {
    spectral_norm(array![[1.0, f64::NAN]].view());
}
