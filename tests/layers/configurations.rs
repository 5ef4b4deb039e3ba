//! Configurations of graph networks: what they count, and what they refuse.

use emmy::graph::{Duplicates, SelfLoops};
use emmy::nn::{Conv, GraphNet, GraphNetConfig, Module, Pass, Role};
use emmy::{Graph, Tape, Tensor};

/// The entries of the weights of every kind of layer, counted from above and built.
#[test]
fn weights_are_counted_from_above() {
    let kinds = [
        GraphNetConfig::gcn(70, 3),
        GraphNetConfig::sage(70, 3),
        GraphNetConfig::gat(70, 3),
        GraphNetConfig::gatv2(70, 3),
        GraphNetConfig::gcn(70, 3).of(Conv::gatv2(true)),
        GraphNetConfig::sgc(70, 3),
        GraphNetConfig::gin(70, 3),
        GraphNetConfig::gcnii(70, 3).depth(4),
        GraphNetConfig::transformer(70, 3),
        GraphNetConfig::ggnn(70, 3).depth(5),
    ];
    for kind in kinds {
        for residual in [false, true] {
            let config = kind.attending(|options| options.residual = residual);
            let net = GraphNet::<f32>::new(config, 0).unwrap();
            let matrices = (net.parameters().into_iter())
                .filter(|entry| matches!(entry.role, Role::Weight | Role::Skip))
                .filter(|entry| entry.tensor.ndim() == 2);
            let built: usize = matrices.map(|entry| entry.tensor.len()).sum();
            let counted = config.weight_count();
            let built = built as f64;
            assert!(
                built <= counted && counted < 1.3 * built,
                "{config:?}: {built}, {counted}"
            );
        }
    }
}

/// A network of every kind.
const PRESETS: [fn(usize, usize) -> GraphNetConfig; 9] = [
    GraphNetConfig::gcn,
    GraphNetConfig::gat,
    GraphNetConfig::gatv2,
    GraphNetConfig::sage,
    GraphNetConfig::sgc,
    GraphNetConfig::gin,
    GraphNetConfig::gcnii,
    GraphNetConfig::transformer,
    GraphNetConfig::ggnn,
];

#[test]
fn without_dropout_a_training_pass_is_an_evaluation() {
    let graph = Graph::new(
        4,
        &[(0, 1), (1, 0), (1, 2), (2, 1), (3, 2)],
        Duplicates::Reject,
        SelfLoops::Reject,
    );
    let graph = graph.unwrap();
    let x = Tensor::from_shape_fn(vec![4, 5], |at| (at[0] * 5 + at[1]) as f64 * 0.1 - 1.0);
    for preset in PRESETS {
        let output = |config: GraphNetConfig, training: bool| {
            let net = GraphNet::<f64>::new(config, 0).unwrap();
            let tape = Tape::new();
            let pass = match training {
                true => Pass::train(&tape, &net, 1),
                false => Pass::eval(&tape, &net),
            };
            let neighbours = config.neighbourhood(&graph);
            net.forward(&pass, tape.constant(x.clone()), &neighbours)
                .value()
        };
        let config = preset(5, 3);
        assert_eq!(
            output(config.without_dropout(), true),
            output(config, false),
            "{config:?}"
        );
        let has_dropout = config.dropout > 0.0;
        assert_eq!(
            output(config, true) != output(config, false),
            has_dropout,
            "{config:?}"
        );
    }
}

/// Biases, heads and steps are set by one function for all kinds.
#[test]
fn what_kinds_have_in_common_reaches_their_layers() {
    for preset in PRESETS {
        let config = preset(5, 3);
        let biases = |config: GraphNetConfig| {
            let net = GraphNet::<f32>::new(config, 0).unwrap();
            let all = net.parameters().into_iter();
            all.filter(|entry| entry.role == Role::Bias).count()
        };
        // A gated unit keeps its biases.
        let kept = match config.conv {
            Conv::GatedGraph(_) => 2,
            _ => 0,
        };
        assert_eq!(biases(config.biased(false)), kept, "{config:?}");
        assert!(biases(config.biased(true)) > kept, "{config:?}");

        let attends = matches!(
            config.conv,
            Conv::Gat(_) | Conv::Gatv2(_) | Conv::Transformer(_)
        );
        let heads = config.heads(3, 2);
        let expected = if attends { [3, 2] } else { [1, 1] };
        assert_eq!([heads.conv.heads(), heads.last.heads()], expected);
        assert_eq!(heads.last.output(7), 7, "{config:?}");

        let propagates = matches!(config.conv, Conv::Sgc(_) | Conv::GatedGraph(_));
        let layers = if propagates { config.layers } else { 11 };
        let deep = config.depth(11);
        assert_eq!(deep.layers, layers, "{config:?}");
        assert_eq!(format!("{:?}", deep.conv).contains("steps: 11"), propagates);
    }
}

#[test]
fn sizes_beyond_all_bounds_are_refused_and_nothing_overflows() {
    let base = GraphNetConfig::gatv2(34, 2);
    let huge = [1_000_000_000, usize::MAX];
    for size in huge {
        for config in [
            GraphNetConfig {
                layers: size,
                ..base
            },
            GraphNetConfig {
                hidden: size,
                ..base
            },
            GraphNetConfig {
                inputs: size,
                ..base
            },
            GraphNetConfig {
                classes: size,
                ..base
            },
            base.heads(size, 1),
            base.heads(8, size),
            GraphNetConfig {
                layers: size,
                hidden: size,
                ..base
            }
            .heads(size, size),
        ] {
            let error = config.validate().unwrap_err().to_string();
            assert!(error.contains("expected at most"), "{error}");
            assert!(GraphNet::<f32>::new(config, 0).is_err());
        }
    }
    let most = GraphNetConfig {
        layers: 4096,
        hidden: 1,
        ..base
    };
    most.validate().unwrap();
    let more = GraphNetConfig {
        layers: 4097,
        ..most
    };
    let error = more.validate().unwrap_err().to_string();
    assert_eq!(error, "network: layers: expected at most 4096, found 4097");
}
