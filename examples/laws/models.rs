//! Small models: every kind of layer of the library, and blocks composed of its operations.

use crate::layers::{Attention, FeedForward, Reach, Score, Shape, Sizes};
use emmy::graph::{Neighbourhood, generators};
use emmy::init::{self, Rng};
use emmy::nn::{
    Activation, AttentionOptions, Conv, Fields, Gatv2Options, GraphNet, GraphNetConfig, Heads,
    LayerNorm, Linear, Mlp, Module, Pass, SageOptions,
};
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
    net: GraphNet<f64>,
    neighbours: Neighbourhood<f64>,
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
    embed: Linear<f64>,
    blocks: Vec<Mlp<f64>>,
    readout: Linear<f64>,
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
    inner: Linear<f64>,
    readout: Linear<f64>,
}
emmy::module!(IdentityMap for f64: inner, readout);

impl Net for IdentityMap {
    fn forward<'t>(&self, pass: &Pass<'t, '_, f64>, seed: u64) -> Var<'t, f64> {
        let x = rows(pass, POINTS, self.inner.weight.shape()[1], seed);
        let inner = x + self.inner.forward(pass, x);
        self.readout.forward(pass, inner.relu())
    }
}

/// Self-attention of tokens, behind a norm if there is one.
#[derive(Clone)]
pub struct SelfAttention {
    norm: Option<LayerNorm<f64>>,
    attention: Attention<f64>,
    /// The tokens that each may see.
    reach: Reach,
}
emmy::module!(SelfAttention for f64: norm, attention);

impl Net for SelfAttention {
    fn forward<'t>(&self, pass: &Pass<'t, '_, f64>, seed: u64) -> Var<'t, f64> {
        let width = self.attention.query.weight.shape()[1];
        let mut x = rows(pass, TOKENS, width, seed);
        if let Some(norm) = &self.norm {
            x = norm.forward(pass, x);
        }
        self.attention.forward(pass, x, x, &self.reach)
    }
}

impl Net for FeedForward<f64> {
    fn forward<'t>(&self, pass: &Pass<'t, '_, f64>, seed: u64) -> Var<'t, f64> {
        self.forward(pass, rows(pass, POINTS, self.up.weight.shape()[1], seed))
    }
}

/// A causal block of a transformer with pre-norms, read without a last norm:
/// x = E e,   x ← x + attention(norm x),   x ← x + SwiGLU(norm x),   y = R x.
#[derive(Clone)]
pub struct Block {
    embed: Linear<f64>,
    norm: LayerNorm<f64>,
    attention: Attention<f64>,
    forward: FeedForward<f64>,
    readout: Linear<f64>,
    reach: Reach,
}
emmy::module!(Block for f64: embed, attention, forward, readout);

impl Net for Block {
    fn forward<'t>(&self, pass: &Pass<'t, '_, f64>, seed: u64) -> Var<'t, f64> {
        let width = self.embed.weight.shape()[1];
        let mut x = self.embed.forward(pass, rows(pass, TOKENS, width, seed));
        let y = self.norm.forward(pass, x);
        x = x + self.attention.forward(pass, y, y, &self.reach);
        x = x + self.forward.forward(pass, self.norm.forward(pass, x));
        self.readout.forward(pass, x)
    }
}

/// A mixture of experts: Σ_e softmax(W x)_e expert_e(x).
#[derive(Clone)]
pub struct Experts {
    gate: Linear<f64>,
    experts: Vec<Mlp<f64>>,
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

fn mlp(widths: &[usize], activation: Activation, bias: bool, rng: &mut Rng) -> Mlp<f64> {
    Mlp::new(widths, activation, bias, rng)
}

/// A network of graph layers on a path of eight nodes. On a path features mix slowly, so that attention has
/// something to choose from in deep layers too.
fn graph(change: impl Fn(GraphNetConfig) -> GraphNetConfig) -> OnGraph {
    let base = GraphNetConfig {
        hidden: 3,
        activation: Activation::Relu,
        dropout: 0.0,
        ..GraphNetConfig::gcn(3, 2)
    };
    let config = change(base);
    let graph = generators::path(8);
    OnGraph {
        neighbours: config.neighbourhood(&graph),
        net: GraphNet::new(config, 0).expect("a valid configuration"),
    }
}

/// The same with attention layers.
fn attending(conv: Conv, change: impl Fn(GraphNetConfig) -> GraphNetConfig) -> OnGraph {
    graph(|base| {
        let config = change(base.of(conv));
        config.attending(|options| options.dropout = 0.0)
    })
}

fn gatv2(shared: bool, attention: AttentionOptions) -> Conv {
    Conv::Gatv2(Gatv2Options { shared, attention })
}

fn attention(sizes: Sizes, score: Score, rng: &mut Rng) -> SelfAttention {
    SelfAttention {
        norm: None,
        attention: Attention::new(sizes, score, rng),
        reach: causal(),
    }
}

fn causal() -> Reach {
    Reach::random(Shape::Causal, TOKENS, TOKENS, &mut init::rng(0))
}

const HEAD: Sizes = Sizes {
    d_x: 3,
    d_y: 3,
    d_k: 2,
    d_v: 2,
    out: 3,
    heads: 1,
    groups: 1,
    bias: false,
};

/// What a small model is made with.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// ε of every LayerNorm.
    pub eps: f64,
    /// The seed of the parameters.
    pub seed: u64,
}

/// A kind of model.
#[derive(Debug, Clone, Copy)]
pub struct Model {
    pub name: &'static str,
    /// What it is, in one line.
    pub about: &'static str,
    pub make: fn(Options) -> Box<dyn Net>,
}

macro_rules! models {
    ($($name:literal, $about:literal: |$o:ident, $rng:ident| $make:expr;)*) => {
        /// All small models.
        pub const MODELS: &[Model] = &[$(Model {
            name: $name,
            about: $about,
            make: |$o| {
                let $rng = &mut init::rng($o.seed);
                let net = $make;
                let _ = ($rng, $o);
                Box::new(net)
            },
        }),*];
    };
}

models! {
    "mlp", "4-5-3, ReLU, biases": |o, rng| mlp(&[4, 5, 3], Activation::Relu, true, rng);
    "mlp-gelu", "4-5-3, GELU, biases": |o, rng| mlp(&[4, 5, 3], Activation::Gelu, true, rng);
    "mlp-deep", "9-9-9-9-9, ReLU": |o, rng| mlp(&[9, 9, 9, 9, 9], Activation::Relu, false, rng);
    "linear", "3-4-2, no activation": |o, rng| mlp(&[3, 4, 2], Activation::Identity, false, rng);
    "gcn", "2 layers": |o, rng| graph(|base| base);
    "sage", "2 layers": |o, rng| graph(|base| GraphNetConfig {
        self_loops: false,
        ..base.of(Conv::Sage(SageOptions { bias: true }))
    });
    "gat", "2 layers, 1 head": |o, rng| attending(Conv::GAT, |base| base);
    "gat-2-heads", "2 layers, 2 heads side by side": |o, rng| attending(
        Conv::Gat(AttentionOptions { heads: 2, ..AttentionOptions::DEFAULT }),
        |base| GraphNetConfig { hidden: 2, ..base },
    );
    "gatv2", "2 layers, shared weights": |o, rng| attending(
        gatv2(true, AttentionOptions::DEFAULT),
        |base| base,
    );
    "gatv2-separate", "2 layers, separate weights": |o, rng| attending(
        gatv2(false, AttentionOptions::DEFAULT),
        |base| base,
    );
    "heads-averaged", "2 layers of GATv2, 2 heads averaged": |o, rng| {
        let options = AttentionOptions { heads: 2, join: Heads::Average, ..AttentionOptions::DEFAULT };
        attending(gatv2(true, options), |base| GraphNetConfig {
            hidden: 2,
            conv: gatv2(true, options),
            ..base
        })
    };
    "gatv2-10-layers", "10 layers of width 64, as in the demonstration of `balance`": |o, rng| attending(
        gatv2(true, AttentionOptions { bias: false, ..AttentionOptions::DEFAULT }),
        |base| GraphNetConfig { inputs: 16, hidden: 64, classes: 7, layers: 10, ..base },
    );
    "gatv2-deep", "10 layers of width 3, LeakyReLU": |o, rng| attending(
        gatv2(true, AttentionOptions { bias: false, ..AttentionOptions::DEFAULT }),
        |base| GraphNetConfig { layers: 10, activation: Activation::LeakyRelu { slope: 0.2 }, ..base },
    );
    "residual", "2 blocks of ReLU on a stream": |o, rng| Residual {
        embed: Linear::new(2, 3, false, rng),
        blocks: (0..2).map(|_| mlp(&[3, 3, 3], Activation::Relu, false, rng)).collect(),
        readout: Linear::new(3, 2, false, rng),
    };
    "identity-map", "V relu(x + W x)": |o, rng| IdentityMap {
        inner: Linear::new(4, 4, false, rng),
        readout: Linear::new(4, 3, false, rng),
    };
    "attention", "1 head, causal": |o, rng| attention(HEAD, Score::Dot, rng);
    "attention-biased", "1 head, causal, biases": |o, rng| attention(
        Sizes { bias: true, ..HEAD },
        Score::Dot,
        rng,
    );
    "attention-2-heads", "2 heads, queries of width 1, values of 2": |o, rng| attention(
        Sizes { heads: 2, groups: 2, d_k: 1, d_v: 2, ..HEAD },
        Score::Dot,
        rng,
    );
    "grouped-queries", "2 heads share keys and values": |o, rng| attention(
        Sizes { heads: 2, groups: 1, ..HEAD },
        Score::Dot,
        rng,
    );
    "rope", "1 head of width 4, rotary positions": |o, rng| attention(
        Sizes { d_k: 4, ..HEAD },
        Score::Rotary,
        rng,
    );
    "qk-norm", "1 head, RMS-normalised queries and keys": |o, rng| attention(
        HEAD,
        Score::Normalised,
        rng,
    );
    "l2-attention", "1 head, tied queries and keys, distances": |o, rng| {
        let mut net = attention(HEAD, Score::Distance, rng);
        net.attention.key = None;
        net
    };
    "swiglu", "3-4-3": |o, rng| FeedForward::new([3, 4, 3], true, Activation::Silu, false, rng);
    "experts", "softmax gate, 2 experts 2-3-2 of ReLU": |o, rng| Experts {
        gate: Linear::new(2, 2, true, rng),
        experts: (0..2).map(|_| mlp(&[2, 3, 2], Activation::Relu, false, rng)).collect(),
    };
    "layernorm-attention", "LayerNorm with gain and bias, 1 head": |o, rng| SelfAttention {
        norm: Some(LayerNorm { eps: o.eps, ..LayerNorm::new(3) }),
        attention: Attention::new(HEAD, Score::Dot, rng),
        reach: causal(),
    };
    "preln-block", "causal pre-norm block, SwiGLU, raw readout": |o, rng| Block {
        embed: Linear::new(4, 3, false, rng),
        norm: LayerNorm::plain(o.eps),
        attention: Attention::new(Sizes { d_k: 1, ..HEAD }, Score::Dot, rng),
        forward: FeedForward::new([3, 2, 3], true, Activation::Silu, false, rng),
        readout: Linear::new(3, 4, false, rng),
        reach: causal(),
    };
}
