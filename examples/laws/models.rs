//! Small models: every kind of layer of the library, and blocks composed of its operations.

use emmy::graph::{Neighbourhood, generators};
use emmy::init::{self, Rng};
use emmy::nn::{
    Activation, AttentionConfig, AttentionOptions, Bert, BertConfig, BlockConfig, Conv,
    FeedForward, FeedForwardConfig, Fields, Gatv2Options, GraphNet, GraphNetConfig, Gru, Heads,
    LanguageConfig, LanguageModel, LayerNorm, Linear, Lstm, Mlp, Module, MultiHeadAttention, Norm,
    Pass, SageOptions, Score, Transformer, VisionConfig, VisionTransformer,
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

/// Causal self-attention of tokens, after a norm if there is one.
#[derive(Clone)]
pub struct SelfAttention {
    norm: Option<LayerNorm<f64>>,
    attention: MultiHeadAttention<f64>,
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
    embed: Linear<f64>,
    memory: Option<Linear<f64>>,
    blocks: Transformer<f64>,
    readout: Linear<f64>,
    causal: bool,
}
emmy::module!(Blocks for f64: embed, memory, blocks, readout);

impl Blocks {
    fn new(config: BlockConfig, last_norm: bool, causal: bool, rng: &mut Rng) -> Self {
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
    lstm: Option<Lstm<f64>>,
    gru: Option<Gru<f64>>,
    readout: Linear<f64>,
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

/// A network of graph layers on a path of eight nodes. On a path features mix slowly, so that neighbours
/// still differ in deep layers, and attention matters.
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

/// A network for citation graphs with the sizes of `base`, ReLU, and no dropout.
fn on_citations(config: GraphNetConfig, base: GraphNetConfig) -> GraphNetConfig {
    GraphNetConfig {
        hidden: base.hidden,
        activation: base.activation,
        dropout: 0.0,
        ..config.attention_dropout(0.0)
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

fn attention(config: AttentionConfig, rng: &mut Rng) -> SelfAttention {
    SelfAttention {
        norm: None,
        attention: MultiHeadAttention::new(config, rng).expect("a valid configuration"),
    }
}

/// One head of width 2 on tokens of 3 features.
fn head() -> AttentionConfig {
    AttentionConfig {
        key_width: 2,
        value_width: 2,
        bias: false,
        ..AttentionConfig::new(3, 1)
    }
}

/// A block on tokens of 3 features, with one head of width 1 and 2 hidden neurons.
fn block(eps: f64) -> BlockConfig {
    let mut config = BlockConfig::encoder(3, 1, 2).biased(false);
    config.attention = AttentionConfig {
        key_width: 1,
        ..head()
    };
    config.norm = Norm::Layer {
        eps,
        gain: true,
        bias: false,
    };
    config
}

/// The options of a small model.
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
    "sgc", "2 propagations, 1 map": |o, rng| graph(|base| on_citations(GraphNetConfig::sgc(3, 2), base));
    "gin", "2 layers, ε trained": |o, rng| graph(|base| GraphNetConfig {
        hidden: 2,
        ..on_citations(GraphNetConfig::gin(3, 2), base)
    });
    "gcnii", "2 layers between linear maps": |o, rng| graph(|base| GraphNetConfig {
        layers: 2,
        ..on_citations(GraphNetConfig::gcnii(3, 2), base)
    });
    "ggnn", "2 steps of a gated unit between linear maps": |o, rng| graph(|base| GraphNetConfig {
        hidden: 2,
        ..on_citations(GraphNetConfig::ggnn(3, 2), base)
    });
    "graph-transformer", "2 layers, 1 head, skip connections": |o, rng| graph(|base| GraphNetConfig {
        hidden: 2,
        ..on_citations(GraphNetConfig::transformer(3, 2), base).heads(1, 1)
    });
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
    "attention", "1 head, causal": |o, rng| attention(head(), rng);
    "attention-biased", "1 head, causal, biases": |o, rng| attention(
        AttentionConfig { bias: true, ..head() },
        rng,
    );
    "attention-2-heads", "2 heads, queries of width 1, values of 2": |o, rng| attention(
        AttentionConfig { heads: 2, groups: 2, key_width: 1, ..head() },
        rng,
    );
    "grouped-queries", "2 heads share keys and values": |o, rng| attention(
        AttentionConfig { heads: 2, ..head() },
        rng,
    );
    "rope", "1 head of width 4, rotary positions": |o, rng| attention(
        AttentionConfig { key_width: 4, rotary: Some(100.0), ..head() },
        rng,
    );
    "qk-norm", "1 head, RMS-normalised queries and keys": |o, rng| attention(
        AttentionConfig { normalize: Some(0.0), ..head() },
        rng,
    );
    "l2-untied", "1 head, separate queries and keys, distances": |o, rng| attention(
        AttentionConfig { score: Score::L2, ..head() },
        rng,
    );
    "l2-attention", "1 head, tied queries and keys, distances": |o, rng| attention(
        AttentionConfig { score: Score::L2Tied, ..head() },
        rng,
    );
    "swiglu", "3-4-3": |o, rng| {
        let config = FeedForwardConfig::gated(3, 4, Activation::Silu);
        FeedForward::new(config, rng).expect("a valid configuration")
    };
    "lstm", "width 2, on sequences": |o, rng| Sequence {
        lstm: Some(Lstm::new(2, 2, 1, rng)),
        gru: None,
        readout: Linear::new(2, 2, false, rng),
    };
    "gru", "width 2, on sequences": |o, rng| Sequence {
        lstm: None,
        gru: Some(Gru::new(2, 2, 1, rng)),
        readout: Linear::new(2, 2, false, rng),
    };
    "experts", "softmax gate, 2 experts 2-3-2 of ReLU": |o, rng| Experts {
        gate: Linear::new(2, 2, true, rng),
        experts: (0..2).map(|_| mlp(&[2, 3, 2], Activation::Relu, false, rng)).collect(),
    };
    "layernorm-attention", "LayerNorm with gain and bias, 1 head": |o, rng| SelfAttention {
        norm: Some(LayerNorm { eps: o.eps, ..LayerNorm::new(3) }),
        ..attention(head(), rng)
    };
    "preln-block", "causal pre-norm block, SwiGLU, norms without gain, readout without a norm": |o, rng| {
        let config = BlockConfig {
            feed_forward: FeedForwardConfig::gated(3, 2, Activation::Silu),
            norm: Norm::Layer { eps: o.eps, gain: false, bias: false },
            ..block(o.eps)
        };
        Blocks::new(config, false, true, rng)
    };
    "encoder", "post-norm block, ReLU, norms with gain": |o, rng| {
        Blocks::new(BlockConfig { norm_first: false, ..block(o.eps) }, false, false, rng)
    };
    "language-model", "4 symbols, causal pre-norm block, learnt positions, GELU, head not tied to the embedding": |o, rng| {
        let mut config = LanguageConfig { block: block(o.eps), tied: false, ..LanguageConfig::gpt(4, 3, 1, 1, 3) };
        config.block.feed_forward.activation = Activation::Gelu;
        LanguageModel::new(config, o.seed).expect("a valid configuration")
    };
    "bert", "4 symbols, post-norm block, GELU, summary of the first token": |o, rng| {
        let mut config = BertConfig {
            block: BlockConfig { norm_first: false, ..block(o.eps) },
            ..BertConfig::new(4, 3, 1, 1, 3)
        };
        config.block.feed_forward.activation = Activation::Gelu;
        Bert::new(config, o.seed).expect("a valid configuration")
    };
    "decoder", "causal pre-norm block that attends to a memory, ReLU, last norm": |o, rng| {
        let config = block(o.eps);
        let config = BlockConfig { cross: Some(config.attention), ..config };
        Blocks::new(config, true, true, rng)
    };
    "vision-transformer", "1 block on 4 patches of 1 pixel, GELU, read by the mean": |o, rng| {
        let config = VisionConfig {
            block: BlockConfig {
                feed_forward: FeedForwardConfig {
                    bias: false,
                    ..FeedForwardConfig::gelu(3, 2)
                },
                ..block(o.eps)
            },
            class_token: false,
            ..VisionConfig::new(2, 1, 1, 2, 1, 1, 3)
        };
        VisionTransformer::new(config, o.seed).expect("a valid configuration")
    };
}
