//! Feed-forward layers, gated or not.

use crate::autodiff::Var;
use crate::error::{Result, Rules};
use crate::init::Rng;
use crate::nn::{Activation, Dropout, Layer, Linear, Pass};
use crate::real::Real;
use serde::{Deserialize, Serialize};

/// y = drop(σ(x W_upᵀ)) W_downᵀ, or with a gate y = drop(σ(x W_gateᵀ) ⊙ x W_upᵀ) W_downᵀ; each map has a bias
/// if the layer has biases. Every token is mapped separately.
///
/// Vaswani et al., "Attention Is All You Need", NeurIPS 2017, Eq. (2), with σ = ReLU; the gated form is that
/// of Shazeer, "GLU Variants Improve Transformer", 2020, Eq. (5) and (6).
///
/// | letter | shape |
/// |---|---|
/// | x, y | `[.., width]` |
/// | W_up, W_gate | `[hidden, width]` |
/// | W_down | `[width, hidden]` |
///
/// The layer is transparent to a trace: its maps are examined one by one. Without a gate, the rows of W_up are
/// balanced against the columns of W_down if σ is homogeneous: ⟨W_up\[j,:\], G⟩ − k ⟨W_down\[:,j\], G⟩ = 0 for a σ of
/// degree k. With a gate they are balanced for every σ, with k = 1, and the gate takes no part; if σ is homogeneous of
/// degree k, the rows of W_gate have such a law of their own.
///
/// Two hidden neurons, relu(x) and relu(−x), whose sum is |x|:
///
/// ```
/// use emmy::nn::{FeedForward, FeedForwardConfig, Pass};
/// use emmy::{Tape, init, tensor::tensor};
///
/// let mut layer = FeedForward::<f64>::new(FeedForwardConfig::relu(1, 2), &mut init::rng(0))?;
/// layer.up.weight = tensor(&[2, 1], vec![1.0, -1.0]);
/// layer.down.weight = tensor(&[1, 2], vec![1.0, 1.0]);
/// let tape = Tape::new();
/// let x = tape.constant(tensor(&[2, 1], vec![-3.0, 2.0]));
/// let y = layer.forward(&Pass::eval(&tape, &layer), x);
/// assert_eq!(y.value(), tensor(&[2, 1], vec![3.0, 2.0]));
/// # Ok::<(), emmy::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct FeedForward<F: Real> {
    /// W_gate.
    pub gate: Option<Linear<F>>,
    /// W_up.
    pub up: Linear<F>,
    /// W_down.
    pub down: Linear<F>,
    /// σ.
    pub activation: Activation,
    /// Dropout of the hidden neurons.
    pub dropout: Dropout,
}
crate::module!(FeedForward: gate as "linear_gate", up as "linear1", down as "linear2");

/// The configuration of a [`FeedForward`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FeedForwardConfig {
    /// Features per token.
    pub width: usize,
    /// Hidden neurons per token.
    pub hidden: usize,
    /// σ.
    pub activation: Activation,
    /// Whether σ(gate) multiplies the hidden neurons.
    pub gated: bool,
    /// Whether the maps have biases.
    pub bias: bool,
    /// The probability of dropout of the hidden neurons.
    pub dropout: f64,
}

impl FeedForwardConfig {
    /// `hidden` neurons with σ = ReLU, biases, without dropout.
    pub fn relu(width: usize, hidden: usize) -> Self {
        Self {
            width,
            hidden,
            activation: Activation::Relu,
            gated: false,
            bias: true,
            dropout: 0.0,
        }
    }

    /// The same with σ = GELU.
    pub fn gelu(width: usize, hidden: usize) -> Self {
        Self {
            activation: Activation::Gelu,
            ..Self::relu(width, hidden)
        }
    }

    /// A gated layer without biases: `Sigmoid` makes it GLU, `Silu` SwiGLU, `Gelu` GEGLU.
    pub fn gated(width: usize, hidden: usize, activation: Activation) -> Self {
        Self {
            activation,
            gated: true,
            bias: false,
            ..Self::relu(width, hidden)
        }
    }

    /// Checks whether a layer can be built.
    ///
    /// # Errors
    /// If a size is 0, or the probability is not within 0 ≤ p ≤ 1.
    pub fn validate(&self) -> Result<()> {
        let rules = Rules("feed-forward");
        rules.sizes(&[("width", self.width), ("hidden", self.hidden)])?;
        rules.probability("dropout", self.dropout)
    }
}

impl<F: Real> FeedForward<F> {
    /// A layer with freshly drawn weights.
    ///
    /// # Errors
    /// If the configuration is not [valid](FeedForwardConfig::validate).
    pub fn new(config: FeedForwardConfig, rng: &mut Rng) -> Result<Self> {
        config.validate()?;
        let FeedForwardConfig {
            width,
            hidden,
            bias,
            ..
        } = config;
        Ok(Self {
            gate: (config.gated).then(|| Linear::new(width, hidden, bias, rng)),
            up: Linear::new(width, hidden, bias, rng),
            down: Linear::new(hidden, width, bias, rng),
            activation: config.activation,
            dropout: Dropout { p: config.dropout },
        })
    }

    /// y.
    ///
    /// # Panics
    /// If the last axis of x does not have `width` features.
    #[track_caller]
    pub fn forward<'t>(&self, pass: &Pass<'t, '_, F>, x: Var<'t, F>) -> Var<'t, F> {
        pass.call(self, &[x], || {
            let up = self.up.forward(pass, x);
            let hidden = match &self.gate {
                Some(gate) => self.activation.consume(gate.forward(pass, x)) * up,
                None => self.activation.consume(up),
            };
            let hidden = self.dropout.forward(pass, hidden);
            self.down.forward(pass, hidden)
        })
    }
}

impl<F: Real> Layer<F> for FeedForward<F> {}
