//! A lower bound of a constant on all inputs: gradient ascent searches for the input at which the Jacobian is
//! largest.

use super::estimate::{rounding, singular};
use crate::autodiff::{Tape, Var, grad, vjp_graph};
use crate::init;
use crate::linalg::{Lower, Lp};
use crate::real::Real;
use crate::tensor::Tensor;
use rayon::prelude::*;

/// The norm of the Jacobian that the search makes large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Objective {
    /// ‖J‖₂.
    Two,
    /// ‖J‖_∞, the largest row; all rows are compared at each start, and the largest is followed.
    Inf,
    /// The sum of |J_kj| over j for one entry k of the output. If f commutes with permutations of its rows,
    /// as attention does, no other row is larger.
    Row(usize),
}

/// Gradient ascent (Adam) on ‖J(x)‖ over x from several starts: Kim et al., "The Lipschitz Constant of
/// Self-Attention", ICML 2021, Appendix H. It needs second derivatives.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ascent {
    /// The norm.
    pub objective: Objective,
    /// The number of random starts.
    pub restarts: usize,
    /// Steps per start.
    pub steps: usize,
    /// The rate of Adam.
    pub rate: f64,
    /// The standard deviation of the entries of the starts.
    pub spread: f64,
    /// The largest 2-norm of a row of x, to search for the constant on such inputs.
    pub radius: Option<f64>,
    /// The seed of all starts.
    pub seed: u64,
}

/// The result of a search.
#[derive(Debug, Clone)]
pub struct Steepest<F> {
    /// The largest norm.
    pub lower: Lower,
    /// The input where it was found.
    pub at: Tensor<F>,
}

impl Ascent {
    /// 10 starts of 200 steps with rate 0.05.
    pub fn new(objective: Objective, seed: u64) -> Self {
        Self {
            objective,
            restarts: 10,
            steps: 200,
            rate: 0.05,
            spread: 1.0,
            radius: None,
            seed,
        }
    }

    /// The largest norm over all starts and steps, for inputs of this shape. Starts run on several threads;
    /// the result does not depend on their number.
    pub fn run<F: Real>(
        &self,
        shape: &[usize],
        f: impl for<'t> Fn(Var<'t, F>) -> Var<'t, F> + Sync,
    ) -> Steepest<F> {
        let starts = (0..self.restarts as u64).map(|k| {
            let seed = crate::kernels::random::mix(self.seed, k);
            init::normal(shape, self.spread, &mut init::rng(seed))
        });
        self.from(starts.collect(), f)
    }

    /// The same from given starts.
    ///
    /// # Panics
    /// If there is no start.
    pub fn from<F: Real>(
        &self,
        starts: Vec<Tensor<F>>,
        f: impl for<'t> Fn(Var<'t, F>) -> Var<'t, F> + Sync,
    ) -> Steepest<F> {
        self.guided(starts, &f, &f)
    }

    /// The same, but the ascent follows another function: the result is the norm for `f`, and the gradients
    /// are those of `guide`. The Jacobian of a network of ReLUs is piecewise constant, so its gradient is
    /// zero; with smooth activations in place of ReLUs the network has a useful gradient.
    ///
    /// # Panics
    /// If there is no start.
    pub fn guided<F: Real>(
        &self,
        starts: Vec<Tensor<F>>,
        f: impl for<'t> Fn(Var<'t, F>) -> Var<'t, F> + Sync,
        guide: impl for<'t> Fn(Var<'t, F>) -> Var<'t, F> + Sync,
    ) -> Steepest<F> {
        assert!(!starts.is_empty(), "Ascent: it needs at least one start");
        let found: Vec<_> = (starts.into_par_iter().enumerate())
            .map(|(k, x)| self.climb(x, &f, &guide, k as u64))
            .collect();
        let best = found.into_iter().reduce(|a, b| match b.lower > a.lower {
            true => b,
            false => a,
        });
        best.expect("at least one start")
    }

    fn climb<F: Real>(
        &self,
        start: Tensor<F>,
        f: &(impl for<'t> Fn(Var<'t, F>) -> Var<'t, F> + Sync),
        guide: &(impl for<'t> Fn(Var<'t, F>) -> Var<'t, F> + Sync),
        k: u64,
    ) -> Steepest<F> {
        let mut x = start;
        self.confine(&mut x);
        let mut best = Steepest {
            lower: Lower::ZERO,
            at: x.clone(),
        };
        let mut direction = None;
        let mut row = match self.objective {
            Objective::Row(k) => Some(k),
            _ => None,
        };
        let (mut mean, mut square) = (Tensor::<F>::zeros(x.shape()), Tensor::<F>::zeros(x.shape()));
        for step in 0..=self.steps {
            let tape = Tape::new();
            let at = tape.var(x.clone());
            let y = f(at);
            let (norm, gradient) = match self.objective {
                Objective::Two => {
                    let (norm, u, v) = singular(y, at, direction.take(), POWER, self.seed ^ k);
                    // σ = ⟨u, J v⟩, with u and v fixed: to first order their change has no effect.
                    let through = vjp_graph(guide(at), &[at], tape.constant(u))[0];
                    let sigma = (through * tape.constant(v.clone())).sum_all();
                    let gradient = grad(sigma, &[at]).swap_remove(0);
                    direction = Some(v);
                    (norm, gradient)
                }
                _ => {
                    let row = *row.get_or_insert_with(|| largest_row(y, at));
                    let norm = one_row(y, at, row).item().as_f64();
                    let norm = match norm.is_finite() {
                        true => Lower::rounded(norm, rounding(y, at)),
                        false => Lower::ZERO,
                    };
                    (
                        norm,
                        grad(one_row(guide(at), at, row), &[at]).swap_remove(0),
                    )
                }
            };
            if norm > best.lower {
                best = Steepest {
                    lower: norm,
                    at: x.clone(),
                };
            }
            if !norm.get().is_finite() || step == self.steps {
                break;
            }
            // Adam on ln ‖J‖, whose gradient has the same size for all scales of f.
            let scale = F::of(1.0 / norm.get().max(f64::MIN_POSITIVE));
            let (b1, b2) = (F::of(0.9), F::of(0.999));
            let rate = F::of(self.rate * (1.0 - step as f64 / self.steps.max(1) as f64).max(0.05));
            let corrections = [0.9f64, 0.999].map(|b| F::of(1.0 - b.powi(step as i32 + 1)));
            let mut next = x.clone();
            let moments = mean.iter_mut().zip(square.iter_mut());
            for ((x, g), (m, s)) in next.iter_mut().zip(gradient.iter()).zip(moments) {
                let g = *g * scale;
                if !g.is_finite() {
                    continue;
                }
                *m = b1 * *m + (F::one() - b1) * g;
                *s = b2 * *s + (F::one() - b2) * g * g;
                let root = (*s / corrections[1]).sqrt() + F::of(1e-8);
                *x += rate * (*m / corrections[0]) / root;
            }
            x = next;
            self.confine(&mut x);
        }
        best
    }

    /// Rows beyond the radius are scaled back to it.
    fn confine<F: Real>(&self, x: &mut Tensor<F>) {
        let Some(radius) = self.radius else { return };
        let last = ndarray::Axis(x.ndim().saturating_sub(1));
        for mut row in x.lanes_mut(last) {
            let norm = Lp::Two.of(row.iter().map(|x| x.as_f64()));
            if norm > radius {
                // A little less, so that rounding does not take the row beyond the radius.
                row.mapv_inplace(|x| F::of(x.as_f64() * (radius / norm) * (1.0 - 1e-6)));
            }
        }
    }
}

/// Steps of power iteration per step of the ascent; each iteration continues where the one before ended.
const POWER: usize = 20;

/// Σ_j |J_kj|, differentiable.
fn one_row<'t, F: Real>(y: Var<'t, F>, x: Var<'t, F>, k: usize) -> Var<'t, F> {
    let mut e = Tensor::zeros(vec![y.len()]);
    e[[k]] = F::one();
    let e = y.tape().constant(e).reshape(&y.shape());
    vjp_graph(y, &[x], e)[0].abs().sum_all()
}

/// The row of J with the largest sum of |J_kj|.
fn largest_row<F: Real>(y: Var<'_, F>, x: Var<'_, F>) -> usize {
    let tape = y.tape();
    let sums = (0..y.len()).map(|k| tape.scratch(true, || one_row(y, x, k).item().as_f64()));
    let best = sums
        .enumerate()
        .reduce(|a, b| if b.1 > a.1 { b } else { a });
    best.map_or(0, |(k, _)| k)
}
