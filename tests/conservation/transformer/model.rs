//! The transformer and its laws.

use crate::compositions::{Composition, incoming, linear};
use crate::layers::{Attention, FeedForward, Gain, Norm, Reach, Score, Shape, Sizes};
use emmy::init::{self, Rng};
use emmy::nn::{Activation, Fields, Layer, LayerNorm, Linear, Module, Params, Pass, Trace};
use emmy::symmetry::{Law, Passage, Ports, Reader, Term};
use emmy::{Real, Tensor, Var};

const TOKENS: usize = 5;
const FEATURES: usize = 5;
pub const STREAM: usize = 4;
const INSIDE: usize = 5;
const CLASSES: usize = 3;

/// The norm of a transformer: the library's LayerNorm, or one that a user wrote.
#[derive(Debug, Clone)]
pub enum AnyNorm<F: Real> {
    Layer(LayerNorm<F>),
    Rms(RmsNorm<F>),
}

impl<F: Real> Module<F> for AnyNorm<F> {
    fn collect<'a>(&'a self, out: &mut Fields<&'a Tensor<F>>) {
        match self {
            Self::Layer(norm) => norm.collect(out),
            Self::Rms(norm) => norm.collect(out),
        }
    }

    fn collect_mut<'a>(&'a mut self, out: &mut Fields<&'a mut Tensor<F>>) {
        match self {
            Self::Layer(norm) => norm.collect_mut(out),
            Self::Rms(norm) => norm.collect_mut(out),
        }
    }
}

impl<F: Real> AnyNorm<F> {
    fn forward<'t>(&self, pass: &Pass<'t, '_, F>, x: Var<'t, F>) -> Var<'t, F> {
        match self {
            Self::Layer(norm) => norm.forward(pass, x),
            Self::Rms(norm) => norm.forward(pass, x),
        }
    }
}

/// γ ⊙ x / rms(x) + β, as a user writes it: its passage is stated, because the tape alone does not
/// show that the norm rotates with its input.
#[derive(Debug, Clone)]
pub struct RmsNorm<F: Real> {
    gain: Option<Tensor<F>>,
    bias: Option<Tensor<F>>,
}
emmy::module!(RmsNorm: gain = Gain, bias = Bias);

impl<F: Real> RmsNorm<F> {
    fn forward<'t>(&self, pass: &Pass<'t, '_, F>, x: Var<'t, F>) -> Var<'t, F> {
        pass.call(self, &[x], || {
            let y = Norm::Rms.apply(x);
            match (&self.gain, &self.bias) {
                (Some(gain), Some(bias)) => y * pass.param(gain) + pass.param(bias),
                _ => y,
            }
        })
    }
}

impl<F: Real> Layer<F> for RmsNorm<F> {
    fn ports(&self, params: &Params<'_, F>) -> Option<Ports> {
        let passage = Passage::rms_norm(0.0);
        let Some(gain) = &self.gain else {
            return Some(Ports::passing(passage));
        };
        let gain = params.rows(gain);
        let written = std::iter::once(gain.clone()).chain(self.bias.iter().map(|b| params.rows(b)));
        Some(Ports {
            writers: incoming(written),
            readers: vec![Reader {
                passage,
                terms: vec![Term::outgoing(gain)],
                mixes: false,
            }],
            ..Ports::opaque(0)
        })
    }
}

/// x ← x + attention(norm x),   x ← x + feed-forward(norm x)
#[derive(Debug, Clone)]
pub struct Block<F: Real> {
    pub norm1: AnyNorm<F>,
    pub attention: Attention<F>,
    pub norm2: AnyNorm<F>,
    pub forward: FeedForward<F>,
}
emmy::module!(Block: norm1, attention, norm2, forward);

/// A map of tokens to a stream of width d; blocks that read the stream through norms and add to it; a last
/// norm, a map to classes.
#[derive(Debug, Clone)]
pub struct Transformer<F: Real> {
    pub embed: Linear<F>,
    pub blocks: Vec<Block<F>>,
    pub last: AnyNorm<F>,
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
    /// Whether norms have γ and β.
    pub gains: bool,
    /// Whether maps have biases.
    pub bias: bool,
}

/// Two blocks with everything.
pub const DEEP: Plan = Plan {
    gated: &[true, false],
    norm: Norm::Layer { eps: 0.0 },
    gains: true,
    bias: true,
};

/// The same with an ε as used in practice.
pub const EPS: Plan = Plan {
    norm: Norm::Layer { eps: 1e-5 },
    ..DEEP
};

/// The plain transformer: only matrices.
pub const BARE: Plan = Plan {
    norm: Norm::Rms,
    gains: false,
    bias: false,
    ..DEEP
};

impl Plan {
    fn norm<F: Real>(self, rng: &mut Rng) -> AnyNorm<F> {
        let affine = self.gains.then(|| Gain::new(STREAM, rng));
        let (gain, bias) = affine.map(|Gain { gain, bias }| (gain, bias)).unzip();
        match self.norm {
            Norm::Layer { eps } => AnyNorm::Layer(LayerNorm { gain, bias, eps }),
            _ => AnyNorm::Rms(RmsNorm { gain, bias }),
        }
    }

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
            norm1: self.norm(rng),
            attention: Attention::new(sizes, Score::Dot, rng),
            norm2: self.norm(rng),
            forward: FeedForward::new(widths, gated, activation, self.bias, rng),
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
            last: self.norm(rng),
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
            if let AnyNorm::Layer(norm) = norm {
                norm.eps = eps;
            }
        }
        self
    }

    /// The outputs `[tokens, classes]`: the only description of the network.
    pub fn forward<'t>(&self, pass: &Pass<'t, '_, F>) -> Var<'t, F> {
        let reach = Reach::random(Shape::Causal, TOKENS, TOKENS, &mut init::rng(0));
        let mut x = (self.embed).forward(pass, pass.tape().constant(self.tokens.clone()));
        for block in &self.blocks {
            let y = block.norm1.forward(pass, x);
            x = x + block.attention.forward(pass, y, y, &reach);
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
