//! Arithmetic on bounds that are never too small, entry by entry.

use crate::linalg::gamma;
use crate::real::Real;
use crate::tensor::memory::Buffer;
use crate::tensor::{Tensor, broadcast_shapes, contiguous};
use ndarray::{ArrayViewD, IxDyn, Zip};

/// u.
pub(super) fn unit<F: Real>() -> f64 {
    0.5 * F::epsilon().as_f64()
}

/// The least normal number: what a rounding may lose beside u times the value.
pub(super) fn tiny<F: Real>() -> f64 {
    F::min_positive_value().as_f64()
}

/// γ_n = n u / (1 − n u) in the model's type, rounded up: the relative error of a sum of n products.
pub(super) fn sums<F: Real>(n: usize) -> Option<f64> {
    let nu = n as f64 * unit::<F>();
    (nu < 0.5).then(|| raised(nu / (1.0 - nu), 3))
}

/// An upper bound of a sum of at most n products of numbers ≥ 0 that was computed in `f64`.
pub(super) fn raised(x: f64, n: usize) -> f64 {
    match x == 0.0 {
        true if n <= 1 => 0.0,
        true => f64::MIN_POSITIVE * n as f64,
        false => (x * (1.0 + 2.0 * gamma(n))).next_up() + f64::MIN_POSITIVE * n as f64,
    }
}

/// a b from above; 0 if one of them is 0.
pub(super) fn times(a: f64, b: f64) -> f64 {
    match a == 0.0 || b == 0.0 {
        true => 0.0,
        false => raised(a * b, 1).max(f64::MIN_POSITIVE),
    }
}

/// f of the entries of two tensors, one of which may be broadcast.
pub(super) fn pairs(a: &Tensor<f64>, b: &Tensor<f64>, f: impl Fn(f64, f64) -> f64) -> Tensor<f64> {
    let shape = broadcast_shapes("rounding", a.shape(), b.shape());
    let [a, b] = [a, b].map(|x| wide(x, &shape));
    let found = Zip::from(&a).and(&b).map_collect(|&a, &b| f(a, b));
    found.into_shared()
}

pub(super) fn wide(x: &Tensor<f64>, shape: &[usize]) -> Tensor<f64> {
    let x = x
        .broadcast(IxDyn(shape))
        .expect("the shape of the operation");
    x.to_owned().into_shared()
}

/// The heads and the width of the rows [n, H, d] or [n, d] of a sparse product.
pub(super) fn heads(x: &Tensor<f64>) -> [usize; 2] {
    match *x.shape() {
        [_, heads, d] => [heads, d],
        _ => [1, x.shape().last().copied().unwrap_or(1)],
    }
}

pub(super) fn on_slices(
    a: &Tensor<f64>,
    b: &Tensor<f64>,
    kernel: impl Fn(&[f64], &[f64]) -> Buffer<f64>,
) -> Buffer<f64> {
    let [a, b] = [a, b].map(contiguous);
    kernel(
        a.as_slice().expect("contiguous"),
        b.as_slice().expect("contiguous"),
    )
}

/// f of the entries of three tensors of one shape.
pub(super) fn combine(all: [&Tensor<f64>; 3], f: impl Fn([f64; 3]) -> f64) -> Tensor<f64> {
    let [a, b, c]: [ArrayViewD<'_, f64>; 3] = all.map(|x| x.view());
    let found = Zip::from(a)
        .and(b)
        .and(c)
        .map_collect(|&a, &b, &c| f([a, b, c]));
    found.into_shared()
}
