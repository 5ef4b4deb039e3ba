//! The layers that PyTorch and PyTorch Geometric have too, in files written there and here.

use super::torch::{case, twin};
use super::*;
use crate::TempDir;
use emmy::graph::{Duplicates, Neighbourhood, SelfLoops};
use emmy::nn::entries_mut;
use emmy::nn::{
    AttentionConfig, BatchNorm, BlockConfig, GatedGraphConv, GatedGraphOptions, GcniiConv,
    GcniiOptions, GinConv, GinOptions, Gru, Heads, Lstm, MultiHeadAttention, RmsNorm, SgcConv,
    SgcOptions, Transformer, TransformerConv, TransformerOptions,
};
use emmy::ops::attention::Mask;
use emmy::sparse::Csr;
use emmy::store::weights;
use emmy::{Graph, Tape};

#[test]
fn attention() {
    let layer = MultiHeadAttention::new(AttentionConfig::new(4, 2), &mut init::rng(0)).unwrap();
    twin("attention", layer, &(), |layer, pass, x| {
        layer.forward(pass, x, &Mask::none())
    });
}

#[test]
fn encoders_of_either_order() {
    let relu = BlockConfig::pre_norm_encoder(4, 2, 6);
    let mut gelu = relu.biased(false);
    gelu.feed_forward.activation = Activation::Gelu;
    let post = BlockConfig::post_norm_encoder(4, 2, 6);
    assert!(relu.norm_first && !post.norm_first);
    for (name, config) in [("encoder_post", post), ("encoder_pre", gelu)] {
        let net = Transformer::new(2, config, &mut init::rng(1)).unwrap();
        twin(name, net, &config, |net, pass, x| {
            net.forward(pass, x, &Mask::none())
        });
    }
}

#[test]
fn a_file_of_the_other_order_names_the_remedy() {
    let read = |name: &str, config| {
        let mut net = Transformer::<f64>::new(2, config, &mut init::rng(1)).unwrap();
        weights::load_into(fixture(name), &mut net)
            .unwrap_err()
            .to_string()
    };
    let pre = read("encoder_post", BlockConfig::pre_norm_encoder(4, 2, 6));
    assert!(pre.contains("missing     norm.weight [4]"), "{pre}");
    assert!(
        pre.ends_with("PyTorch's default: BlockConfig::post_norm_encoder, post_norm_decoder."),
        "{pre}"
    );
    let mut gelu = BlockConfig::post_norm_encoder(4, 2, 6).biased(false);
    gelu.feed_forward.activation = Activation::Gelu;
    let post = read("encoder_pre", gelu);
    assert!(post.contains("unexpected  norm.weight [4]"), "{post}");
    assert!(
        post.ends_with("to be pre-norm: BlockConfig::pre_norm_encoder, pre_norm_decoder."),
        "{post}"
    );
    // Other differences have no such remedy.
    let other = read("encoder_post", BlockConfig::pre_norm_encoder(4, 2, 5));
    assert!(!other.contains("BlockConfig"), "{other}");
}

/// The names of PyTorch's `MultiheadAttention(4, 2, kdim=3, vdim=3)`: three weights, since keys and values have other
/// columns than queries, and one bias of all three.
#[test]
fn attention_to_a_memory_of_another_width() {
    let config = AttentionConfig {
        memory: 3,
        ..AttentionConfig::new(4, 2)
    };
    let of = |seed| MultiHeadAttention::<f64>::new(config, &mut init::rng(seed)).unwrap();
    let mut layer = of(0);
    let keys = weights::keys(&layer);
    let expected = [
        ("q_proj_weight", vec![4, 4]),
        ("in_proj_bias", vec![12]),
        ("k_proj_weight", vec![4, 3]),
        ("v_proj_weight", vec![4, 3]),
        ("out_proj.weight", vec![4, 4]),
        ("out_proj.bias", vec![4]),
    ];
    assert_eq!(keys, expected.map(|(name, shape)| (name.to_owned(), shape)));
    for entry in entries_mut(&mut layer) {
        *entry.tensor = init::normal(entry.tensor.shape(), 1.0, &mut init::rng(5));
    }
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("cross.safetensors");
    weights::save(&path, &layer, &()).unwrap();
    let mut again = of(1);
    weights::load_into(&path, &mut again).unwrap();
    let [x, y] = [[2, 4], [5, 3]].map(|shape| init::normal::<f64>(&shape, 1.0, &mut init::rng(9)));
    let output = |layer: &MultiHeadAttention<f64>| {
        let tape = Tape::new();
        let [x, y] = [&x, &y].map(|x| tape.constant(x.clone()));
        layer
            .cross(&Pass::eval(&tape, layer), x, y, &Mask::none())
            .value()
    };
    assert_eq!(output(&again), output(&layer));
    // A layer whose memory has the same width reads one tensor for all three.
    let error = weights::load_into(
        &path,
        &mut MultiHeadAttention::<f64>::new(AttentionConfig::new(4, 2), &mut init::rng(0)).unwrap(),
    );
    assert!(
        error
            .unwrap_err()
            .to_string()
            .contains("missing     in_proj_weight [12, 4]")
    );
}

/// PyTorch takes one sequence without an axis for the batch.
#[test]
fn recurrent_layers() {
    let rng = &mut init::rng(2);
    let lstm = Lstm::new(3, 2, 2, rng);
    twin("lstm", lstm, &(), |lstm, pass, x| {
        lstm.forward(pass, x.unsqueeze(0), None).0.squeeze(0)
    });
    let gru = Gru::new(3, 2, 2, rng);
    twin("gru", gru, &(), |gru, pass, x| {
        gru.forward(pass, x.unsqueeze(0), None).0.squeeze(0)
    });
}

struct Norms<F: Real> {
    layer: LayerNorm<F>,
    rms: RmsNorm<F>,
    batch: BatchNorm<F>,
}
emmy::module!(Norms: layer, rms, batch);

#[test]
fn normalisers() {
    let norms = Norms {
        layer: LayerNorm::new(4),
        rms: RmsNorm::new(4),
        batch: BatchNorm::new(4),
    };
    twin("norms", norms, &(), |norms, pass, x| {
        let x = norms.rms.forward(pass, norms.layer.forward(pass, x));
        norms.batch.forward(pass, x)
    });
}

struct Convolutions {
    gin: GinConv<f64>,
    gin_fixed: GinConv<f64>,
    gcnii: GcniiConv<f64>,
    gcnii_shared: GcniiConv<f64>,
    transformer: TransformerConv<f64>,
    transformer_mean: TransformerConv<f64>,
    gated: GatedGraphConv<f64>,
    sgc: SgcConv<f64>,
}
emmy::module!(Convolutions for f64:
    gin, gin_fixed, gcnii, gcnii_shared, transformer, transformer_mean, gated, sgc
);

impl Convolutions {
    fn new() -> Self {
        let rng = &mut init::rng(3);
        let gin = |eps| GinOptions { eps, bias: true };
        let gcnii = |shared| GcniiOptions {
            alpha: 0.2,
            theta: 0.6,
            shared,
        };
        let two = TransformerOptions {
            heads: 2,
            ..TransformerOptions::DEFAULT
        };
        let gated = TransformerOptions { gate: true, ..two };
        let mean = TransformerOptions {
            join: Heads::Average,
            bias: false,
            ..two
        };
        let sgc = SgcOptions {
            steps: 2,
            bias: true,
        };
        Self {
            gin: GinConv::new(3, 2, gin(true), rng),
            gin_fixed: GinConv::new(3, 2, gin(false), rng),
            gcnii: GcniiConv::new(3, 3, gcnii(false), rng),
            gcnii_shared: GcniiConv::new(3, 1, gcnii(true), rng),
            transformer: TransformerConv::new(3, 2, Some(2), gated, rng),
            transformer_mean: TransformerConv::new(3, 2, None, mean, rng),
            gated: GatedGraphConv::new(3, GatedGraphOptions { steps: 2 }, rng),
            sgc: SgcConv::new(3, 2, sgc, rng),
        }
    }

    fn forward<'t>(
        &self,
        pass: &Pass<'t, '_, f64>,
        x: Var<'t, f64>,
        near: &Neighbourhood<f64>,
        adjacency: &Csr<f64>,
        features: &Tensor<f64>,
    ) -> Var<'t, f64> {
        let (edges, twice) = (near.pattern(), x.scale(2.0));
        let features = pass.tape().constant(features.clone());
        let outputs = [
            self.gin.forward(pass, x, near),
            self.gin_fixed.forward(pass, x, near),
            self.transformer_mean.forward(pass, x, edges, None),
            self.gated.forward(pass, x, near),
            self.sgc.forward(pass, x, adjacency),
            self.gcnii.forward(pass, x, twice, adjacency),
            self.gcnii_shared.forward(pass, x, twice, adjacency),
            self.transformer.forward(pass, x, edges, Some(features)),
        ];
        Var::concat(&outputs, 1)
    }
}

/// The features of an edge depend on its two nodes, whose order is different there.
#[test]
fn convolutions() {
    let edges = case("convolutions").edges;
    let graph = Graph::new(6, &edges, Duplicates::Reject, SelfLoops::Reject).unwrap();
    let graph = graph.symmetrise();
    let both = graph.edge_list().flat_map(|(i, j)| {
        let (i, j) = (f64::from(i), f64::from(j));
        [(i - j) / 4.0, i * j / 5.0]
    });
    let features = emmy::tensor::tensor(&[2 * edges.len(), 2], both.collect());
    let adjacency = graph.gcn_norm();
    let near = Neighbourhood::of(graph);
    twin(
        "convolutions",
        Convolutions::new(),
        &(),
        |convs, pass, x| convs.forward(pass, x, &near, &adjacency, &features),
    );
}

/// Weights that are read begin at a line of the cache, as those do that are drawn.
#[test]
fn large_weights_begin_at_a_line_of_the_cache() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("w.safetensors");
    let [drawn, mut read] =
        [0, 1].map(|seed| Linear::<f32>::new(64, 48, true, &mut init::rng(seed)));
    weights::save(&path, &drawn, &()).unwrap();
    for _ in 0..8 {
        weights::load_into(&path, &mut read).unwrap();
        let named = weights::Weights::open(&path)
            .unwrap()
            .get::<f32>("weight")
            .unwrap();
        for weight in [&read.weight, &named] {
            assert_eq!(*weight, drawn.weight);
            assert_eq!(weight.as_ptr().align_offset(64), 0);
        }
    }
}
