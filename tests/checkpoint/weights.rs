//! Weights under the names of PyTorch: models made by hand, whose layers have the same names there, or other
//! names.

mod hostile;
mod layers;
mod names;
mod reports;
mod torch;

use emmy::init::{self, Rng};
use emmy::nn::{Activation, LayerNorm, Linear, Mlp, Pass};
use emmy::{Real, Tensor, Var};
use std::path::{Path, PathBuf};

/// A file of PyTorch.
fn fixture(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/weights");
    folder.join(format!("{name}.safetensors"))
}

fn mlp<F: Real>(seed: u64) -> Mlp<F> {
    Mlp::new(&[3, 4, 2], Activation::Relu, true, &mut init::rng(seed))
}

/// Attention over a sequence; PyTorch has the three maps of its input in one tensor.
struct SelfAttention<F: Real> {
    query: Linear<F>,
    key: Option<Linear<F>>,
    value: Linear<F>,
    output: Linear<F>,
}
emmy::module!(SelfAttention:
    query in "in_proj_*",
    key in "in_proj_*" else query,
    value in "in_proj_*",
    output as "out_proj",
);

impl<F: Real> SelfAttention<F> {
    fn new(width: usize, rng: &mut Rng) -> Self {
        let mut map = || Linear::new(width, width, true, rng);
        Self {
            query: map(),
            key: Some(map()),
            value: map(),
            output: map(),
        }
    }
}

/// A normaliser with running statistics.
struct BatchNorm<F: Real> {
    gain: Tensor<F>,
    bias: Tensor<F>,
    mean: Tensor<F>,
    variance: Tensor<F>,
}
emmy::module!(BatchNorm: gain = Gain as "weight", bias = Bias; state mean as "running_mean", variance as "running_var");

struct Normalised<F: Real> {
    first: Linear<F>,
    norm: BatchNorm<F>,
    last: Linear<F>,
}
emmy::module!(Normalised: first, norm, last);

impl<F: Real> Normalised<F> {
    fn new(seed: u64) -> Self {
        let rng = &mut init::rng(seed);
        let ones = || Tensor::ones(vec![4]);
        Self {
            first: Linear::new(3, 4, true, rng),
            norm: BatchNorm {
                gain: ones(),
                bias: init::zeros(&[4]),
                mean: init::zeros(&[4]),
                variance: ones(),
            },
            last: Linear::new(4, 2, true, rng),
        }
    }

    fn forward<'t>(&self, pass: &Pass<'t, '_, F>, x: Var<'t, F>) -> Var<'t, F> {
        let (norm, tape) = (&self.norm, pass.tape());
        let x = self.first.forward(pass, x) - tape.constant(norm.mean.clone());
        let variance = tape.constant(norm.variance.clone());
        let x = x / variance.add_scalar(F::of(1e-5)).sqrt();
        let x = x * pass.param(&norm.gain) + pass.param(&norm.bias);
        self.last.forward(pass, x)
    }
}

/// The weights of a recurrent layer in one direction.
struct Direction<F: Real> {
    weight_ih: Tensor<F>,
    weight_hh: Tensor<F>,
    bias_ih: Tensor<F>,
    bias_hh: Tensor<F>,
}
emmy::module!(Direction: weight_ih, weight_hh, bias_ih = Bias, bias_hh = Bias);

struct Layer<F: Real> {
    forward: Direction<F>,
    backward: Option<Direction<F>>,
}
emmy::module!(Layer: forward as "*", backward as "*_reverse");

struct Lstm<F: Real> {
    layers: Vec<Layer<F>>,
}
emmy::module!(Lstm: layers as "*_l#");

struct Recurrent<F: Real> {
    lstm: Lstm<F>,
}
emmy::module!(Recurrent: lstm);

impl<F: Real> Recurrent<F> {
    /// Two layers, in both directions, of 2 neurons on 3 features.
    fn new() -> Self {
        let direction = |input: usize| Direction {
            weight_ih: Tensor::ones(vec![8, input]),
            weight_hh: Tensor::ones(vec![8, 2]),
            bias_ih: Tensor::ones(vec![8]),
            bias_hh: Tensor::ones(vec![8]),
        };
        let layer = |input| Layer {
            forward: direction(input),
            backward: Some(direction(input)),
        };
        let layers = vec![layer(3), layer(4)];
        Self {
            lstm: Lstm { layers },
        }
    }
}
