//! Attention layers and transformers.

mod attention;
mod contra;
mod models;
mod pytorch;
mod refusals;
mod sampling;

use emmy::nn::{AttentionConfig, Module, MultiHeadAttention, Pass};
use emmy::{Tape, Tensor, Var, init};

pub fn draw(shape: &[usize], seed: u64) -> Tensor<f64> {
    init::normal(shape, 1.0, &mut init::rng(seed))
}

pub fn layer(change: impl Fn(&mut AttentionConfig)) -> MultiHeadAttention<f64> {
    let mut config = AttentionConfig::new(8, 4);
    change(&mut config);
    let mut layer = MultiHeadAttention::new(config, &mut init::rng(3)).unwrap();
    for (k, p) in layer.tensors_mut().into_iter().enumerate() {
        *p = draw(p.shape(), k as u64);
    }
    layer
}

#[track_caller]
pub fn near(a: &Tensor<f64>, b: &Tensor<f64>) {
    assert_eq!(a.shape(), b.shape());
    let far = a
        .iter()
        .zip(b)
        .map(|(a, b)| (a - b).abs())
        .fold(0.0, f64::max);
    assert!(far < 1e-12, "{far:e}");
}

/// The value of a layer in an evaluation.
pub fn value(
    layer: &MultiHeadAttention<f64>,
    f: impl for<'t> Fn(&Pass<'t, '_, f64>) -> Var<'t, f64>,
) -> Tensor<f64> {
    let tape = Tape::new();
    f(&Pass::eval(&tape, layer)).value()
}
