//! Models with data of their own: blocks composed of layers and operations of the library.

use emmy::graph::Neighbourhood;
use emmy::init::{self, Rng};
use emmy::nn::{
    Bert, BlockConfig, FeedForward, Fields, GraphNet, Gru, LanguageModel, LayerNorm, Linear, Lstm,
    Mlp, Module, MultiHeadAttention, Pass, Transformer, VisionTransformer,
};
use emmy::ops::attention::Mask;
use emmy::{Tensor, Var};

/// A model whose forward pass makes its own data.
pub trait Net: Module<f64> + Sync {
    /// The outputs on random data that follow from `seed`.
    fn forward<'t>(&self, pass: &Pass<'t, '_, f64>, seed: u64) -> Var<'t, f64>;
}

/// Random rows of features.
fn rows<'t>(pass: &Pass<'t, '_, f64>, n: usize, width: usize, seed: u64) -> Var<'t, f64> {
    (pass.tape()).constant(init::normal(&[n, width], 1.0, &mut init::rng(seed)))
}

/// Rows of features that a fully connected network reads.
const POINTS: usize = 6;

/// Tokens of a sequence.
const TOKENS: usize = 5;

impl Net for Mlp<f64> {
    fn forward<'t>(&self, pass: &Pass<'t, '_, f64>, seed: u64) -> Var<'t, f64> {
        let width = self.layers[0].weight.shape()[1];
        self.forward(pass, rows(pass, POINTS, width, seed))
    }
}

/// A network on a fixed graph.
#[derive(Clone)]
pub struct OnGraph {
    pub net: GraphNet<f64>,
    pub neighbours: Neighbourhood<f64>,
}

/// The parameters are those of the network, under their own names.
impl Module<f64> for OnGraph {
    fn collect<'a>(&'a self, out: &mut Fields<&'a Tensor<f64>>) {
        self.net.collect(out);
    }

    fn collect_mut<'a>(&'a mut self, out: &mut Fields<&'a mut Tensor<f64>>) {
        self.net.collect_mut(out);
    }
}

impl Net for OnGraph {
    fn forward<'t>(&self, pass: &Pass<'t, '_, f64>, seed: u64) -> Var<'t, f64> {
        let x = rows(pass, self.neighbours.nodes(), self.net.config.inputs, seed);
        self.net.forward(pass, x, &self.neighbours)
    }
}

/// x ← E x,   x ← x + W₂ σ(W₁ x) in every block,   y = R x.
#[derive(Clone)]
pub struct Residual {
    pub embed: Linear<f64>,
    pub blocks: Vec<Mlp<f64>>,
    pub readout: Linear<f64>,
}
emmy::module!(Residual for f64: embed, blocks, readout);

impl Net for Residual {
    fn forward<'t>(&self, pass: &Pass<'t, '_, f64>, seed: u64) -> Var<'t, f64> {
        let width = self.embed.weight.shape()[1];
        let mut x = self.embed.forward(pass, rows(pass, POINTS, width, seed));
        for block in &self.blocks {
            x = x + block.forward(pass, x);
        }
        self.readout.forward(pass, x)
    }
}

/// y = V σ(x + W x): a skip connection without weights around a single map.
#[derive(Clone)]
pub struct IdentityMap {
    pub inner: Linear<f64>,
    pub readout: Linear<f64>,
}
emmy::module!(IdentityMap for f64: inner, readout);

impl Net for IdentityMap {
    fn forward<'t>(&self, pass: &Pass<'t, '_, f64>, seed: u64) -> Var<'t, f64> {
        let x = rows(pass, POINTS, self.inner.weight.shape()[1], seed);
        let inner = x + self.inner.forward(pass, x);
        self.readout.forward(pass, inner.relu())
    }
}

/// Causal self-attention of tokens, after a norm if there is one.
#[derive(Clone)]
pub struct SelfAttention {
    pub norm: Option<LayerNorm<f64>>,
    pub attention: MultiHeadAttention<f64>,
}
emmy::module!(SelfAttention for f64: norm, attention);

impl Net for SelfAttention {
    fn forward<'t>(&self, pass: &Pass<'t, '_, f64>, seed: u64) -> Var<'t, f64> {
        let mut x = rows(pass, TOKENS, self.attention.config.width, seed);
        if let Some(norm) = &self.norm {
            x = norm.forward(pass, x);
        }
        self.attention.forward(pass, x, &Mask::causal())
    }
}

impl Net for FeedForward<f64> {
    fn forward<'t>(&self, pass: &Pass<'t, '_, f64>, seed: u64) -> Var<'t, f64> {
        self.forward(pass, rows(pass, POINTS, self.up.weight.shape()[1], seed))
    }
}

/// A map of features to tokens, blocks of a transformer, a map of tokens to outputs; a decoder's blocks
/// attend to other features, mapped too.
#[derive(Clone)]
pub struct Blocks {
    pub embed: Linear<f64>,
    pub memory: Option<Linear<f64>>,
    pub blocks: Transformer<f64>,
    pub readout: Linear<f64>,
    pub causal: bool,
}
emmy::module!(Blocks for f64: embed, memory, blocks, readout);

impl Blocks {
    pub fn new(config: BlockConfig, last_norm: bool, causal: bool, rng: &mut Rng) -> Self {
        let width = config.attention.width;
        let mut blocks = Transformer::new(1, config, rng).expect("a valid configuration");
        blocks.norm = blocks.norm.filter(|_| last_norm);
        Self {
            embed: Linear::new(4, width, false, rng),
            memory: (config.cross).map(|_| Linear::new(2, width, false, rng)),
            blocks,
            readout: Linear::new(width, 4, false, rng),
            causal,
        }
    }
}

impl Net for Blocks {
    fn forward<'t>(&self, pass: &Pass<'t, '_, f64>, seed: u64) -> Var<'t, f64> {
        let mask = if self.causal {
            Mask::causal()
        } else {
            Mask::none()
        };
        let x = (self.embed).forward(pass, rows(pass, TOKENS, 4, seed));
        let x = match &self.memory {
            None => self.blocks.forward(pass, x, &mask),
            Some(map) => {
                let memory = map.forward(pass, rows(pass, POINTS, 2, seed ^ 1));
                (self.blocks).with_memory(pass, x, &mask, memory, &Mask::none())
            }
        };
        self.readout.forward(pass, x)
    }
}

impl Net for VisionTransformer<f64> {
    fn forward<'t>(&self, pass: &Pass<'t, '_, f64>, seed: u64) -> Var<'t, f64> {
        let [height, width] = self.config.image;
        let shape = [POINTS, self.config.channels, height, width];
        let images = init::normal(&shape, 1.0, &mut init::rng(seed));
        self.forward(pass, pass.tape().constant(images))
    }
}

/// Random symbols below `count`.
fn symbols(count: usize, length: usize, seed: u64) -> Vec<usize> {
    let draws = init::uniform::<f64>(&[length], 1.0, &mut init::rng(seed));
    let symbol = |u: &f64| ((u + 1.0) / 2.0 * count as f64) as usize;
    draws.iter().map(|u| symbol(u).min(count - 1)).collect()
}

/// Sequences of as many symbols as the context holds.
const SEQUENCES: usize = 4;

impl Net for LanguageModel<f64> {
    fn forward<'t>(&self, pass: &Pass<'t, '_, f64>, seed: u64) -> Var<'t, f64> {
        let count = SEQUENCES * self.config.context;
        let symbols = symbols(self.config.symbols, count, seed);
        self.forward(pass, &symbols, SEQUENCES)
    }
}

/// The tokens, then the summary of the first.
impl Net for Bert<f64> {
    fn forward<'t>(&self, pass: &Pass<'t, '_, f64>, seed: u64) -> Var<'t, f64> {
        let (context, width) = (self.config.context, self.config.block.attention.width);
        let count = SEQUENCES * context;
        let tokens = symbols(self.config.symbols, count, seed);
        let segments = symbols(self.config.segments, count, seed ^ 1);
        let y = self.forward(pass, &tokens, &segments, SEQUENCES, &Mask::none());
        let first = self.pooled(pass, y).reshape(&[SEQUENCES, 1, width]);
        Var::concat(&[y, first], 1)
    }
}

/// A recurrent layer and a map of its outputs, on sequences.
#[derive(Clone)]
pub struct Sequence {
    pub lstm: Option<Lstm<f64>>,
    pub gru: Option<Gru<f64>>,
    pub readout: Linear<f64>,
}
emmy::module!(Sequence for f64: lstm, gru, readout);

impl Net for Sequence {
    fn forward<'t>(&self, pass: &Pass<'t, '_, f64>, seed: u64) -> Var<'t, f64> {
        let x = init::normal(&[3, TOKENS, 2], 1.0, &mut init::rng(seed));
        let mut x = pass.tape().constant(x);
        if let Some(lstm) = &self.lstm {
            x = lstm.forward(pass, x, None).0;
        }
        if let Some(gru) = &self.gru {
            x = gru.forward(pass, x, None).0;
        }
        self.readout.forward(pass, x)
    }
}

/// A mixture of experts: Σ_e softmax(W x)_e expert_e(x).
#[derive(Clone)]
pub struct Experts {
    pub gate: Linear<f64>,
    pub experts: Vec<Mlp<f64>>,
}
emmy::module!(Experts for f64: gate, experts);

impl Net for Experts {
    fn forward<'t>(&self, pass: &Pass<'t, '_, f64>, seed: u64) -> Var<'t, f64> {
        let x = rows(pass, POINTS, self.gate.weight.shape()[1], seed);
        let shares = self.gate.forward(pass, x).softmax(1);
        let part =
            |(e, expert): (usize, &Mlp<f64>)| expert.forward(pass, x) * shares.slice(1, e..e + 1);
        let parts = self.experts.iter().enumerate().map(part);
        parts.reduce(|a, b| a + b).expect("an expert")
    }
}
