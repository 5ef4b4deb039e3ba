//! Two linear maps with an activation between them: a bound that does not change under the rescaling of
//! neurons.
//!
//! | letter | shape | |
//! |---|---|---|
//! | W₁ | `[h, k]` | into the neurons |
//! | W₂ | `[m, h]` | out of the neurons |
//! | D | `[h, h]` | diagonal, positive |
//!
//! If σ is homogeneous, the function x ↦ W₂ σ(W₁ x) does not change when a neuron's input is multiplied by a
//! factor and its output is divided by it. But ‖W₂‖ ‖W₁‖ changes. If the slopes of σ are within \[l, u\],
//! σ(z) = ½(u + l) z + ½(u − l) g(z), where g acts on each neuron and has slopes within \[−1, 1\]. D g D⁻¹
//! has such slopes too, for every D. Hence
//!
//! L ≤ ½ |u + l| ‖W₂ W₁‖ + ½ (u − l) min_D ‖W₂ D⁻¹‖ ‖D W₁‖.

use super::bound::{Matrix, multiply};
use super::differentiate;
use crate::autodiff::{Tape, Var};
use crate::kernels::gemm::matmul;
use crate::linalg::{Lp, Upper, frobenius_norm};
use crate::real::Real;
use ndarray::{Array1, Array2, ArrayView2, Axis};

/// W₁, W₂ and the slopes of the activation.
#[derive(Debug)]
pub(crate) struct Pair {
    pub p: Lp,
    pub first: Matrix,
    pub second: Matrix,
    /// The smallest and the largest slope.
    pub slopes: [f64; 2],
}

/// Steps of the search for D.
const STEPS: usize = 120;

/// The search minimises Schatten norms with this exponent in place of the largest singular values: a power of
/// two, 2^k, that k squarings compute.
const SQUARINGS: u32 = 6;

impl Pair {
    /// The two factors of the bound: ½ |u + l| and ½ (u − l).
    fn parts(&self) -> [Upper; 2] {
        let [low, high] = self.slopes;
        let half = |x: f64| Upper::rounded(0.5 * x.abs(), 4.0 * f64::EPSILON);
        [half(high + low), half(high - low)]
    }

    pub fn upper<F: Real>(&self, tape: &Tape<F>) -> Upper {
        let (first, second) = (self.first.values(tape), self.second.values(tape));
        let (w1, w2) = (&first[0], &second[0]);
        if [w1, w2].iter().any(|w| w.iter().any(|x| !x.is_finite())) {
            return Upper::INFINITE;
        }
        let [linear, bent] = self.parts();
        let (product, error) = multiply(&[w2, w1]);
        let spread = match self.p {
            Lp::Two => Upper::ONE,
            _ => Upper::new(product.len() as f64).sqrt(),
        };
        let through = self.p.matrix(product.view()) + error * spread;
        linear * through + bent * self.rescaled(w1, w2)
    }

    /// An upper bound of min_D ‖W₂ D⁻¹‖ ‖D W₁‖: the value at the best D that was found.
    fn rescaled(&self, w1: &Array2<f64>, w2: &Array2<f64>) -> Upper {
        if self.p != Lp::Two {
            // The minimum is ‖|W₂| |W₁|‖: with D the reciprocals of the row sums of |W₁| for p = ∞, and
            // dually for p = 1.
            let (product, error) = multiply(&[&w2.mapv(f64::abs), &w1.mapv(f64::abs)]);
            let spread = Upper::new(product.len() as f64).sqrt();
            return self.p.matrix(product.view()) + error * spread;
        }
        let d = scales(w1.view(), w2.view(), STEPS);
        let at = |d: &Array1<f64>| {
            let scaled = |w: Array2<f64>| {
                // Each entry was rounded once.
                let error = Upper::new(2.0 * f64::EPSILON) * frobenius_norm(w.view());
                Lp::Two.matrix(w.view()) + error
            };
            scaled(w2 / &d.view().insert_axis(Axis(0)))
                * scaled(w1 * &d.view().insert_axis(Axis(1)))
        };
        at(&d).min(at(&Array1::ones(d.len())))
    }

    /// The bound as a variable; D is held fixed, which gives the same derivative (the minimum is stationary
    /// in D).
    pub fn var<'t, F: Real>(&self, tape: &'t Tape<F>) -> Var<'t, F> {
        let (w1, w2) = (self.first.var(tape), self.second.var(tape));
        let [linear, bent] = self.parts().map(|x| F::of(x.get()));
        let through = differentiate::norm(self.p, w2.matmul(w1)).scale(linear);
        let apart = match self.p {
            Lp::Two => {
                let (a, b) = (&self.first.values(tape)[0], &self.second.values(tape)[0]);
                let d = scales(a.view(), b.view(), STEPS);
                let d = |shape: &[usize]| {
                    let d = d.mapv(F::of).into_dyn().into_shared();
                    tape.constant(d).reshape(shape)
                };
                differentiate::norm(Lp::Two, w2 / d(&[1, a.nrows()]))
                    * differentiate::norm(Lp::Two, w1 * d(&[a.nrows(), 1]))
            }
            _ => differentiate::norm(self.p, w2.abs().matmul(w1.abs())),
        };
        through + apart.scale(bent)
    }
}

/// D that makes ‖W₂ D⁻¹‖₂ ‖D W₁‖₂ small. With D = diag eˢ the logarithm of the product is convex in s; its
/// gradient, for Schatten norms in place of ‖·‖₂, is a difference of two distributions over the neurons, and
/// the search follows it with momentum.
fn scales(w1: ArrayView2<'_, f64>, w2: ArrayView2<'_, f64>, steps: usize) -> Array1<f64> {
    let h = w1.nrows();
    let row = |w: ArrayView2<'_, f64>| Array1::from_iter(w.outer_iter().map(|r| r.dot(&r)));
    let (into, out) = (row(w1), row(w2.t()));
    // A neuron without input or without output may have any scale; a factor far from the others would only
    // reduce the accuracy.
    let live: Vec<bool> = (0..h).map(|j| into[j] > 0.0 && out[j] > 0.0).collect();
    // Equal norms in and out: optimal for the Frobenius norm.
    let mut s = Array1::from_iter((0..h).map(|j| match live[j] {
        true => 0.25 * (out[j] / into[j]).ln(),
        false => 0.0,
    }));
    let (gram1, gram2) = (matmul(w1, w1.t()), matmul(w2.t(), w2));
    let (mut best, mut least) = (s.clone(), f64::INFINITY);
    let mut velocity = Array1::<f64>::zeros(h);
    for step in 0..steps {
        let (a, up) = schatten(&gram1, &s.mapv(f64::exp));
        let (b, down) = schatten(&gram2, &s.mapv(|s| (-s).exp()));
        if a + b < least {
            (best, least) = (s.clone(), a + b);
        }
        let rate = 8.0 / (1.0 + step as f64 / 15.0);
        velocity = velocity * 0.8 - (up - down) * rate;
        for j in 0..h {
            if live[j] {
                // A cautious step: the gradient is a difference of distributions.
                s[j] += velocity[j].clamp(-0.5, 0.5);
            }
        }
    }
    best.mapv(f64::exp)
}

/// ln of the Schatten norm of D W with exponent 2^k, from W Wᵀ, and its gradient in ln d: the diagonal of
/// (D W Wᵀ D)^(2^(k−1)), divided by its sum.
fn schatten(gram: &Array2<f64>, d: &Array1<f64>) -> (f64, Array1<f64>) {
    let mut g = gram * &d.view().insert_axis(Axis(1)) * d.view().insert_axis(Axis(0));
    let mut log = 0.0;
    for k in 0..SQUARINGS {
        let trace = g.diag().sum().max(f64::MIN_POSITIVE);
        g /= trace;
        log += trace.ln() * 0.5f64.powi(k as i32);
        if k + 1 < SQUARINGS {
            g = matmul(g.view(), g.view());
        }
    }
    (0.5 * log, g.diag().to_owned())
}
