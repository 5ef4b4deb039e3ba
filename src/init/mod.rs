//! Initialisers: how parameters are drawn.
//!
//! Each draws in `f64` from a seeded generator and rounds once, so `f32` and `f64` models of one seed start
//! from the same numbers.
//!
//! | letter | meaning |
//! |---|---|
//! | `[out, in]` | the shape of a weight; W_ij is the weight from input j to output i |
//! | fan_in, fan_out | in and out; with more axes, each times their product, as in PyTorch |

mod balanced;
mod looks_linear;
mod scheme;

pub use balanced::{Balancing, Beta, Order};
pub use looks_linear::{Position, identity, looks_linear};

pub use scheme::{
    AttentionInit, Initialization, LayerWeights, TargetInit, WeightInit, WeightOrder,
};

pub(crate) use crate::kernels::draw::gauss;
pub use crate::kernels::draw::{Rng, normal, rng, uniform};

use crate::linalg;
use crate::real::Real;
use crate::tensor::{Tensor, tensor};
use ndarray::Array2;

/// (fan_in, fan_out) of a weight.
///
/// # Panics
/// If the shape has fewer than two axes.
#[track_caller]
pub fn fans(shape: &[usize]) -> (usize, usize) {
    assert!(
        shape.len() >= 2,
        "fans: {shape:?} needs two axes, [out, in]"
    );
    let field: usize = shape[2..].iter().product();
    (shape[1] * field, shape[0] * field)
}

/// Zeros.
pub fn zeros<F: Real>(shape: &[usize]) -> Tensor<F> {
    Tensor::zeros(shape)
}

/// N(0, gain² · 2 / (fan_in + fan_out)): the variance of activations and of gradients stays about the same
/// through a linear layer.
///
/// Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks", AISTATS
/// 2010, Eq. (12).
///
/// # Panics
/// If the shape has fewer than two axes.
#[track_caller]
pub fn xavier_normal<F: Real>(shape: &[usize], gain: f64, rng: &mut Rng) -> Tensor<F> {
    normal(shape, gain * xavier_std(shape), rng)
}

/// U(−b, b) with b = gain · √(6 / (fan_in + fan_out)), the variance of [`xavier_normal`].
///
/// Glorot and Bengio, AISTATS 2010, Eq. (16).
///
/// # Panics
/// If the shape has fewer than two axes.
#[track_caller]
pub fn xavier_uniform<F: Real>(shape: &[usize], gain: f64, rng: &mut Rng) -> Tensor<F> {
    uniform(shape, gain * xavier_std(shape) * 3.0_f64.sqrt(), rng)
}

/// N(0, 2 / ((1 + slope²) fan_in)): the variance of activations stays the same through linear layer and
/// LeakyReLU of that slope for negative arguments (0 for ReLU).
///
/// He et al., "Delving Deep into Rectifiers", ICCV 2015, Eq. (10) and (15).
///
/// # Panics
/// If the shape has fewer than two axes.
#[track_caller]
pub fn kaiming_normal<F: Real>(shape: &[usize], slope: f64, rng: &mut Rng) -> Tensor<F> {
    normal(shape, kaiming_std(shape, slope), rng)
}

/// U(−b, b) with b = √(6 / ((1 + slope²) fan_in)), the variance of [`kaiming_normal`].
///
/// # Panics
/// If the shape has fewer than two axes.
#[track_caller]
pub fn kaiming_uniform<F: Real>(shape: &[usize], slope: f64, rng: &mut Rng) -> Tensor<F> {
    uniform(shape, kaiming_std(shape, slope) * 3.0_f64.sqrt(), rng)
}

/// gain times a matrix `[out, in]` with orthonormal rows or columns, whichever are fewer, uniformly
/// distributed: the Q of the QR factorisation of a Gaussian matrix.
///
/// Saxe et al., "Exact solutions to the nonlinear dynamics of learning in deep linear neural networks",
/// ICLR 2014.
pub fn orthogonal<F: Real>(out: usize, input: usize, gain: f64, rng: &mut Rng) -> Tensor<F> {
    let (tall, flat) = (out.max(input), out.min(input));
    let gaussian = Array2::from_shape_simple_fn((tall, flat), || gauss(rng));
    let (q, _) = linalg::qr(gaussian.view());
    let q = if out >= input { q } else { q.reversed_axes() };
    tensor(&[out, input], q.iter().map(|x| F::of(gain * x)).collect())
}

fn xavier_std(shape: &[usize]) -> f64 {
    let (fan_in, fan_out) = fans(shape);
    (2.0 / (fan_in + fan_out).max(1) as f64).sqrt()
}

fn kaiming_std(shape: &[usize], slope: f64) -> f64 {
    let (fan_in, _) = fans(shape);
    (2.0 / ((1.0 + slope * slope) * fan_in.max(1) as f64)).sqrt()
}
