//! Factorisations by their definitions, which determine the factors: the same tests for both back-ends.

use approx::assert_abs_diff_eq;
use emmy::linalg::{Span, effective_rank, eigh, norm, null_space, qr, svd};
use ndarray::{Array1, Array2, array};
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

fn gaussian(m: usize, n: usize, seed: u64) -> Array2<f64> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    Array2::from_shape_simple_fn((m, n), || StandardNormal.sample(&mut rng))
}

fn is_orthonormal(columns: &Array2<f64>) {
    let k = columns.ncols();
    assert_abs_diff_eq!(
        columns.t().dot(columns),
        Array2::eye(k),
        epsilon = 1e-13 * (1.0 + k as f64)
    );
}

/// Square, tall, flat, one row, one column, empty.
const SHAPES: [(usize, usize); 8] = [
    (1, 1),
    (5, 5),
    (40, 7),
    (7, 40),
    (1, 6),
    (6, 1),
    (0, 3),
    (64, 64),
];

#[test]
fn the_effective_rank() {
    let near =
        |a: Array2<f64>, x: f64| assert_abs_diff_eq!(effective_rank(a.view()), x, epsilon = 1e-10);
    near(Array2::eye(5), 5.0);
    near(array![[1.0, 2.0], [2.0, 4.0]], 1.0);
    near(Array2::zeros((3, 2)), 0.0);
    // Singular values 3 and 1: entropy of (3/4, 1/4).
    near(array![[3.0, 0.0], [0.0, 1.0]], 4.0 / 3f64.powf(0.75));
}

#[test]
fn qr_factors() {
    for (m, n) in SHAPES {
        let a = gaussian(m, n, 1);
        let (q, r) = qr(a.view());
        assert_eq!((q.dim(), r.dim()), ((m, m.min(n)), (m.min(n), n)));
        is_orthonormal(&q);
        assert_abs_diff_eq!(q.dot(&r), a, epsilon = 1e-13 * 64.0);
        for ((i, j), &x) in r.indexed_iter() {
            assert!(
                if i == j { x >= 0.0 } else { i < j || x == 0.0 },
                "R({i}, {j}) = {x}"
            );
        }
    }
}

#[test]
fn svd_factors() {
    for (m, n) in SHAPES {
        let a = gaussian(m, n, 2);
        let (u, s, vt) = svd(a.view());
        is_orthonormal(&u);
        is_orthonormal(&vt.t().to_owned());
        assert_abs_diff_eq!((&u * &s).dot(&vt), a, epsilon = 1e-12);
        assert!(s.iter().zip(s.iter().skip(1)).all(|(a, b)| a >= b) && s.iter().all(|&x| x >= 0.0));
    }
}

#[test]
fn svd_of_deficient_and_badly_scaled_matrices() {
    // Rank 2 of 4, and a matrix of zeros: the left vectors must still be orthonormal.
    let a = gaussian(9, 2, 3).dot(&gaussian(2, 4, 4));
    for a in [a, Array2::zeros((5, 3))] {
        let (u, s, vt) = svd(a.view());
        is_orthonormal(&u);
        assert!(s.iter().skip(2).all(|&x| x < 1e-14 * (1.0 + s[0])));
        assert_abs_diff_eq!((&u * &s).dot(&vt), a, epsilon = 1e-13);
    }
    for scale in [1e-160, 1e150] {
        let a = gaussian(6, 4, 5);
        let (_, s, _) = svd(a.view());
        let (_, t, _) = svd((&a * scale).view());
        assert_abs_diff_eq!(t / scale, s, epsilon = 1e-12);
    }
}

#[test]
fn singular_values_known_in_closed_form() {
    let (_, s, _) = svd(array![[3.0, 0.0], [4.0, 5.0]].view());
    assert_abs_diff_eq!(s, array![45.0_f64.sqrt(), 5.0_f64.sqrt()], epsilon = 1e-14);
}

#[test]
fn eigh_factors() {
    for n in [0, 1, 2, 9, 60] {
        let a = gaussian(n, n, 6);
        let a = &a + &a.t();
        let (lambda, v) = eigh(a.view());
        is_orthonormal(&v);
        assert_abs_diff_eq!((&v * &lambda).dot(&v.t()), a, epsilon = 1e-12);
        assert!(
            lambda
                .iter()
                .zip(lambda.iter().skip(1))
                .all(|(a, b)| a <= b)
        );
    }
    // A path of n nodes: the Laplacian's eigenvalues are 2 − 2 cos(π k / n).
    let n = 12;
    let laplacian = Array2::from_shape_fn((n, n), |(i, j)| match i.abs_diff(j) {
        0 => f64::from(u8::from(i > 0)) + f64::from(u8::from(i + 1 < n)),
        1 => -1.0,
        _ => 0.0,
    });
    let (lambda, _) = eigh(laplacian.view());
    let known: Array1<f64> = (0..n)
        .map(|k| 2.0 - 2.0 * (std::f64::consts::PI * k as f64 / n as f64).cos())
        .collect();
    assert_abs_diff_eq!(lambda, known, epsilon = 1e-13);
}

#[test]
#[should_panic(expected = "svd: the entry at (1, 0) is NaN")]
fn refuses_nan() {
    svd(array![[1.0, 2.0], [f64::NAN, 0.0]].view());
}

#[test]
#[should_panic(expected = "eigh: the matrix is not symmetric")]
fn refuses_asymmetry() {
    eigh(array![[1.0, 2.0], [3.0, 0.0]].view());
}

/// m × n of rank n − k, with singular values from 1 down to `least`.
fn with_null_space(m: usize, n: usize, k: usize, least: f64) -> (Array2<f64>, Array2<f64>) {
    let (u, _) = qr(gaussian(m, n, 7).view());
    let (v, _) = qr(gaussian(n, n, 8).view());
    let seen = n - k;
    let sigma = |i: usize| least.powf(i as f64 / seen.max(2) as f64);
    let s = Array1::from_shape_fn(n, |i| if i < seen { sigma(i) } else { 0.0 });
    let null = v.slice(ndarray::s![.., seen..]).to_owned();
    ((&u * &s).dot(&v.t()), null)
}

#[test]
fn null_spaces_of_any_dimension() {
    for (m, n, k) in [
        (9, 7, 0),
        (40, 30, 3),
        (60, 50, 50),
        (200, 150, 90),
        (300, 260, 1),
        (70, 70, 33),
    ] {
        for least in [0.1, 1e-4, 1e-6] {
            let (a, expected) = with_null_space(m, n, k, least);
            let found = null_space(a.view(), 1e-10);
            assert_eq!(found.basis.ncols(), k, "{m} × {n}, {least}");
            is_orthonormal(&found.basis);
            assert!(
                found.inside <= 1e-13,
                "{m} × {n}, {least}: {:e}",
                found.inside
            );
            assert!((found.outside.is_infinite()) == (k == n) && found.outside > 1e-7);
            // The same space: the projection of one onto the other loses nothing.
            let overlap = expected.t().dot(&found.basis);
            let lost = Array2::<f64>::eye(k) - overlap.dot(&overlap.t());
            assert!(lost.iter().all(|x| x.abs() < 1e-10), "{m} × {n}, {least}");
        }
    }
}

#[test]
fn the_null_space_of_zero_is_everything() {
    let found = null_space(Array2::zeros((5, 3)).view(), 1e-10);
    assert_eq!(found.basis, Array2::<f64>::eye(3));
    assert_eq!((found.inside, found.outside), (0.0, f64::INFINITY));
}

#[test]
#[should_panic(expected = "null_space: 3 rows for 4 columns")]
fn a_null_space_needs_as_many_rows_as_columns() {
    let _ = null_space(gaussian(3, 4, 0).view(), 1e-10);
}

#[test]
fn a_norm_is_exact_at_the_ends_of_the_range_and_keeps_nan() {
    for scale in [1e-300, 1.0, 1e300] {
        assert_abs_diff_eq!(
            norm(&[3.0 * scale, -4.0 * scale]) / scale,
            5.0,
            epsilon = 1e-14
        );
    }
    assert_eq!(norm(&[]), 0.0);
    assert_eq!(norm(&[1.0, f64::NEG_INFINITY]), f64::INFINITY);
    for v in [[f64::NAN, 1.0], [1.0, f64::NAN], [0.0, f64::NAN]] {
        assert!(norm(&v).is_nan(), "{v:?}");
    }
}

#[test]
fn a_span_has_the_rank_of_its_vectors_and_refuses_nan() {
    let vectors = gaussian(4, 9, 3);
    let factors = gaussian(6, 4, 4);
    let mut span = Span::default();
    for v in factors.dot(&vectors).outer_iter() {
        span.add(&v.to_vec(), 0.0);
    }
    assert_eq!(span.rank(), 4);
    assert!(vectors.outer_iter().all(|v| span.contains(&v.to_vec())));
    assert!(!span.contains(&gaussian(1, 9, 5).row(0).to_vec()));
    let unknown = [f64::NAN; 9];
    assert!(!span.add(&unknown, 0.0) && !span.contains(&unknown));
    assert_eq!(span.rank(), 4);
}
