//! Dense linear algebra for initialisers and measures: QR, singular values, symmetric eigenvalues; norms of
//! matrices from above and from below; null spaces, and spans that grow vector by vector.
//!
//! Everything is in `f64`, without derivatives. Two back-ends compute the same: our own short Householder and
//! Jacobi routines, and LAPACK (feature `lapack`). Signs are fixed here, so that both give the same factors
//! to rounding.

#[cfg(any(test, not(feature = "lapack")))]
mod own;

#[cfg(feature = "lapack")]
mod lapack;
#[cfg(feature = "lapack")]
use lapack as backend;
#[cfg(not(feature = "lapack"))]
use own as backend;

mod interval;
mod norms;
mod null_space;
mod span;

pub use interval::{Interval, Lower, Upper};
pub use norms::{
    Lp, frobenius_norm, infinity_two_norm, one_norm, power_iteration, spectral_norm,
    two_infinity_norm,
};
pub use norms::{gamma, scale};
pub use null_space::{NullSpace, null_space};
pub use span::{Span, norm};

use ndarray::{Array1, Array2, ArrayView1, ArrayView2, Axis, Zip};

/// A = Q R with orthonormal columns of Q (m × k), R upper triangular (k × n) with a diagonal ≥ 0, k =
/// min(m, n).
///
/// With a diagonal that has no negative entry the factors of a matrix of full rank are unique, and the Q of a
/// Gaussian matrix is uniformly distributed (Mezzadri, "How to generate random matrices from the classical
/// compact groups", 2007).
///
/// # Panics
/// If an entry is not finite.
#[track_caller]
pub fn qr(a: ArrayView2<'_, f64>) -> (Array2<f64>, Array2<f64>) {
    check("qr", a);
    let (mut q, mut r) = backend::qr(a);
    for i in 0..r.nrows() {
        if r[[i, i]] < 0.0 {
            r.row_mut(i).mapv_inplace(|x| -x);
            q.column_mut(i).mapv_inplace(|x| -x);
        }
    }
    (q, r)
}

/// A = U diag(s) Vᵀ: U is m × k, s descending and ≥ 0, Vᵀ is k × n, k = min(m, n). The largest entry (by
/// size, the first of equals) of each row of Vᵀ is positive. Where s_i = 0, u_i still completes an
/// orthonormal set.
///
/// # Panics
/// If an entry is not finite.
#[track_caller]
pub fn svd(a: ArrayView2<'_, f64>) -> (Array2<f64>, Array1<f64>, Array2<f64>) {
    check("svd", a);
    let (mut u, s, mut vt) = backend::svd(a);
    for (mut u, mut v) in u.axis_iter_mut(Axis(1)).zip(vt.axis_iter_mut(Axis(0))) {
        if leads_negative(v.view()) {
            u.mapv_inplace(|x| -x);
            v.mapv_inplace(|x| -x);
        }
    }
    (u, s, vt)
}

/// A = V diag(λ) Vᵀ of a symmetric matrix: λ ascending, the eigenvectors in the columns of V, the largest
/// entry of each positive.
///
/// # Panics
/// If A is not square, an entry is not finite, or A differs from Aᵀ by more than rounding (1e-10 of the
/// largest entry).
#[track_caller]
pub fn eigh(a: ArrayView2<'_, f64>) -> (Array1<f64>, Array2<f64>) {
    check("eigh", a);
    assert!(a.is_square(), "eigh: {:?} is not square", a.dim());
    let size = a.fold(0.0_f64, |m, x| m.max(x.abs()));
    let symmetric = Zip::from(a)
        .and(a.t())
        .all(|x, y| (x - y).abs() <= 1e-10 * size);
    assert!(symmetric, "eigh: the matrix is not symmetric");
    let (lambda, mut v) = backend::eigh(a);
    for mut v in v.axis_iter_mut(Axis(1)) {
        if leads_negative(v.view()) {
            v.mapv_inplace(|x| -x);
        }
    }
    (lambda, v)
}

/// exp(−Σ p_k ln p_k) with p_k = σ_k / Σ σ, σ the singular values: the effective rank of Roy and Vetterli,
/// "The Effective Rank: A Measure of Effective Dimensionality", EUSIPCO 2007. Between 1 and the rank; 0 for a
/// matrix of zeros.
///
/// # Panics
/// If an entry is not finite.
#[track_caller]
pub fn effective_rank(a: ArrayView2<'_, f64>) -> f64 {
    effective_rank_of(svd(a).1.view())
}

/// The same from the singular values, in any order.
pub fn effective_rank_of(s: ArrayView1<'_, f64>) -> f64 {
    let total = s.sum();
    if total == 0.0 {
        return 0.0;
    }
    if total.is_infinite() {
        let largest = s.fold(0.0, |m: f64, &s| m.max(s));
        return effective_rank_of((&s / largest).view());
    }
    let entropy: f64 = (s.iter().map(|s| s / total))
        .filter(|p| *p > 0.0)
        .map(|p| -p * p.ln())
        .sum();
    entropy.exp()
}

#[track_caller]
fn check(op: &str, a: ArrayView2<'_, f64>) {
    if let Some(((i, j), x)) = a.indexed_iter().find(|(_, x)| !x.is_finite()) {
        panic!("{op}: the entry at ({i}, {j}) is {x}, every entry must be finite");
    }
}

/// Whether the largest entry is negative. Entries within rounding of the largest count as equal, so that both
/// back-ends decide alike.
fn leads_negative(v: ArrayView1<'_, f64>) -> bool {
    let largest = v.fold(0.0_f64, |m, x| m.max(x.abs()));
    v.iter()
        .find(|x| x.abs() >= largest * (1.0 - 1e-8))
        .is_some_and(|x| *x < 0.0)
}
