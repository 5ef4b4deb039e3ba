//! Tools that several tests use.

pub use crate::cases::{cases, near};
use emmy::ndarray::{Array1, Array2, ArrayView1, Axis, Ix2};
use emmy::nn::{ContraConfig, Pass};
use emmy::{Tape, Tensor, Var, autodiff::grad, init, linalg};

/// Two matrices agree to the given part of the largest entry.
#[track_caller]
pub fn alike(x: &Array2<f64>, y: &Array2<f64>, tolerance: f64) {
    assert_eq!(x.dim(), y.dim());
    let apart = largest(&(x - y));
    assert!(apart <= tolerance * largest(y).max(1e-300), "{x} and {y}");
}

pub fn largest(x: &Array2<f64>) -> f64 {
    x.iter().fold(0.0, |m, x| f64::max(m, x.abs()))
}

/// n rows of d features, normal with a deviation of `size`.
pub fn rows(n: usize, d: usize, size: f64, seed: u64) -> Array2<f64> {
    matrix(&init::normal(&[n, d], size, &mut init::rng(seed)))
}

/// n, d and the size of the features, different from case to case.
pub fn shape(seed: u64) -> (usize, usize, f64) {
    let k = seed as usize;
    let size = [0.1, 0.5, 1.0, 2.0, 5.0][k / 3 % 5];
    (1 + k % 9, 1 + k / 9 % 5, size)
}

pub fn matrix(x: &Tensor<f64>) -> Array2<f64> {
    let x = x.to_owned().into_dimensionality::<Ix2>();
    x.expect("a matrix")
}

pub fn tensor(x: &Array2<f64>) -> Tensor<f64> {
    x.as_standard_layout().into_owned().into_dyn().into_shared()
}

/// The derivative of a number with respect to a matrix.
pub fn gradient(
    x: &Array2<f64>,
    f: impl for<'t> FnOnce(Var<'t, f64>) -> Var<'t, f64>,
) -> Array2<f64> {
    let tape = Tape::new();
    let x = tape.var(tensor(x));
    matrix(&grad(f(x), &[x])[0])
}

/// exp(x) of every entry, each row divided by its sum.
pub fn softmax(x: &Array2<f64>) -> Array2<f64> {
    let mut y = x.clone();
    for mut row in y.rows_mut() {
        let top = row.fold(f64::NEG_INFINITY, |m, x| m.max(*x));
        row.mapv_inplace(|x| (x - top).exp());
        let sum = row.sum();
        row /= sum;
    }
    y
}

/// The terms D⁻¹A H/τ and A D⁻¹ H/τ of Eq. (5). D⁻¹A is a softmax, computed without overflow.
pub fn terms(h: &Array2<f64>, tau: f64) -> [Array2<f64>; 2] {
    let p = softmax(&(h.dot(&h.t()) / tau));
    [p.dot(h) / tau, p.t().dot(h) / tau]
}

/// (1 + s)H − s softmax(HHᵀ)H, Eq. (8), by the library's layer.
pub fn step(h: &Array2<f64>, s: f64) -> Array2<f64> {
    moved(ContraConfig::regularized(s), h)
}

/// The output of the library's layer for the rows h.
pub fn moved(config: ContraConfig, h: &Array2<f64>) -> Array2<f64> {
    let layer = config.build::<f64>(h.ncols());
    let tape = Tape::new();
    let pass = Pass::eval(&tape, &layer);
    matrix(&layer.forward(&pass, tape.constant(tensor(h))).value())
}

/// I − eeᵀ with e = (1, …, 1)/√n: a matrix times it has rows less their mean.
pub fn centring(n: usize) -> Array2<f64> {
    Array2::eye(n) - 1.0 / n as f64
}

/// ‖X − 1x̄ᵀ‖_F².
pub fn spread(x: &Array2<f64>) -> f64 {
    let mean = x.mean_axis(Axis(0)).expect("rows");
    (x - &mean).mapv(|x| x * x).sum()
}

/// The eigenvalues of a symmetric matrix, ascending.
pub fn eigenvalues(x: &Array2<f64>) -> Array1<f64> {
    let symmetric = (x + &x.t()) / 2.0;
    linalg::eigh(symmetric.view()).0
}

/// A random orthogonal matrix.
pub fn rotation(n: usize, seed: u64) -> Array2<f64> {
    linalg::qr(rows(n, n, 1.0, seed).view()).0
}

/// ⟨a, b⟩ / (‖a‖ ‖b‖), and 0 if one of them is 0.
pub fn cosine(a: ArrayView1<'_, f64>, b: ArrayView1<'_, f64>) -> f64 {
    let size = (a.dot(&a) * b.dot(&b)).sqrt();
    if size == 0.0 { 0.0 } else { a.dot(&b) / size }
}
