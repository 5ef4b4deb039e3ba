//! Operator norms of matrices, from above ([`Upper`]) and from below ([`Lower`]).
//!
//! Bounds from above hold for the matrix as stored, whatever the rounding: sums, products and roots are
//! rounded outward, and the error of a product of matrices is bounded by the constant γ_n = n u / (1 − n u),
//! u = 2⁻⁵³, which holds for every order of summation (Higham, "Accuracy and Stability of Numerical
//! Algorithms", 2002, section 3.1).

use super::interval::{Lower, Upper};
use crate::kernels::gemm::matmul;
use ndarray::{Array1, Array2, ArrayView1, ArrayView2, Axis};

/// The norm ‖·‖_p of vectors, for p = 1, 2, ∞, and the operator norm that it induces on matrices: ‖A‖₁ is
/// the largest sum of a column, ‖A‖_∞ of a row (of absolute values), ‖A‖₂ the largest singular value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lp {
    /// Σ |x_i|.
    One,
    /// √Σ x_i².
    Two,
    /// max |x_i|.
    Inf,
}

impl Lp {
    /// All three.
    pub const ALL: [Self; 3] = [Self::One, Self::Two, Self::Inf];

    /// The norm of a vector, rounded to nearest.
    pub fn of(self, x: impl IntoIterator<Item = f64>) -> f64 {
        let x = x.into_iter();
        match self {
            Self::One => x.map(f64::abs).sum(),
            Self::Two => {
                let x: Vec<f64> = x.collect();
                let squares: f64 = x.iter().map(|x| x * x).sum();
                if (SMALL_SQUARES..LARGE_SQUARES).contains(&squares) {
                    return squares.sqrt();
                }
                // Squares that overflow or vanish: scaled by a power of two, which is exact.
                let size = x.iter().fold(0.0, |m: f64, x| m.max(x.abs()));
                match size > 0.0 && size.is_finite() {
                    true => {
                        let size = power_of_two(size);
                        let squares = x.iter().map(|x| (x / size).powi(2));
                        squares.sum::<f64>().sqrt() * size
                    }
                    false => squares.sqrt(),
                }
            }
            Self::Inf => x.fold(0.0, |m, x| {
                if x.abs() > m || x.is_nan() {
                    x.abs()
                } else {
                    m
                }
            }),
        }
    }

    /// ‖A‖_p from above.
    ///
    /// # Panics
    /// If an entry is not finite.
    #[track_caller]
    pub fn matrix(self, a: ArrayView2<'_, f64>) -> Upper {
        match self {
            Self::One => one_norm(a),
            Self::Two => spectral_norm(a),
            Self::Inf => one_norm(a.t()),
        }
    }

    /// The norm ‖·‖_q with 1/p + 1/q = 1: ‖Aᵀ‖_p = ‖A‖_q.
    #[must_use]
    pub fn dual(self) -> Self {
        match self {
            Self::One => Self::Inf,
            Self::Two => Self::Two,
            Self::Inf => Self::One,
        }
    }
}

/// Sums of squares between these have lost nothing to numbers that are too small or too large.
const SMALL_SQUARES: f64 = 1e-250;
const LARGE_SQUARES: f64 = 1e300;

impl std::fmt::Display for Lp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::One => "1",
            Self::Two => "2",
            Self::Inf => "∞",
        })
    }
}

/// ‖A‖_1 = max_j Σ_i |a_ij|, from above.
///
/// # Panics
/// If an entry is not finite.
#[track_caller]
pub fn one_norm(a: ArrayView2<'_, f64>) -> Upper {
    super::check("one_norm", a);
    let sums = a.axis_iter(Axis(1)).map(|column| {
        let sum = column.iter().map(|x| x.abs()).sum();
        Upper::rounded(sum, gamma(column.len()))
    });
    sums.fold(Upper::ZERO, Upper::max)
}

/// ‖A‖_F = √Σ a_ij², from above.
///
/// # Panics
/// If an entry is not finite.
#[track_caller]
pub fn frobenius_norm(a: ArrayView2<'_, f64>) -> Upper {
    super::check("frobenius_norm", a);
    let largest = scale(a);
    if largest == 0.0 {
        return Upper::ZERO;
    }
    // The scale is a power of two, so that dividing is exact up to numbers too small to matter, which the
    // error of one more rounding per entry covers.
    let squares = a.iter().map(|x| (x / largest).powi(2)).sum();
    let tiny = Upper::new(a.len() as f64 * f64::MIN_POSITIVE);
    (Upper::rounded(squares, gamma(a.len() + 2)) + tiny).sqrt() * Upper::new(largest)
}

/// ‖A‖_(∞,2) = max_i √Σ_j a_ij², the largest 2-norm of a row, from above. It is the operator norm from the
/// 2-norm to the ∞-norm, and in Dasoulas et al. ("Lipschitz Normalization for Self-Attention Layers", ICML
/// 2021) the size of the largest input, whose inputs are rows.
///
/// # Panics
/// If an entry is not finite.
#[track_caller]
pub fn infinity_two_norm(a: ArrayView2<'_, f64>) -> Upper {
    let rows = a.axis_iter(Axis(0));
    rows.map(|row| frobenius_norm(row.insert_axis(Axis(0))))
        .fold(Upper::ZERO, Upper::max)
}

/// ‖A‖_(2,∞) = √Σ_i max_j a_ij², from above: the size of scores in the same paper, which uses it without a
/// definition.
///
/// # Panics
/// If an entry is not finite.
#[track_caller]
pub fn two_infinity_norm(a: ArrayView2<'_, f64>) -> Upper {
    super::check("two_infinity_norm", a);
    let largest = a.axis_iter(Axis(0));
    let largest: Array1<f64> = largest
        .map(|row| row.fold(0.0_f64, |m, x| m.max(x.abs())))
        .collect();
    frobenius_norm(largest.view().insert_axis(Axis(0)))
}

/// ‖A‖₂ = σ_max, from above, by Gram iteration: with G = AᵀA and s = 2^k, σ_max ≤ ‖G^s‖_F^(1/2s), and the
/// right-hand side falls to σ_max as s grows.
///
/// Every squaring is bounded with its rounding error, so the result is an upper bound; it is also tight, to
/// about 1e-9 of σ_max. Delattre, Barthélemy, Araujo and Allauzen, "Efficient Bound of Lipschitz Constant
/// for Convolutional Layers by Gram Iteration", ICML 2023; they leave the rounding out. A power iteration
/// would bound from below only ([`power_iteration`]).
///
/// # Panics
/// If an entry is not finite.
#[track_caller]
pub fn spectral_norm(a: ArrayView2<'_, f64>) -> Upper {
    super::check("spectral_norm", a);
    let size = scale(a);
    if size == 0.0 {
        return Upper::ZERO;
    }
    // The Gram matrix of the shorter side.
    let a = if a.nrows() < a.ncols() {
        a.reversed_axes()
    } else {
        a
    };
    // Dividing by a power of two is exact, but for entries that become subnormal: their loss is bounded.
    let scaled = a.mapv(|x| x / size);
    let lost = Upper::new(a.len() as f64 * f64::MIN_POSITIVE);
    let root = gram(scaled.view()).sqrt();
    (root + lost) * Upper::new(size)
}

/// λ_max(AᵀA), from above, for entries of at most 1 in size.
fn gram(a: ArrayView2<'_, f64>) -> Upper {
    let (m, n) = a.dim();
    // λ_max(AᵀA) ≤ λ_max(G) + γ_m ‖A‖_F², G the computed product.
    let mut steps = Vec::new();
    let mut g = matmul(a.t(), a);
    symmetrize(&mut g);
    let first = Upper::new(gamma(m)) * frobenius_norm(a).square();
    for _ in 0..MOST_SQUARINGS {
        // λ_max(G)² ≤ λ_max(c² fl((G/c)²)) + c² γ_n ‖G/c‖_F², c a power of two.
        let c = scale(g.view());
        if c == 0.0 {
            return first;
        }
        g.mapv_inplace(|x| x / c);
        let norm = frobenius_norm(g.view());
        let lost = Upper::new((n * n) as f64 * f64::MIN_POSITIVE);
        let error = Upper::new(gamma(n)) * norm.square() + lost;
        steps.push((c, error));
        let mut next = matmul(g.view(), g.view());
        symmetrize(&mut next);
        g = next;
        // ‖G‖_F² / ‖G²‖_F falls to the multiplicity of λ_max; its logarithm, divided by 2^(k+1), is what
        // another squaring could gain.
        let gain = (norm.get() * norm.get() / frobenius_norm(g.view()).get()).ln();
        if gain / 2f64.powi(steps.len() as i32) < ACCURACY {
            break;
        }
    }
    let last = frobenius_norm(g.view());
    let back = |bound: Upper, &(c, error): &(f64, Upper)| (bound + error).sqrt() * Upper::new(c);
    steps.iter().rev().fold(last, back) + first
}

/// Squarings after which the bound exceeds σ_max by a factor of n^(2^−32) at most.
const MOST_SQUARINGS: usize = 30;

/// A gain that is not worth another squaring.
const ACCURACY: f64 = 1e-10;

/// G with its upper triangle copied to the lower: the exact product is symmetric, and each half is within the
/// error bound.
fn symmetrize(g: &mut Array2<f64>) {
    let n = g.nrows();
    for i in 0..n {
        for j in 0..i {
            g[[i, j]] = g[[j, i]];
        }
    }
}

/// The smallest power of two that no entry exceeds in size; 0 if all entries are 0.
#[doc(hidden)]
pub fn scale(a: ArrayView2<'_, f64>) -> f64 {
    match a.fold(0.0_f64, |m, x| m.max(x.abs())) {
        0.0 => 0.0,
        x => power_of_two(x),
    }
}

/// Powers of two up to 2^1023 are finite; subnormal numbers are scaled by the least normal one.
fn power_of_two(x: f64) -> f64 {
    2f64.powi((x.log2().ceil() as i32).clamp(-1021, 1023))
}

/// γ_n, rounded up: the relative error of a sum of n products in any order.
#[doc(hidden)]
pub fn gamma(n: usize) -> f64 {
    let nu = (n + 2) as f64 * (f64::EPSILON / 2.0);
    (nu / (1.0 - nu)).next_up()
}

/// ‖A‖₂ from below: ‖A v‖ / ‖v‖ after `steps` of v ← AᵀA v from `start`.
///
/// It converges to σ_max unless the start has no part in the first singular vector; how much is missing is
/// not known. So this is a lower bound, and no certificate may use it from above.
///
/// # Panics
/// If the start does not have one number per column.
#[track_caller]
pub fn power_iteration(a: ArrayView2<'_, f64>, start: ArrayView1<'_, f64>, steps: usize) -> Lower {
    assert!(
        start.len() == a.ncols(),
        "power_iteration: a start of {} numbers for {} columns",
        start.len(),
        a.ncols()
    );
    let unit = |v: Array1<f64>| {
        let norm = Lp::Two.of(v.iter().copied());
        (norm > 0.0).then(|| v / norm)
    };
    let Some(mut v) = unit(start.to_owned()) else {
        return Lower::ZERO;
    };
    for _ in 0..steps {
        let Some(next) = unit(a.t().dot(&a.dot(&v))) else {
            return Lower::ZERO;
        };
        v = next;
    }
    let found = Lp::Two.of(a.dot(&v).iter().copied()) / Lp::Two.of(v.iter().copied());
    match found.is_finite() {
        true => Lower::rounded(found, 2.0 * gamma(a.len())),
        false => Lower::ZERO,
    }
}
