//! Milliseconds that dense work takes in candle on its CPU backend, row by row as `../dense.rs` does it.
//!
//! One JSON object per row on standard output, as there; see `../README.md`.

#[path = "../../steps.rs"]
mod steps;

use candle_core::{DType, Device, Result, Tensor, Var};
use candle_nn::ops::{layer_norm_slow, softmax};
use candle_nn::optim::{AdamW, Optimizer, ParamsAdamW};
use candle_nn::{loss::cross_entropy, Linear, Module};
use steps::{COTANGENT, WEIGHTS};

type Step = steps::Step<Tensor, candle_core::Error>;

const ROWS: [steps::Row<Tensor, candle_core::Error>; 5] = [
    ("product-1024x1024x1024", 1, || product(1024, 1024, 1024)),
    ("product-2048x512x2048", 1, || product(2048, 512, 2048)),
    ("product-2048x2048x2048", 1, || product(2048, 2048, 2048)),
    ("block-8x256x512", 1, block),
    ("mlp-784-512-512-10", 10, mlp),
];

fn main() -> Result<()> {
    steps::run("candle", &ROWS, |x| x.flatten_all()?.to_vec1())
}

/// The numbers of a sequence as a tensor.
fn numbers(shape: &[usize], sequence: usize, scale: f64) -> Result<Tensor> {
    let all = steps::numbers(shape.iter().product(), sequence, scale);
    Tensor::from_vec(all, shape, &Device::Cpu)
}

/// a b, m × k times k × n, without a derivative.
fn product(m: usize, k: usize, n: usize) -> Result<Step> {
    let (a, b) = (numbers(&[m, k], 0, 1.0)?, numbers(&[k, n], 1, 1.0)?);
    Ok(Box::new(move || Ok(vec![a.matmul(&b)?])))
}

/// Parameters in the order of `dense.rs`: matrices start with entries up to 1/√in, biases at 0, gains at 1.
#[derive(Default)]
struct Parameters(Vec<Var>);

impl Parameters {
    fn add(&mut self, start: Tensor) -> Result<Tensor> {
        let var = Var::from_tensor(&start)?;
        let tensor = var.as_tensor().clone();
        self.0.push(var);
        Ok(tensor)
    }

    fn linear(&mut self, input: usize, out: usize, bias: bool) -> Result<Linear> {
        let scale = 1.0 / (input as f64).sqrt();
        let weight = self.add(numbers(&[out, input], WEIGHTS + self.0.len(), scale)?)?;
        let zeros = || Tensor::zeros(out, DType::F32, &Device::Cpu);
        let bias = bias.then(|| self.add(zeros()?)).transpose()?;
        Ok(Linear::new(weight, bias))
    }

    fn norm(&mut self, width: usize) -> Result<Norm> {
        Ok(Norm {
            gain: self.add(Tensor::ones(width, DType::F32, &Device::Cpu)?)?,
            bias: self.add(Tensor::zeros(width, DType::F32, &Device::Cpu)?)?,
        })
    }
}

/// LayerNorm composed of differentiable operations: candle's fused one has no derivative.
struct Norm {
    gain: Tensor,
    bias: Tensor,
}

impl Norm {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        layer_norm_slow(x, &self.gain, &self.bias, 1e-5)
    }
}

/// A transformer block with the norms before attention and feed-forward; the key has no bias.
struct Block {
    norm: Norm,
    query: Linear,
    key: Linear,
    value: Linear,
    out: Linear,
    feed_norm: Norm,
    up: Linear,
    down: Linear,
}

impl Block {
    const HEADS: usize = 8;

    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (batch, positions, width) = x.dims3()?;
        let each = width / Self::HEADS;
        let z = self.norm.forward(x)?;
        let split = |layer: &Linear| {
            let heads = (batch, positions, Self::HEADS, each);
            (layer.forward(&z)?.reshape(heads)?.transpose(1, 2)?).contiguous()
        };
        let (q, k, v) = (split(&self.query)?, split(&self.key)?, split(&self.value)?);
        // The fused softmax has no derivative either.
        let scores = (q.matmul(&k.t()?)? / (each as f64).sqrt())?;
        let heads = softmax(&scores, candle_core::D::Minus1)?.matmul(&v)?;
        let heads = heads.transpose(1, 2)?.reshape(x.shape())?;
        let x = (x + self.out.forward(&heads)?)?;
        let z = self.up.forward(&self.feed_norm.forward(&x)?)?;
        x + self.down.forward(&z.gelu_erf()?)?
    }
}

/// A block of width 512 with 8 heads and 2048 hidden neurons, on 8 sequences of 256 positions: forward, and
/// the gradients of the input and of all parameters.
fn block() -> Result<Step> {
    let shape = [8, 256, 512];
    let x = Var::from_tensor(&numbers(&shape, 0, 1.0)?)?;
    let c = numbers(&shape, COTANGENT, 1.0)?;
    let mut all = Parameters::default();
    let model = Block {
        norm: all.norm(512)?,
        query: all.linear(512, 512, true)?,
        key: all.linear(512, 512, false)?,
        value: all.linear(512, 512, true)?,
        out: all.linear(512, 512, true)?,
        feed_norm: all.norm(512)?,
        up: all.linear(512, 2048, true)?,
        down: all.linear(2048, 512, true)?,
    };
    Ok(Box::new(move || {
        let y = model.forward(&x)?;
        let gradients = (&y * &c)?.sum_all()?.backward()?;
        let of = |var: &Var| gradients.get(var).expect("a gradient").clone();
        let mut results = vec![y, of(&x)];
        results.extend(all.0.iter().map(of));
        Ok(results)
    }))
}

/// A training step of a perceptron 784-512-512-10 with ReLU on 256 samples: cross-entropy and Adam, which is
/// AdamW without weight decay. Its result is the loss.
fn mlp() -> Result<Step> {
    let x = numbers(&[256, 784], 0, 1.0)?;
    let labels: Vec<u32> = (0..256).map(|i| 7 * i % 10).collect();
    let labels = Tensor::new(labels, &Device::Cpu)?;
    let mut all = Parameters::default();
    let widths = [784, 512, 512, 10];
    let layers: Vec<Linear> = (widths.windows(2))
        .map(|w| all.linear(w[0], w[1], true))
        .collect::<Result<_>>()?;
    let how = ParamsAdamW {
        lr: 1e-3,
        weight_decay: 0.0,
        ..ParamsAdamW::default()
    };
    let mut adam = AdamW::new(all.0, how)?;
    Ok(Box::new(move || {
        let mut y = layers[0].forward(&x)?;
        for layer in &layers[1..] {
            y = layer.forward(&y.relu()?)?;
        }
        let loss = cross_entropy(&y, &labels)?;
        adam.backward_step(&loss)?;
        Ok(vec![loss])
    }))
}
