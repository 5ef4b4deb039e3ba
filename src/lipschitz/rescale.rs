//! Two linear maps with an activation between them: a bound that does not change under the rescaling of
//! neurons.
//!
//! | letter | shape | |
//! |---|---|---|
//! | W₁ | `[h, k]` | into the neurons |
//! | W₂ | `[m, h]` | out of the neurons |
//! | A | `[m + h, k]` | W₂ W₁ above W₁ |
//! | B | `[m, m + h]` | c I beside r W₂ |
//! | D | `[m + h, m + h]` | diagonal, positive |
//!
//! If σ is homogeneous, the function x ↦ W₂ σ(W₁ x) does not change when a neuron's input is multiplied by a
//! factor and its output is divided by it. But ‖W₂‖ ‖W₁‖ changes. If the slopes of σ are within \[l, u\],
//! σ(z) = c z + r g(z) with c = ½(u + l) and r = ½(u − l), where g acts on each neuron and has slopes within
//! \[−1, 1\]. So W₂ σ(W₁ x) = B ĝ(A x), where ĝ does not change the first m entries and applies g to the
//! others. D ĝ D⁻¹ has slopes within \[−1, 1\] too, for every D. Hence
//!
//! L ≤ min_D ‖B D⁻¹‖ ‖D A‖.
//!
//! By Cauchy and Schwarz this is at most |c| ‖W₂ W₁‖ + r min_E ‖W₂ E⁻¹‖ ‖E W₁‖, where E `[h, h]` is diagonal
//! and positive. With one output, m = 1, the square of the bound is Shor's semidefinite relaxation of
//! max ‖W₂ diag(t) W₁‖² over the slopes t ∈ \[l, u\]ʰ. So the bound is at most √(π/2) = 1.2533 times this
//! maximum (Nesterov, "Semidefinite relaxation and nonconvex quadratic optimization", 1998). A ReLU network
//! with linearly independent rows of W₁ reaches the maximum.

use super::matrix::{self, Matrix, multiply};
use crate::autodiff::{Tape, Var};
use crate::linalg::{Lp, Upper, frobenius_norm, scale};
use crate::real::Real;
use emmy_certificates::rescale::factors;
use ndarray::{Array1, Array2, Axis, concatenate};

/// W₁, W₂ and the slopes of the activation.
#[derive(Debug)]
pub(crate) struct Pair {
    pub p: Lp,
    pub first: Matrix,
    pub second: Matrix,
    /// The smallest and the largest slope.
    pub slopes: [f64; 2],
}

/// Matrices whose largest entry is outside these limits are divided by a power of two first, which is exact.
/// Then products of their entries neither overflow nor, above `LEAST`, vanish; matrices with smaller entries
/// beside these are left to the plain bound.
const USUAL: std::ops::Range<f64> = 1e-20..1e20;
const LEAST: f64 = 1e-100;

impl Pair {
    /// c and r, where r is rounded up so that c ± r covers the slopes.
    fn parts(&self) -> [f64; 2] {
        let [low, high] = self.slopes;
        let rounding = 4.0 * f64::EPSILON * low.abs().max(high.abs());
        [0.5 * (high + low), 0.5 * (high - low) + rounding]
    }

    pub fn upper<F: Real>(&self, tape: &Tape<F>) -> Upper {
        let [first, second] = [&self.first, &self.second].map(|w| w.values(tape).pop());
        // Without a neuron between them the product is 0.
        let (Some(first), Some(second)) = (first, second) else {
            return Upper::ZERO;
        };
        let [first, second] = [first, second].map(sized);
        let (Some((w1, s1)), Some((w2, s2))) = (first, second) else {
            return Upper::INFINITE;
        };
        self.of(&w1, &w2) * s1 * s2
    }

    /// The bound for matrices whose entries are of usual size.
    fn of(&self, w1: &Array2<f64>, w2: &Array2<f64>) -> Upper {
        let [c, r] = self.parts();
        let (product, error) = multiply(&[w2, w1]);
        let error = Upper::new(c.abs()) * error;
        if self.p == Lp::Two {
            return Scaled::new(w1, w2, &product, [c, r]).upper() + error;
        }
        // The minimum over D is ‖|B| |A|‖. For p = ∞ the entries of this D are the reciprocals of the row
        // sums of |A|; for p = 1 they are the column sums of |B|.
        let (bent, rounding) = multiply(&[&w2.mapv(f64::abs), &w1.mapv(f64::abs)]);
        let sum = product.mapv(|x| x.abs() * c.abs()) + bent * r;
        let rounding =
            Upper::new(r) * rounding + Upper::new(4.0 * f64::EPSILON) * frobenius_norm(sum.view());
        let spread = Upper::new(sum.len() as f64).sqrt();
        self.p.matrix(sum.view()) + (error + rounding) * spread
    }

    /// The bound as a variable; D is held fixed, which gives nearly the same derivative (the minimum is
    /// stationary in D where the norms are differentiable).
    pub fn var<'t, F: Real>(&self, tape: &'t Tape<F>) -> Var<'t, F> {
        let (w1, w2) = (self.first.var(tape), self.second.var(tape));
        let parts = self.parts();
        let [c, r] = parts.map(F::of);
        let product = w2.matmul(w1);
        if self.p != Lp::Two {
            let bent = w2.abs().matmul(w1.abs());
            return matrix::norm(self.p, product.abs().scale(c.abs()) + bent.scale(r));
        }
        let [a, b] = [&self.first, &self.second].map(|w| w.values(tape).pop());
        let (Some(a), Some(b)) = (a, b) else {
            return matrix::norm(Lp::Two, product);
        };
        let scaled = Scaled::new(&a, &b, &multiply(&[&b, &a]).0, parts);
        let live = &scaled.live;
        let d = |shape: &[usize]| {
            let d = scaled.factors().mapv(F::of).into_dyn().into_shared();
            tape.constant(d).reshape(shape)
        };
        let one = tape.constant(Array2::eye(b.nrows()).into_dyn().into_shared());
        let a = Var::concat(&[product, w1], 0).index_select(0, &live[..]);
        let b = Var::concat(&[one.scale(c), w2.scale(r)], 1).index_select(1, &live[..]);
        matrix::norm(Lp::Two, b / d(&[1, live.len()]))
            * matrix::norm(Lp::Two, a * d(&[live.len(), 1]))
    }
}

/// A matrix as one with entries of usual size and a power of two; `None` if there is none.
fn sized(w: Array2<f64>) -> Option<(Array2<f64>, Upper)> {
    if !w.iter().all(|x| x.is_finite()) {
        return None;
    }
    let size = match scale(w.view()) {
        0.0 => 1.0,
        size if USUAL.contains(&size) => 1.0,
        size => size,
    };
    let usual = w.iter().all(|x| *x == 0.0 || (x / size).abs() >= LEAST);
    usual.then(|| (w.mapv_into(|x| x / size), Upper::new(size)))
}

/// A and B, and the search for D.
struct Scaled {
    a: Array2<f64>,
    b: Array2<f64>,
    /// The rows of A and columns of B that are kept: those that are not zero. The others add nothing to B A.
    live: Vec<usize>,
}

impl Scaled {
    fn new(w1: &Array2<f64>, w2: &Array2<f64>, product: &Array2<f64>, [c, r]: [f64; 2]) -> Self {
        let a = concatenate![Axis(0), *product, *w1];
        let b = concatenate![Axis(1), Array2::eye(w2.nrows()) * c, w2 * r];
        let any = |row: ndarray::ArrayView1<'_, f64>| row.iter().any(|&x| x != 0.0);
        let live: Vec<usize> = (0..a.nrows())
            .filter(|&j| any(a.row(j)) && any(b.column(j)))
            .collect();
        Self {
            a: a.select(Axis(0), &live),
            b: b.select(Axis(1), &live),
            live,
        }
    }

    /// An upper bound of min_D ‖B D⁻¹‖ ‖D A‖: the value at the best D that was found.
    fn upper(&self) -> Upper {
        if self.live.is_empty() {
            return Upper::ZERO;
        }
        let norm = |w: Array2<f64>| {
            if !w.iter().all(|x| x.is_finite()) {
                return Upper::INFINITE;
            }
            // Each entry was rounded at most twice.
            let error = Upper::new(4.0 * f64::EPSILON) * frobenius_norm(w.view());
            Lp::Two.matrix(w.view()) + error
        };
        let at = |d: &Array1<f64>| {
            norm(&self.b / &d.view().insert_axis(Axis(0)))
                * norm(&self.a * &d.view().insert_axis(Axis(1)))
        };
        at(&self.factors()).min(at(&Array1::ones(self.live.len())))
    }

    /// D, see [`factors`].
    fn factors(&self) -> Array1<f64> {
        factors(self.a.view(), self.b.view())
    }
}
