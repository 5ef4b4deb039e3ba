//! Milliseconds that dense work takes in burn on its CPU backend, row by row as `../dense.rs` does it.
//!
//! One JSON object per row on standard output, as there; see `../README.md`.

#[path = "../../steps.rs"]
mod steps;

use burn::backend::ndarray::NdArrayDevice;
use burn::backend::{Autodiff, NdArray};
use burn::module::{Module, Param};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{Linear, LinearConfig};
use burn::optim::{AdamConfig, GradientsParams, Optimizer};
use burn::tensor::activation::relu;
use burn::tensor::backend::Backend;
use burn::tensor::{Int, Tensor, TensorData};
use std::convert::Infallible;
use steps::{COTANGENT, WEIGHTS};

type Plain = NdArray<f32>;
type Taped = Autodiff<Plain>;

type Step = steps::Step<Tensor<Plain, 2>, Infallible>;

const DEVICE: NdArrayDevice = NdArrayDevice::Cpu;

const ROWS: [steps::Row<Tensor<Plain, 2>, Infallible>; 5] = [
    ("product-1024x1024x1024", 1, || product(1024, 1024, 1024)),
    ("product-2048x512x2048", 1, || product(2048, 512, 2048)),
    ("product-2048x2048x2048", 1, || product(2048, 2048, 2048)),
    ("mlp-784-512-512-10", 10, mlp),
    ("chain-999", 1, chain),
];

fn main() {
    let Ok(()) = steps::run("burn", &ROWS, |x| {
        Ok(x.to_data().into_vec().expect("numbers of 32 bits"))
    });
}

/// The numbers of a sequence as a matrix.
fn numbers<B: Backend<Device = NdArrayDevice>>(
    shape: [usize; 2],
    sequence: usize,
    scale: f64,
) -> Tensor<B, 2> {
    let all = steps::numbers(shape[0] * shape[1], sequence, scale);
    Tensor::from_data(TensorData::new(all, shape), &DEVICE)
}

/// a b, m × k times k × n, without a derivative.
fn product(m: usize, k: usize, n: usize) -> Result<Step, Infallible> {
    let (a, b) = (numbers::<Plain>([m, k], 0, 1.0), numbers([k, n], 1, 1.0));
    Ok(Box::new(move || Ok(vec![a.clone().matmul(b.clone())])))
}

#[derive(Module, Debug)]
struct Perceptron<B: Backend> {
    layers: Vec<Linear<B>>,
}

/// A training step of a perceptron 784-512-512-10 with ReLU on 256 samples: cross-entropy and Adam. Its
/// result is the loss.
fn mlp() -> Result<Step, Infallible> {
    let x: Tensor<Taped, 2> = numbers([256, 784], 0, 1.0);
    let labels: Vec<i64> = (0..256).map(|i| 7 * i % 10).collect();
    let labels: Tensor<Taped, 1, Int> = Tensor::from_data(labels.as_slice(), &DEVICE);
    let layers = [784, 512, 512, 10].windows(2).enumerate().map(|(l, w)| {
        let scale = 1.0 / (w[0] as f64).sqrt();
        // A matrix and a bias per layer have a number each; burn has the transpose of PyTorch's matrix.
        let weight = numbers::<Taped>([w[1], w[0]], WEIGHTS + 2 * l, scale).transpose();
        let mut layer = LinearConfig::new(w[0], w[1]).init(&DEVICE);
        layer.weight = Param::from_tensor(weight);
        layer.bias = Some(Param::from_tensor(Tensor::zeros([w[1]], &DEVICE)));
        layer
    });
    let mut model = Perceptron::<Taped> {
        layers: layers.collect(),
    };
    let mut adam = AdamConfig::new().with_epsilon(1e-8).init();
    let loss = CrossEntropyLossConfig::new().init(&DEVICE);
    Ok(Box::new(move || {
        let mut y = model.layers[0].forward(x.clone());
        for layer in &model.layers[1..] {
            y = layer.forward(relu(y));
        }
        let loss = loss.forward(y, labels.clone());
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        model = adam.step(1e-3, model.clone(), gradients);
        Ok(vec![loss.inner().unsqueeze()])
    }))
}

/// 333 times x ← max(x ⊙ a + b, 0) on 8 × 8 numbers: forward, and the gradient of the first x.
fn chain() -> Result<Step, Infallible> {
    let shape = [8, 8];
    let x = numbers::<Taped>(shape, 0, 1.0).require_grad();
    let c: Tensor<Taped, 2> = numbers(shape, COTANGENT, 1.0);
    // Factors near 1, so that neither values nor gradients vanish.
    let a: Tensor<Taped, 2> = numbers(shape, 1, 0.01) + 1.0;
    let b: Tensor<Taped, 2> = numbers(shape, 2, 0.1);
    Ok(Box::new(move || {
        let mut y = x.clone();
        for _ in 0..333 {
            y = relu(y * a.clone() + b.clone());
        }
        let gradients = (y.clone() * c.clone()).sum().backward();
        let of_x = x.grad(&gradients).expect("a gradient");
        Ok(vec![y.inner(), of_x])
    }))
}
