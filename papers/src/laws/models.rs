//! Small models: every kind of layer of the library, and blocks composed of its operations.

use super::nets::{Blocks, Experts, IdentityMap, Net, OnGraph, Residual, SelfAttention, Sequence};
use emmy::graph::generators;
use emmy::init::{self, Rng};
use emmy::nn::{
    Activation, AttentionConfig, AttentionOptions, Bert, BertConfig, BlockConfig, Conv,
    FeedForward, FeedForwardConfig, Gatv2Options, GraphNet, GraphNetConfig, Gru, Heads,
    LanguageConfig, LanguageModel, LayerNorm, Linear, Lstm, Mlp, MultiHeadAttention, Norm,
    SageOptions, Score, VisionConfig, VisionTransformer,
};

fn mlp(widths: &[usize], activation: Activation, bias: bool, rng: &mut Rng) -> Mlp<f64> {
    Mlp::new(widths, activation, bias, rng)
}

/// A network of graph layers on a path of eight nodes. On a path features mix slowly, so that neighbours
/// still differ in deep layers, and attention matters.
fn graph(options: Options, change: impl Fn(GraphNetConfig) -> GraphNetConfig) -> OnGraph {
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
        net: GraphNet::new(config, options.seed).expect("a valid configuration"),
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
fn attending(
    options: Options,
    conv: Conv,
    change: impl Fn(GraphNetConfig) -> GraphNetConfig,
) -> OnGraph {
    graph(options, |base| {
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
    let mut config = BlockConfig::pre_norm_encoder(3, 1, 2).biased(false);
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
        /// All models; one is large, `gatv2-10-layers`.
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
    "gcn", "2 layers": |o, rng| graph(o, |base| base);
    "sage", "2 layers": |o, rng| graph(o, |base| GraphNetConfig {
        self_loops: false,
        ..base.of(Conv::Sage(SageOptions { bias: true }))
    });
    "gat", "2 layers, 1 head": |o, rng| attending(o, Conv::GAT, |base| base);
    "gat-2-heads", "2 layers, 2 heads side by side": |o, rng| attending(
        o,
        Conv::Gat(AttentionOptions { heads: 2, ..AttentionOptions::DEFAULT }),
        |base| GraphNetConfig { hidden: 2, ..base },
    );
    "gatv2", "2 layers, shared weights": |o, rng| attending(
        o,
        gatv2(true, AttentionOptions::DEFAULT),
        |base| base,
    );
    "gatv2-separate", "2 layers, separate weights": |o, rng| attending(
        o,
        gatv2(false, AttentionOptions::DEFAULT),
        |base| base,
    );
    "heads-averaged", "2 layers of GATv2, 2 heads averaged": |o, rng| {
        let options = AttentionOptions { heads: 2, join: Heads::Average, ..AttentionOptions::DEFAULT };
        attending(o, gatv2(true, options), |base| GraphNetConfig {
            hidden: 2,
            conv: gatv2(true, options),
            ..base
        })
    };
    "sgc", "2 propagations, 1 map": |o, rng| graph(o, |base| on_citations(GraphNetConfig::sgc(3, 2), base));
    "gin", "2 layers, ε trained": |o, rng| graph(o, |base| GraphNetConfig {
        hidden: 2,
        ..on_citations(GraphNetConfig::gin(3, 2), base)
    });
    "gcnii", "2 layers between linear maps": |o, rng| graph(o, |base| GraphNetConfig {
        layers: 2,
        ..on_citations(GraphNetConfig::gcnii(3, 2), base)
    });
    "ggnn", "2 steps of a gated unit between linear maps": |o, rng| graph(o, |base| GraphNetConfig {
        hidden: 2,
        ..on_citations(GraphNetConfig::ggnn(3, 2), base)
    });
    "graph-transformer", "2 layers, 1 head, skip connections": |o, rng| graph(o, |base| GraphNetConfig {
        hidden: 2,
        ..on_citations(GraphNetConfig::transformer(3, 2), base).heads(1, 1)
    });
    "gatv2-10-layers", "10 layers of width 64, as in the demonstration of `balance`": |o, rng| attending(
        o,
        gatv2(true, AttentionOptions { bias: false, ..AttentionOptions::DEFAULT }),
        |base| GraphNetConfig { inputs: 16, hidden: 64, classes: 7, layers: 10, ..base },
    );
    "gatv2-deep", "10 layers of width 3, LeakyReLU": |o, rng| attending(
        o,
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
