//! Models of the library, as descriptions that shrink.

use super::numbers::widths;
use crate::init;
use crate::nn::{Activation, Conv, GraphNetConfig, Mlp};
use crate::real::Real;
use proptest::prelude::*;

/// Activations of every kind.
pub const ACTIVATIONS: [Activation; 12] = [
    Activation::Identity,
    Activation::Relu,
    Activation::LeakyRelu { slope: 0.2 },
    Activation::ReluSquared,
    Activation::Elu,
    Activation::Gelu,
    Activation::Silu,
    Activation::Softplus,
    Activation::Tanh,
    Activation::Sigmoid,
    Activation::Mish,
    Activation::HardTanh,
];

/// Activations of every kind, the identity first.
pub fn activations() -> impl Strategy<Value = Activation> {
    prop::sample::select(&ACTIVATIONS[..])
}

/// The activations that are homogeneous of degree 1.
pub fn homogeneous() -> impl Strategy<Value = Activation> {
    prop::sample::select(vec![
        Activation::Identity,
        Activation::Relu,
        Activation::LeakyRelu { slope: 0.2 },
        Activation::LeakyRelu { slope: -0.5 },
    ])
}

/// The kinds of graph layers that [`graph_nets`] draws.
pub const CONVS: [Conv; 4] = [Conv::GCN, Conv::GAT, Conv::gatv2(true), Conv::gatv2(false)];

/// Networks of graph layers without dropout. `inputs` is that of the problem, so set it.
pub fn graph_nets() -> impl Strategy<Value = GraphNetConfig> {
    let conv = prop::sample::select(&CONVS[..]);
    let sizes = (1_usize..6, 2_usize..5, 2_usize..6, 1_usize..4, 1_usize..4);
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    let slopes = prop::sample::select(vec![0.2, -0.5, 0.0]);
    (conv, sizes, homogeneous(), flags, slopes).prop_map(
        |(conv, (hidden, classes, layers, heads, output_heads), activation, flags, slope)| {
            GraphNetConfig {
                hidden,
                classes,
                layers,
                activation,
                dropout: 0.0,
                self_loops: flags.2,
                ..GraphNetConfig::gcn(1, classes)
            }
            .of(conv)
            .heads(heads, output_heads)
            .attending(|a| {
                a.dropout = 0.0;
                a.residual = flags.1;
                a.slope = slope;
            })
            .biased(flags.0)
        },
    )
}

/// The description of a perceptron.
#[derive(Debug, Clone, PartialEq)]
pub struct Perceptron {
    /// The widths between input and output.
    pub hidden: Vec<usize>,
    /// The activation.
    pub activation: Activation,
    /// Whether layers have biases.
    pub bias: bool,
    /// The seed of its weights.
    pub seed: u64,
}

impl Perceptron {
    /// The network from `inputs` to `outputs` features. Its biases are drawn too: at 0 they would leave the
    /// neurons behind a dead layer at a kink.
    pub fn build<F: Real>(&self, inputs: usize, outputs: usize) -> Mlp<F> {
        let widths = [&[inputs], &self.hidden[..], &[outputs]].concat();
        let rng = &mut init::rng(self.seed);
        let mut net = Mlp::new(&widths, self.activation, self.bias, rng);
        for bias in net.layers.iter_mut().filter_map(|l| l.bias.as_mut()) {
            *bias = init::normal(bias.shape(), 0.3, rng);
        }
        net
    }
}

/// Perceptrons of one to four hidden layers; `activation` draws the function between them.
pub fn perceptrons(
    activation: impl Strategy<Value = Activation>,
) -> impl Strategy<Value = Perceptron> {
    (
        widths(1..5, 1..7),
        activation,
        any::<bool>(),
        super::seeds(),
    )
        .prop_map(|(hidden, activation, bias, seed)| Perceptron {
            hidden,
            activation,
            bias,
            seed,
        })
}
