//! Norms of rows, with and without gain and bias.

use super::reference::build;
use super::{Case, Operation, Sampler, function};
use emmy::tensor::Tensor;

/// Operands x, γ, β as far as they are drawn, and ε, sometimes 0.
fn operands(d: &mut Sampler, bias: bool) -> (Vec<Tensor<f64>>, [bool; 2], f64) {
    let mut shape = d.any_shape();
    // Some rows fill the lanes of the kernels.
    let width = d.one_of(&[1, 2, 3, 4, 5, 5, 17, 34]);
    shape.push(if d.count(0, 15) == 0 { 0 } else { width });
    // With ε = 0 the norm of two numbers is a sign.
    let eps = if width > 2 && d.flag() { 0.0 } else { 0.3 };
    let [with_gain, with_bias] = [d.flag(), bias && d.flag()];
    let mut args = vec![d.signed(&shape)];
    for there in [with_gain, with_bias] {
        args.extend(there.then(|| d.signed(&shape[shape.len() - 1..])));
    }
    (args, [with_gain, with_bias], eps)
}

/// γ (x − μ) / √(mean (x − μ)² + ε) + β with the mean μ or 0.
fn loops(x: &[Tensor<f64>], [gain, bias]: [bool; 2], eps: f64, centred: bool) -> Tensor<f64> {
    let (shape, width) = (x[0].shape(), x[0].shape()[x[0].ndim() - 1]);
    build(shape, |index| {
        let (j, row) = index.split_last().expect("an axis");
        let at = |j: usize| x[0][&[row, &[j]].concat()[..]];
        let mean = |f: &dyn Fn(usize) -> f64| (0..width).map(f).sum::<f64>() / width as f64;
        let mu = if centred { mean(&at) } else { 0.0 };
        let z = (at(*j) - mu) / (mean(&|k| (at(k) - mu).powi(2)) + eps).sqrt();
        let gamma = if gain { x[1][[*j]] } else { 1.0 };
        let beta = if bias { x[x.len() - 1][[*j]] } else { 0.0 };
        gamma * z + beta
    })
}

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation {
            name: "layer_norm",
            draw: |d| {
                let (args, there, eps) = operands(d, true);
                let function = function!(|x| {
                    let gain = there[0].then(|| x[1]);
                    let bias = there[1].then(|| x[x.len() - 1]);
                    x[0].layer_norm(gain, bias, eps as F)
                });
                Case::new(args, function, move |x| loops(x, there, eps, true))
            },
        },
        Operation {
            name: "rms_norm",
            draw: |d| {
                let (args, there, eps) = operands(d, false);
                let function = function!(|x| x[0].rms_norm(x.get(1).copied(), eps as F));
                Case::new(args, function, move |x| loops(x, there, eps, false))
            },
        },
    ]
}
