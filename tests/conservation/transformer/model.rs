//! The transformer and its laws.

use crate::attention::{Attention, Reach, Score, Shape, Sizes};
use crate::compositions::{Composition, incoming, linear, rows, shifts, whole};
use crate::gated::FeedForward;
use crate::normalisation::{Gain, Norm};
use emmy::init::{self, Rng};
use emmy::nn::{Activation, Linear, Params, Pass};
use emmy::symmetry::{Law, Symmetry};
use emmy::{Real, Tensor, Var};

const TOKENS: usize = 5;
const FEATURES: usize = 5;
pub const STREAM: usize = 4;
const INSIDE: usize = 5;
const CLASSES: usize = 3;

/// x ← x + attention(norm x),   x ← x + feed-forward(norm x)
#[derive(Debug, Clone)]
pub struct Block<F: Real> {
    /// γ and β of the first norm, if it has them.
    pub norm1: Option<Gain<F>>,
    pub attention: Attention<F>,
    pub norm2: Option<Gain<F>>,
    pub forward: FeedForward<F>,
}
emmy::module!(Block: norm1, attention, norm2, forward);

/// A map of tokens to a stream of width d; blocks that read the stream through norms and add to it; a last norm, a map to classes.
#[derive(Debug, Clone)]
pub struct Transformer<F: Real> {
    pub embed: Linear<F>,
    pub blocks: Vec<Block<F>>,
    pub last: Option<Gain<F>>,
    pub head: Linear<F>,
    pub norm: Norm,
    pub tokens: Tensor<F>,
    pub labels: Vec<usize>,
}
emmy::module!(Transformer: embed, blocks, last, head);

/// What a [`Transformer`] is made of.
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

/// The same with an ε of practice.
pub const EPS: Plan = Plan {
    norm: Norm::Layer { eps: 1e-5 },
    ..DEEP
};

/// The bare one: nothing but matrices.
pub const BARE: Plan = Plan {
    norm: Norm::Rms,
    gains: false,
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
            norm1: self.gains.then(|| Gain::new(STREAM, rng)),
            attention: Attention::new(sizes, Score::Dot, rng),
            norm2: self.gains.then(|| Gain::new(STREAM, rng)),
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
            last: self.gains.then(|| Gain::new(STREAM, rng)),
            head: linear(STREAM, CLASSES, self.bias, rng),
            norm: self.norm,
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

    /// All of them.
    pub fn laws(&self) -> Vec<Law> {
        let slots = &Params::of(self);
        let mut laws = Vec::new();
        for (l, block) in (1..).zip(&self.blocks) {
            let (attention, forward) = (&block.attention, &block.forward);
            if let Some(gain) = &block.norm1 {
                let name = format!("layer {l}, norm and attention");
                laws.push(gain.against(name, l, slots, attention.readers()));
            }
            laws.extend(attention.queries_and_keys(slots, l));
            laws.extend(attention.key_bias(slots, l));
            laws.extend(attention.values_and_output(slots, l));
            if let Some(gain) = &block.norm2 {
                let name = format!("layer {l}, norm and feed-forward");
                laws.push(gain.against(name, l, slots, forward.readers()));
            }
            laws.extend(forward.up_and_down(slots, l));
        }
        let end = self.blocks.len() + 1;
        if let Some(gain) = &self.last {
            laws.push(gain.against("last norm and classes".into(), end, slots, [&self.head]));
        }
        laws.extend(shifts("sum over classes", end, slots, &self.head));
        laws.extend(self.stream(slots));
        laws
    }

    /// What is free in the stream because norms alone read it.
    fn stream(&self, slots: &Params<'_, F>) -> Vec<Law> {
        let mut laws = Vec::new();
        // LayerNorm does not see what moves all coordinates alike: each map that writes may add that, on its own.
        if let Norm::Layer { .. } = self.norm {
            for (name, l, map) in self.writers() {
                laws.extend(shifts(&format!("stream, shift by {name}"), l, slots, map));
            }
        }
        // Without ε it does not see the length either; but what is added up must grow together.
        if !matches!(self.norm, Norm::Layer { eps } if eps > 0.0) {
            let terms = whole(slots, self.writers().into_iter().map(|writer| writer.2));
            laws.push(Law::new("stream, scale", 1, Symmetry::Rescaling, terms));
        }
        // RMSNorm without gains commutes with turns: what is written turned is read turned.
        if self.norm == Norm::Rms && self.last.is_none() {
            laws.push(self.turns(slots));
        }
        laws
    }

    /// All coordinates of the stream turned, where they are written and where they are read.
    pub fn turns(&self, slots: &Params<'_, F>) -> Law {
        let written = self.writers().into_iter();
        let written = written.flat_map(|(_, _, map)| rows(slots, map, 1, 0..STREAM));
        let read = self
            .readers()
            .into_iter()
            .map(|map| slots.columns(&map.weight));
        Law::new(
            "stream, turns",
            1,
            Symmetry::Rotation,
            incoming(written.chain(read)),
        )
    }

    /// What adds to the stream: its name, its layer, the map.
    fn writers(&self) -> Vec<(String, usize, &Linear<F>)> {
        let mut out = vec![("the embedding".into(), 1, &self.embed)];
        for (l, block) in (1..).zip(&self.blocks) {
            out.push((format!("attention {l}"), l, &block.attention.output));
            out.push((format!("feed-forward {l}"), l, &block.forward.down));
        }
        out
    }

    /// What reads it, through a norm.
    fn readers(&self) -> Vec<&Linear<F>> {
        let blocks = self.blocks.iter();
        let of_blocks = blocks.flat_map(|b| b.attention.readers().chain(b.forward.readers()));
        of_blocks.chain([&self.head]).collect()
    }
}

impl<F: Real> Composition<F> for Transformer<F> {
    fn loss<'t>(&self, pass: &Pass<'t, '_, F>) -> Var<'t, F> {
        let reach = Reach::random(Shape::Causal, TOKENS, TOKENS, &mut init::rng(0));
        let norm = |x, gain: &Option<Gain<F>>| {
            let y = self.norm.apply(x);
            gain.as_ref().map_or(y, |gain| gain.forward(pass, y))
        };
        let mut x = (self.embed).forward(pass, pass.tape().constant(self.tokens.clone()));
        for block in &self.blocks {
            let y = norm(x, &block.norm1);
            x = x + block.attention.forward(pass, y, y, &reach);
            x = x + block.forward.forward(pass, norm(x, &block.norm2));
        }
        let outputs = self.head.forward(pass, norm(x, &self.last));
        outputs.cross_entropy(&self.labels, None)
    }
}
