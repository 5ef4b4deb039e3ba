//! The transformer and its laws.

use crate::compositions::{Composition, linear};
use crate::layers::{Score, Sizes, attention, feed_forward};
use crate::normalisation::drawn;
use emmy::init::{self, Rng};
use emmy::nn::{
    Activation, FeedForward, LayerNorm, Linear, MultiHeadAttention, Norm, NormLayer, Pass, Trace,
};
use emmy::ops::attention::Mask;
use emmy::symmetry::Law;
use emmy::{Real, Tensor, Var};

const TOKENS: usize = 5;
const FEATURES: usize = 5;
pub const STREAM: usize = 4;
const INSIDE: usize = 5;
const CLASSES: usize = 3;

/// x ← x + attention(norm x),   x ← x + feed-forward(norm x)
#[derive(Debug, Clone)]
pub struct Block<F: Real> {
    pub norm1: NormLayer<F>,
    pub attention: MultiHeadAttention<F>,
    pub norm2: NormLayer<F>,
    pub forward: FeedForward<F>,
}
emmy::module!(Block: norm1, attention, norm2, forward);

/// A map of tokens to a stream of width d; blocks that read the stream through norms and add to it; a last
/// norm, a map to classes.
#[derive(Debug, Clone)]
pub struct Transformer<F: Real> {
    pub embed: Linear<F>,
    pub blocks: Vec<Block<F>>,
    pub last: NormLayer<F>,
    pub head: Linear<F>,
    pub tokens: Tensor<F>,
    pub labels: Vec<usize>,
}
emmy::module!(Transformer: embed, blocks, last, head);

/// The configuration of a [`Transformer`].
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// A block for each entry: SwiGLU, or ReLU without a gate.
    pub gated: &'static [bool],
    pub norm: Norm,
    /// Whether maps have biases.
    pub bias: bool,
}

/// With γ and β.
const fn layer(eps: f64) -> Norm {
    Norm::Layer {
        eps,
        gain: true,
        bias: true,
    }
}

/// With ε = 0.
pub const fn rms(gain: bool) -> Norm {
    Norm::Rms { eps: 0.0, gain }
}

/// Two blocks with everything.
pub const DEEP: Plan = Plan {
    gated: &[true, false],
    norm: layer(0.0),
    bias: true,
};

/// The same with an ε as used in practice.
pub const EPS: Plan = Plan {
    norm: layer(1e-5),
    ..DEEP
};

/// The plain transformer: only matrices.
pub const BARE: Plan = Plan {
    norm: rms(false),
    bias: false,
    ..DEEP
};

impl Plan {
    fn block<F: Real>(self, gated: bool, rng: &mut Rng) -> Block<F> {
        let sizes = Sizes {
            d_x: STREAM,
            d_y: STREAM,
            d_k: 3,
            d_v: 2,
            out: STREAM,
            heads: 2,
            groups: 2,
            bias: self.bias,
        };
        let activation = if gated {
            Activation::Silu
        } else {
            Activation::Relu
        };
        let widths = [STREAM, INSIDE, STREAM];
        Block {
            norm1: drawn(self.norm, STREAM, rng),
            attention: attention(sizes, Score::Dot, rng),
            norm2: drawn(self.norm, STREAM, rng),
            forward: feed_forward(widths, gated, activation, self.bias, rng),
        }
    }

    pub fn draw<F: Real>(self, seed: u64) -> Transformer<F> {
        let rng = &mut init::rng(seed);
        let net = Transformer {
            embed: linear(FEATURES, STREAM, self.bias, rng),
            blocks: self
                .gated
                .iter()
                .map(|&gated| self.block(gated, rng))
                .collect(),
            last: drawn(self.norm, STREAM, rng),
            head: linear(STREAM, CLASSES, self.bias, rng),
            tokens: init::zeros(&[0]),
            labels: Vec::new(),
        };
        net.on(seed)
    }
}

impl<F: Real> Transformer<F> {
    /// The same parameters on other data.
    pub fn on(self, seed: u64) -> Self {
        let rng = &mut init::rng(seed ^ 0x5eed);
        let draws = init::uniform::<f64>(&[TOKENS], 0.5, rng);
        let label = |u: &f64| ((u + 0.5) * CLASSES as f64) as usize;
        Self {
            tokens: init::normal(&[TOKENS, FEATURES], 1.0, rng),
            labels: draws.iter().map(label).collect(),
            ..self
        }
    }

    /// The same with another ε of every LayerNorm.
    pub fn with_eps(mut self, eps: f64) -> Self {
        let blocks = self.blocks.iter_mut();
        let norms = blocks.flat_map(|block| [&mut block.norm1, &mut block.norm2]);
        for norm in norms.chain([&mut self.last]) {
            if let Some(norm) = norm.downcast_mut::<LayerNorm<F>>() {
                norm.eps = eps;
            }
        }
        self
    }

    /// The outputs `[tokens, classes]`: the only description of the network.
    pub fn forward<'t>(&self, pass: &Pass<'t, '_, F>) -> Var<'t, F> {
        let mut x = (self.embed).forward(pass, pass.tape().constant(self.tokens.clone()));
        for block in &self.blocks {
            let y = block.norm1.forward(pass, x);
            x = x + block.attention.forward(pass, y, &Mask::causal());
            x = x + block.forward.forward(pass, block.norm2.forward(pass, x));
        }
        self.head.forward(pass, self.last.forward(pass, x))
    }

    /// The laws that its forward pass shows, for a loss of the softmax of its outputs.
    pub fn laws(&self) -> Vec<Law> {
        let trace = Trace::of(self, |pass| self.forward(pass));
        [trace.laws(), trace.softmax_laws()].concat()
    }
}

impl<F: Real> Composition<F> for Transformer<F> {
    fn loss<'t>(&self, pass: &Pass<'t, '_, F>) -> Var<'t, F> {
        self.forward(pass).cross_entropy(&self.labels, None)
    }
}
