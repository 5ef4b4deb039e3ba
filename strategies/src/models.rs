//! Activations, norms and perceptrons, as descriptions that shrink.

use super::numbers::widths;
use emmy::init;
use emmy::nn::{Activation, ContraConfig, Mlp, Norm, PairMode, PairNorm};
use emmy::real::Real;
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

/// ε of a norm.
fn eps() -> impl Strategy<Value = f64> {
    prop::sample::select(vec![0.1, 1e-5])
}

/// Norms of each row alone: LayerNorm and RMSNorm.
pub fn row_norms() -> impl Strategy<Value = Norm> {
    prop_oneof![
        (eps(), any::<bool>()).prop_map(|(eps, gain)| Norm::Rms { eps, gain }),
        (eps(), any::<bool>(), any::<bool>()).prop_map(|(eps, gain, bias)| Norm::Layer {
            eps,
            gain,
            bias
        }),
    ]
}

/// Norms of every kind, those of each row first. Batch norm is without running statistics.
pub fn norms() -> impl Strategy<Value = Norm> {
    let modes = prop::sample::select(&[PairMode::Pn, PairMode::PnSi, PairMode::PnScs][..]);
    prop_oneof![
        2 => row_norms(),
        1 => eps().prop_map(|eps| Norm::Graph { eps }),
        1 => (eps(), any::<bool>()).prop_map(|(eps, affine)| Norm::Batch {
            eps,
            affine,
            momentum: None
        }),
        1 => (eps(), modes).prop_map(|(eps, mode)| {
            Norm::Pair(PairNorm { eps, ..PairNorm::new(mode) })
        }),
        1 => contra_norms().prop_map(Norm::Contra),
    ]
}

/// ContraNorm with a step 0.1 to 1, with and without the norm at its end.
pub fn contra_norms() -> impl Strategy<Value = ContraConfig> {
    let forms = [
        ContraConfig::stopped,
        ContraConfig::regularized,
        ContraConfig::new,
        ContraConfig::unit,
        ContraConfig::text_code,
    ];
    let form = prop::sample::select(forms.to_vec());
    (form, 0.1..1.0_f64).prop_map(|(form, scale)| form(scale))
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
