//! The factors between two matrices that make the product of their norms small.

use crate::kernels::gemm::matmul;
use ndarray::{Array1, Array2, ArrayView2, Axis};

/// Steps of the search.
const STEPS: usize = 240;

/// The search minimises Schatten norms with exponents 2 (2^k + 1) in place of the largest singular values,
/// with k from `FIRST` to `LAST`.
const FIRST: u32 = 4;
const LAST: u32 = 8;

/// The diagonal of a positive D that makes ‖B D⁻¹‖₂ ‖D A‖₂ small, for A `[n, k]` and B `[m, n]`: the
/// smallest product of the search, not a proven minimum. For every D, ‖B D⁻¹‖₂ ‖D A‖₂ is a bound of ‖B
/// A‖₂, and of the Lipschitz constant of x ↦ B σ(A x) for functions σ of single neurons with slopes within
/// \[−1, 1\].
///
/// With D = diag eˢ the logarithm of the product is convex in s; its gradient, for Schatten norms in place
/// of ‖·‖₂, is a difference of two distributions over the neurons, and the search follows it with
/// momentum. The exponents of the Schatten norms grow during the search: these norms are never below ‖·‖₂,
/// so the smallest product of all steps counts.
///
/// A neuron whose input is 100 times as large, and whose output is divided by 100 again:
///
/// ```
/// use emmy_certificates::rescale::factors;
/// use ndarray::array;
/// let (a, b) = (array![[1.0], [100.0]], array![[1.0, 0.01]]);
/// let d = factors(a.view(), b.view());
/// assert!((d[0] / d[1] - 100.0).abs() < 1e-6);
/// ```
///
/// # Panics
/// If A has not as many rows as B has columns.
pub fn factors(a: ArrayView2<'_, f64>, b: ArrayView2<'_, f64>) -> Array1<f64> {
    assert_eq!(a.nrows(), b.ncols(), "factors: rows of A and columns of B");
    let (into, out) = (
        RescaledRows::new(a.to_owned()),
        RescaledRows::new(b.t().to_owned()),
    );
    // Equal norms in and out: optimal for the Frobenius norm.
    let equal = |x: f64| Some(0.25 * x.ln()).filter(|s| s.is_finite());
    let mut s = (out.squares() / into.squares()).mapv(|x| equal(x).unwrap_or(0.0));
    let (mut best, mut least) = (s.clone(), f64::INFINITY);
    let mut velocity = Array1::<f64>::zeros(s.len());
    for step in 0..STEPS {
        let squarings = FIRST + (LAST + 1 - FIRST) * step as u32 / STEPS as u32;
        let (x, up) = into.schatten(&s.mapv(f64::exp), squarings);
        let (y, down) = out.schatten(&s.mapv(|s| (-s).exp()), squarings);
        if x + y < least {
            (best, least) = (s.clone(), x + y);
        }
        let rate = 2.0 / (1.0 + step as f64 / 30.0);
        velocity = velocity * 0.9 - (up - down) * rate;
        // A cautious step: the gradient is a difference of distributions.
        s += &velocity.mapv(|v| v.clamp(-0.5, 0.5));
    }
    best.mapv(f64::exp)
}

/// A matrix whose rows are rescaled.
struct RescaledRows {
    a: Array2<f64>,
    /// A Aᵀ, if A has fewer rows than columns.
    gram: Option<Array2<f64>>,
}

impl RescaledRows {
    fn new(a: Array2<f64>) -> Self {
        let gram = (a.nrows() < a.ncols()).then(|| matmul(a.view(), a.t()));
        Self { a, gram }
    }

    /// ‖row‖² for each row.
    fn squares(&self) -> Array1<f64> {
        Array1::from_iter(self.a.outer_iter().map(|r| r.dot(&r)))
    }

    /// ln of the Schatten norm of D A with exponent 2 (N + 1), N = 2^squarings, and its gradient in ln d:
    /// the diagonal of (D A Aᵀ D)^(N + 1), divided by its sum. The power is that of A Aᵀ or of Aᵀ A,
    /// whichever is smaller.
    fn schatten(&self, d: &Array1<f64>, squarings: u32) -> (f64, Array1<f64>) {
        let column = d.view().insert_axis(Axis(1));
        let rows_of = |x: Array2<f64>| x.sum_axis(Axis(1));
        let (log, diagonal) = match &self.gram {
            Some(gram) => {
                let x = gram * &column * d.view().insert_axis(Axis(0));
                let (log, power) = power(&x, squarings);
                (log, rows_of(x * power))
            }
            None => {
                let a = &self.a * &column;
                let (log, power) = power(&matmul(a.t(), a.view()), squarings);
                (log, rows_of(matmul(a.view(), power.view()) * a))
            }
        };
        let sum = diagonal.sum().max(f64::MIN_POSITIVE);
        let exponent = 2.0 * (f64::from(squarings).exp2() + 1.0);
        ((log + sum.ln()) / exponent, diagonal / sum)
    }
}

/// l and Y with X^N = eˡ Y, N = 2^squarings, where Y has trace 1.
fn power(x: &Array2<f64>, squarings: u32) -> (f64, Array2<f64>) {
    let (mut log, mut y) = (0.0, x.clone());
    for k in 0..=squarings {
        if k > 0 {
            (log, y) = (2.0 * log, matmul(y.view(), y.view()));
        }
        let trace = y.diag().sum().max(f64::MIN_POSITIVE);
        log += trace.ln();
        y /= trace;
    }
    (log, y)
}
