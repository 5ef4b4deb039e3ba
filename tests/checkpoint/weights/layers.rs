//! The layers that PyTorch and PyTorch Geometric have too, in files written there and here.

use super::torch::{case, twin};
use super::*;
use emmy::Graph;
use emmy::graph::{Duplicates, Neighbourhood, SelfLoops};
use emmy::nn::{
    AttentionConfig, BatchNorm, BlockConfig, GatedGraphConv, GatedGraphOptions, GcniiConv,
    GcniiOptions, GinConv, GinOptions, Gru, Heads, Lstm, MultiHeadAttention, RmsNorm, SgcConv,
    SgcOptions, Transformer, TransformerConv, TransformerOptions,
};
use emmy::ops::attention::Mask;
use emmy::sparse::Csr;

#[test]
fn attention() {
    let layer = MultiHeadAttention::new(AttentionConfig::new(4, 2), &mut init::rng(0)).unwrap();
    twin("attention", layer, &(), |layer, pass, x| {
        layer.forward(pass, x, &Mask::none())
    });
}

#[test]
fn encoders_of_either_order() {
    let relu = BlockConfig::encoder(4, 2, 6);
    let mut gelu = relu.biased(false);
    gelu.feed_forward.activation = Activation::Gelu;
    let post = BlockConfig {
        norm_first: false,
        ..relu
    };
    for (name, config) in [("encoder_post", post), ("encoder_pre", gelu)] {
        let net = Transformer::new(2, config, &mut init::rng(1)).unwrap();
        twin(name, net, &config, |net, pass, x| {
            net.forward(pass, x, &Mask::none())
        });
    }
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
