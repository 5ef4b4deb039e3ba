//! Matrices on a tape, and the norms of their products: certified, and as variables.

use crate::autodiff::{Tape, Var};
use crate::linalg::{Lp, Upper, frobenius_norm};
use crate::real::Real;
use ndarray::{Array2, Ix2};
use std::ops::Range;

/// Squarings of the Gram matrix: the norm is overestimated by a factor of at most n^(2^−12), 1.003 for n =
/// 100 000, and by much less if the singular values differ.
const SQUARINGS: u32 = 10;

/// A matrix on the tape, or some of its rows; or a batch of matrices, of which the largest norm counts.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Matrix {
    pub node: usize,
    /// Rows that are taken, if not all.
    pub rows: Option<Range<usize>>,
    pub transposed: bool,
}

impl Matrix {
    pub fn t(mut self) -> Self {
        self.transposed = !self.transposed;
        self
    }

    /// The matrices as they are in the product, in `f64`.
    pub fn values<F: Real>(&self, tape: &Tape<F>) -> Vec<Array2<f64>> {
        let value = tape.value(self.node).mapv(Real::as_f64);
        let shape = value.shape().to_vec();
        let (m, n) = match shape[..] {
            [n] => (1, n),
            [.., m, n] => (m, n),
            [] => (1, 1),
        };
        let batch = value.len().checked_div(m * n).unwrap_or(0);
        let all = value.as_standard_layout().into_owned();
        let all = all.into_shape_with_order((batch, m, n)).expect("as many");
        let each = all.outer_iter().map(|a| {
            let a = match &self.rows {
                Some(rows) => a.slice(ndarray::s![rows.clone(), ..]).to_owned(),
                None => a.to_owned(),
            };
            if self.transposed {
                a.reversed_axes()
            } else {
                a
            }
        });
        each.collect()
    }

    /// The matrix as a variable.
    pub fn var<'t, F: Real>(&self, tape: &'t Tape<F>) -> Var<'t, F> {
        let mut a = tape.handle(self.node);
        if a.ndim() < 2 {
            a = a.reshape(&[1, a.len()]);
        }
        if let Some(rows) = &self.rows {
            a = a.slice(-2, rows.clone());
        }
        if self.transposed { a.t() } else { a }
    }
}

impl From<usize> for Matrix {
    fn from(node: usize) -> Self {
        Self {
            node,
            rows: None,
            transposed: false,
        }
    }
}

pub(super) fn finite<'a>(mut x: impl Iterator<Item = &'a f64>) -> bool {
    x.all(|x| x.is_finite())
}

/// An upper bound of ‖A₁ A₂ …‖_p: the norm of the product with its rounding error, or the product of the
/// norms if that is smaller. Each factor is a batch, and batches of several matrices are combined one by one.
pub(super) fn product_norm(p: Lp, factors: &[Vec<Array2<f64>>]) -> Upper {
    let sound = |a: &Array2<f64>| match finite(a.iter()) {
        true => p.matrix(a.view()),
        false => Upper::INFINITE,
    };
    let worst = |batch: &Vec<Array2<f64>>| batch.iter().map(sound).fold(Upper::ZERO, Upper::max);
    let apart: Upper = factors.iter().map(worst).product();
    if factors.len() < 2 || !apart.is_finite() {
        return apart;
    }
    let count = factors.iter().map(Vec::len).max().unwrap_or(0);
    if factors.iter().any(|f| f.len() != count && f.len() != 1) {
        return apart;
    }
    let together = (0..count).map(|k| {
        let each: Vec<&Array2<f64>> = factors.iter().map(|f| &f[k % f.len()]).collect();
        let (product, error) = multiply(&each);
        // ‖E‖_p ≤ √size ‖E‖_F covers all three norms.
        let spread = match p {
            Lp::Two => Upper::ONE,
            _ => Upper::new(product.len() as f64).sqrt(),
        };
        sound(&product) + error * spread
    });
    together.fold(Upper::ZERO, Upper::max).min(apart)
}

/// A₁ A₂ …, and a bound of the Frobenius norm of its rounding error.
pub(super) fn multiply(factors: &[&Array2<f64>]) -> (Array2<f64>, Upper) {
    let mut product = factors[0].clone();
    let mut error = Upper::ZERO;
    for b in &factors[1..] {
        let (size, next) = (frobenius_norm(product.view()), frobenius_norm(b.view()));
        let gamma = (product.ncols() + 2) as f64 * f64::EPSILON;
        error = error * next + Upper::new(gamma) * size * next;
        product = crate::kernels::gemm::matmul(product.view(), b.view());
    }
    (
        product.into_dimensionality::<Ix2>().expect("a matrix"),
        error,
    )
}

pub(super) fn product<'t, F: Real>(tape: &'t Tape<F>, factors: &[Matrix]) -> Var<'t, F> {
    let factors = factors.iter().map(|m| m.var(tape));
    factors.reduce(Var::matmul).expect("at least one factor")
}

/// ‖A‖_p, the largest of a batch.
pub(super) fn norm<F: Real>(p: Lp, a: Var<'_, F>) -> Var<'_, F> {
    match p {
        _ if a.is_empty() => a.sum_all(),
        Lp::One => a.abs().sum(&[-2], false).max_all(),
        Lp::Inf => a.abs().sum(&[-1], false).max_all(),
        Lp::Two => spectral(a),
    }
}

/// σ_max by Gram iteration: with G₀ = AᵀA and G_{k+1} = (G_k/‖G_k‖_F)², ln σ_max² ≈ Σ 2⁻ᵏ ln ‖G_k‖_F.
fn spectral<F: Real>(a: Var<'_, F>) -> Var<'_, F> {
    let shape = a.shape();
    let n = shape.len();
    let mut g = match shape[n - 2] < shape[n - 1] {
        true => a.matmul(a.t()),
        false => a.t().matmul(a),
    };
    let size = |g: Var<'_, F>| g.value().iter().all(|x| *x == F::zero());
    if size(g) {
        // The derivative of a norm at 0 is 0.
        return g.sum_all();
    }
    let mut log = None;
    for k in 0..=SQUARINGS {
        let norm = g.norm(&[-2, -1], true);
        let term = norm.ln().scale(F::of(0.5f64.powi(k as i32)));
        log = Some(log.map_or(term, |log: Var<'_, F>| log + term));
        if k < SQUARINGS {
            let unit = g / norm;
            g = unit.matmul(unit);
        }
    }
    log.expect("a term").scale(F::of(0.5)).exp().max_all()
}
