//! Inputs and configurations that the layers and networks refuse.

use crate::support::{INPUTS, features};
use emmy::graph::Neighbourhood;
use emmy::graph::generators::random_graph;
use emmy::nn::{
    Conv, EndMaps, GatedGraphConv, GatedGraphOptions, GcniiConv, GcniiOptions, GraphContext,
    GraphConv, GraphNet, GraphNetConfig, Norm, PairMode, PairNorm, Pass, SgcOptions,
    TransformerConv, TransformerOptions,
};
use emmy::{Tape, init};

#[test]
fn a_network_that_cannot_be_is_an_error_that_says_why() {
    let (gcn, gcnii) = (GraphNetConfig::gcn(7, 3), GraphNetConfig::gcnii(7, 3));
    let ggnn = GraphNetConfig::ggnn(7, 3);
    let sgc = |steps| Conv::Sgc(SgcOptions { steps, bias: true });
    let of = |change: fn(&mut GcniiOptions)| {
        let mut options = GcniiOptions::DEFAULT;
        change(&mut options);
        gcnii.of(Conv::Gcnii(options))
    };
    let without = |config| GraphNetConfig {
        ends: EndMaps::NONE,
        ..config
    };
    for (config, message) in [
        (
            without(gcnii),
            "a linear map before them, whose output they read, found none",
        ),
        (
            GraphNetConfig {
                ends: EndMaps {
                    output: false,
                    ..EndMaps::ACTIVATED
                },
                ..gcnii
            },
            "linear maps before and behind them, found 64 features and 3 neurons",
        ),
        (without(ggnn), "as many neurons as features"),
        (
            of(|o| o.alpha = 1.5),
            "network: alpha: expected a share, 0 to 1, found 1.5",
        ),
        (
            of(|o| o.theta = 0.0),
            "network: theta: expected a number above 0, found 0",
        ),
        (
            gcn.of(sgc(5000)),
            "network: steps: expected 0 to 4096, found 5000",
        ),
        (ggnn.depth(0), "network: steps: expected 1 to 4096, found 0"),
        (
            GraphNetConfig {
                residual: Some(0),
                ..gcn
            },
            "network: residual: expected a period of at least 1, found 0",
        ),
        (
            GraphNetConfig {
                norm: Some(Norm::Pair(PairNorm {
                    scale: f64::NAN,
                    ..PairNorm::new(PairMode::Pn)
                })),
                ..gcn
            },
            "PairNorm",
        ),
        (
            GraphNetConfig::transformer(7, 3).attention_dropout(2.0),
            "network: attention dropout",
        ),
        (
            GraphNetConfig::transformer(7, 3).heads(0, 1),
            "network: heads",
        ),
    ] {
        let error = GraphNet::<f32>::new(config, 0).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
#[should_panic(
    expected = "GcniiConv: it needs x₀, the first hidden representation, and there is none"
)]
fn gcnii_without_a_first_representation() {
    let neighbours = Neighbourhood::of(random_graph(12, 20, 1));
    let layer = GcniiConv::<f64>::new(INPUTS, 1, GcniiOptions::DEFAULT, &mut init::rng(0));
    let tape = Tape::new();
    let pass = Pass::eval(&tape, &layer);
    let x = tape.constant(features(12, 1));
    let _ = layer.on(&pass, x.into(), GraphContext::from(&neighbours));
}

#[test]
#[should_panic(
    expected = "GatedGraphConv: x has shape [12, 5], it must be [nodes, features] with at most 3 features"
)]
fn more_features_than_a_gated_unit_has() {
    let neighbours = Neighbourhood::of(random_graph(12, 20, 1));
    let options = GatedGraphOptions { steps: 1 };
    let layer = GatedGraphConv::<f64>::new(3, options, &mut init::rng(0));
    let tape = Tape::new();
    let pass = Pass::eval(&tape, &layer);
    let _ = layer.forward(&pass, tape.constant(features(12, 1)), &neighbours);
}

#[test]
#[should_panic(expected = "TransformerConv: features of the edges None, the layer reads Some")]
fn a_layer_for_edges_with_features_and_edges_without() {
    let neighbours = Neighbourhood::<f64>::of(random_graph(12, 20, 1));
    let options = TransformerOptions::DEFAULT;
    let layer = TransformerConv::<f64>::new(INPUTS, 2, Some(2), options, &mut init::rng(0));
    let tape = Tape::new();
    let pass = Pass::eval(&tape, &layer);
    let x = tape.constant(features(12, 1));
    let _ = layer.forward(&pass, x, neighbours.pattern(), None);
}
