//! Graph layers under changes of the graph that must not matter: isolated nodes, graphs side by side; and
//! fast paths compared with plain ones.

use crate::support::{INPUTS, features};
use emmy::autodiff::grad;
use emmy::graph::generators::random_graph;
use emmy::init;
use emmy::nn::{
    Activation, AttentionOptions, Conv, EndMaps, GatConv, Gatv2Conv, GcnConv, GraphNet,
    GraphNetConfig, Heads, Module, Norm, Pass, parameter_count,
};
use emmy::sparse::Csr;
use emmy::{Graph, Tape, Tensor};
use ndarray::{Array2, Axis, Ix2};

const CLASSES: usize = 3;

/// Every kind of network: layers, heads, biases, residuals, dropout off.
fn configs() -> Vec<GraphNetConfig> {
    let plain = GraphNetConfig {
        hidden: 4,
        layers: 3,
        dropout: 0.0,
        activation: Activation::Elu,
        ..GraphNetConfig::gcn(INPUTS, CLASSES)
    }
    .heads(2, 3)
    .attending(|a| a.dropout = 0.0);
    let mut all = Vec::new();
    for conv in [Conv::GCN, Conv::GAT, Conv::gatv2(true), Conv::gatv2(false)] {
        for (bias, residual, self_loops) in [
            (true, false, true),
            (false, true, true),
            (true, true, false),
        ] {
            all.push(
                GraphNetConfig {
                    self_loops,
                    ..plain
                }
                .of(conv)
                .attending(|a| a.residual = residual)
                .biased(bias),
            );
        }
    }
    all
}

/// Networks of the other kinds of layers, with maps at their ends, norms and residuals.
fn others() -> Vec<GraphNetConfig> {
    let kinds = [
        GraphNetConfig::sage(INPUTS, CLASSES),
        GraphNetConfig::sgc(INPUTS, CLASSES).depth(3),
        GraphNetConfig::gin(INPUTS, CLASSES),
        GraphNetConfig::gcnii(INPUTS, CLASSES).depth(4),
        GraphNetConfig::transformer(INPUTS, CLASSES).heads(3, 2),
        GraphNetConfig::ggnn(INPUTS, CLASSES).depth(3),
        GraphNetConfig {
            layers: 3,
            residual: Some(1),
            norm: Some(Norm::LAYER),
            ends: EndMaps::LINEAR,
            ..GraphNetConfig::transformer(INPUTS, CLASSES)
        },
    ];
    let quiet = |config: GraphNetConfig| GraphNetConfig {
        hidden: 4,
        dropout: 0.0,
        ..config.attention_dropout(0.0)
    };
    kinds.map(quiet).into()
}

/// All of them.
fn every() -> Vec<GraphNetConfig> {
    [configs(), others()].concat()
}

/// A network whose biases are not zero, so that a test notices them.
fn network(config: GraphNetConfig) -> GraphNet<f64> {
    let mut net = GraphNet::new(config, 3).unwrap();
    let rng = &mut init::rng(9);
    for parameter in net.tensors_mut() {
        if parameter.ndim() == 1 {
            *parameter = init::normal(parameter.shape(), 0.3, rng);
        }
    }
    net
}

fn logits(net: &GraphNet<f64>, graph: &Graph, x: &Tensor<f64>) -> Array2<f64> {
    let tape = Tape::new();
    let adjacency = net.config.neighbourhood(graph);
    let y = net.forward(
        &Pass::eval(&tape, net),
        tape.constant(x.clone()),
        &adjacency,
    );
    y.value().into_owned().into_dimensionality::<Ix2>().unwrap()
}

fn close(a: &Array2<f64>, b: &Array2<f64>, what: &str) {
    assert_eq!(a.dim(), b.dim(), "{what}");
    let worst = (a - b).fold(0.0_f64, |m, x| m.max(x.abs()));
    assert!(worst < 1e-12, "{what}: they differ by {worst}");
}

#[test]
fn graphs_side_by_side_do_not_change_each_others_outputs() {
    let (a, b) = (random_graph(12, 20, 1), random_graph(9, 14, 2));
    let (xa, xb) = (features(12, 3), features(9, 4));
    let both = ndarray::concatenate(Axis(0), &[xa.view(), xb.view()]).unwrap();
    for config in every() {
        let net = network(config);
        let y = logits(&net, &a.disjoint_union(&b), &both.clone().into_shared());
        let (ya, yb) = (logits(&net, &a, &xa), logits(&net, &b, &xb));
        let apart = ndarray::concatenate(Axis(0), &[ya.view(), yb.view()]).unwrap();
        close(&y, &apart, &format!("{config:?}"));
    }
}

#[test]
fn the_output_of_an_isolated_node_depends_on_itself_only() {
    let graph = random_graph(10, 15, 5);
    let loner = Graph::new(
        1,
        &[],
        emmy::graph::Duplicates::Reject,
        emmy::graph::SelfLoops::Reject,
    )
    .unwrap();
    let x = features(11, 6);
    for config in every() {
        let net = network(config);
        let y = logits(&net, &graph.disjoint_union(&loner), &x);
        let mut other = x.clone();
        other.slice_mut(ndarray::s![..10, ..]).fill(7.0);
        let z = logits(&net, &graph.disjoint_union(&loner), &other.into_dyn());
        assert_eq!(y.row(10), z.row(10), "{config:?}");
        assert!(y.iter().all(|y| y.is_finite()));
    }
}

#[test]
fn without_self_loops_and_neighbours_only_bias_and_residual_remain() {
    let loners = Graph::new(
        3,
        &[],
        emmy::graph::Duplicates::Reject,
        emmy::graph::SelfLoops::Reject,
    )
    .unwrap();
    for conv in [Conv::GCN, Conv::GAT, Conv::gatv2(false)] {
        let config = GraphNetConfig {
            layers: 1,
            dropout: 0.0,
            self_loops: false,
            ..GraphNetConfig::gcn(INPUTS, CLASSES)
        }
        .of(conv)
        .attending(|a| a.dropout = 0.0);
        let net = network(config);
        let y = logits(&net, &loners, &features(3, 1));
        let parameters = net.parameters();
        let bias = parameters
            .iter()
            .find(|p| p.name == "layers.0.bias")
            .unwrap();
        for row in y.rows() {
            assert_eq!(row.into_dyn(), bias.tensor.view(), "{conv:?}");
        }
    }
}

#[test]
fn sparse_features_give_what_dense_ones_give() {
    let graph = random_graph(20, 40, 7);
    let mut x = features(20, 8);
    x.mapv_inplace(|v| if v.abs() < 0.8 { 0.0 } else { v });
    let sparse = Csr::from_dense(&x);
    for config in every() {
        let net = network(config);
        let adjacency = config.neighbourhood(&graph);
        let run = |is_sparse: bool| {
            let tape = Tape::new();
            let pass = Pass::train(&tape, &net, 1);
            let y = if is_sparse {
                net.forward(&pass, tape.sparse(&sparse), &adjacency)
            } else {
                net.forward(&pass, tape.constant(x.clone()), &adjacency)
            };
            let loss = (y * y).sum_all();
            (y.value(), pass.gradients(loss))
        };
        let ((y, g), (z, h)) = (run(true), run(false));
        approx::assert_abs_diff_eq!(y, z, epsilon = 1e-12);
        for (k, (g, h)) in g.iter().zip(&h).enumerate() {
            let size = h.fold(1.0_f64, |m, x| m.max(x.abs()));
            approx::assert_abs_diff_eq!(g, h, epsilon = 1e-12 * size);
            let name = &net.parameters()[k].name;
            // Softmax does not change if one number is added to all scores.
            assert!(
                name.ends_with("key.bias") || h.iter().any(|x| *x != 0.0),
                "{config:?}: {name} has no gradient"
            );
        }
    }
}

#[test]
fn networks_without_features_densified() {
    let graph = random_graph(20, 40, 7);
    let x = Csr::from_dense(&features(20, 8));
    let net = network(GraphNetConfig::gat(INPUTS, CLASSES));
    let tape = Tape::new();
    net.forward(
        &Pass::train(&tape, &net, 1),
        tape.sparse(&x),
        &net.config.neighbourhood(&graph),
    );
    let operations = tape.operations();
    assert!(
        operations["spmm"] >= 1 && !operations.contains_key("index_add"),
        "{operations:?}"
    );
}

#[test]
fn every_layer_has_dropout_at_its_input_in_training_alone() {
    let graph = random_graph(12, 20, 1);
    let x = features(12, 2);
    let sparse = Csr::from_dense(&x);
    for (layers, is_sparse) in [(1, false), (2, false), (3, true)] {
        let config = GraphNetConfig {
            layers,
            ..GraphNetConfig::gcn(INPUTS, CLASSES)
        };
        let (net, adjacency) = (network(config), config.neighbourhood(&graph));
        let count = |training: bool| {
            let tape = Tape::new();
            let pass = if training {
                Pass::train(&tape, &net, 1)
            } else {
                Pass::eval(&tape, &net)
            };
            if is_sparse {
                net.forward(&pass, tape.sparse(&sparse), &adjacency);
            } else {
                net.forward(&pass, tape.constant(x.clone()), &adjacency);
            }
            tape.operations().get("dropout").copied().unwrap_or(0)
        };
        assert_eq!((count(true), count(false)), (layers, 0));
    }
}

#[test]
fn a_network_is_its_layers_with_the_activation_between_them() {
    let graph = random_graph(12, 20, 1);
    let x = features(12, 2);
    for config in configs() {
        let net = network(config);
        let adjacency = config.neighbourhood(&graph);
        let tape = Tape::new();
        let pass = Pass::eval(&tape, &net);
        let mut y = tape.constant(x.clone());
        for (l, layer) in net.layers.iter().enumerate() {
            let input = if l == 0 { y } else { y.elu(1.0) };
            y = layer.forward(&pass, input, &adjacency);
        }
        let found = net.forward(&pass, tape.constant(x.clone()), &adjacency);
        assert_eq!(found.value(), y.value(), "{config:?}");
    }
}

#[test]
fn the_configuration_reaches_the_layers_and_the_seed_decides_the_rest() {
    for conv in [Conv::GAT, Conv::gatv2(false)] {
        let config = GraphNetConfig::gat(INPUTS, CLASSES)
            .of(conv)
            .heads(8, 3)
            .attending(|a| {
                a.dropout = 0.4;
                a.residual = true;
                a.slope = 0.7;
            })
            .biased(false);
        let net = GraphNet::<f64>::new(config, 1).unwrap();
        for (l, layer) in net.layers.iter().enumerate() {
            let found = match layer.downcast_ref::<GatConv<f64>>() {
                Some(layer) => layer.options,
                None => layer.downcast_ref::<Gatv2Conv<f64>>().unwrap().options,
            };
            let expected = AttentionOptions {
                heads: [8, 3][l],
                join: [Heads::Concatenate, Heads::Average][l],
                bias: false,
                residual: true,
                slope: 0.7,
                dropout: 0.4,
                score_norm: None,
            };
            assert_eq!(found, expected);
        }
        let drawn = |seed| {
            let net = GraphNet::<f64>::new(config, seed).unwrap();
            let drawn = net.parameters().into_iter();
            drawn.map(|p| p.tensor.clone()).collect::<Vec<_>>()
        };
        assert_eq!(drawn(1), drawn(1));
        assert!(drawn(1).iter().zip(&drawn(2)).all(|(a, b)| a != b));
    }
}

#[test]
fn a_network_without_self_loops_ignores_those_of_the_graph() {
    let graph = random_graph(12, 20, 1);
    let looped = graph.with_self_loops();
    for self_loops in [true, false] {
        let config = GraphNetConfig {
            self_loops,
            ..GraphNetConfig::gcn(INPUTS, CLASSES)
        };
        let [a, b] = [&graph, &looped].map(|g| config.neighbourhood::<f64>(g));
        assert_eq!(a.symmetric_norm().to_dense(), b.symmetric_norm().to_dense());
        let own = |i: usize| a.pattern().find(i, i).is_some();
        assert!((0..12).all(|i| own(i) == self_loops));
    }
}

#[test]
fn gcn_takes_the_cheaper_order_of_products() {
    let graph = random_graph(12, 20, 1);
    let adjacency = graph.gcn_norm::<f64>();
    for (input, out, expected) in [(8, 2, ["linear", "spmm"]), (2, 8, ["spmm", "linear"])] {
        let layer = GcnConv::<f64>::new(input, out, false, &mut init::rng(1));
        let x: Tensor<f64> = init::normal(&[12, input], 1.0, &mut init::rng(2));
        let tape = Tape::new();
        let y = layer.forward(
            &Pass::eval(&tape, &layer),
            tape.constant(x.clone()),
            &adjacency,
        );
        let two = |t: &Tensor<f64>| t.clone().into_dimensionality::<Ix2>().unwrap().into_owned();
        let by_hand = two(&adjacency.to_dense().into_dyn())
            .dot(&two(&x))
            .dot(&two(&layer.weight).t());
        approx::assert_abs_diff_eq!(two(&y.value()), by_hand, epsilon = 1e-13);
        assert!(expected.iter().all(|op| tape.operations()[op] == 1));
        let last = format!("{y:?}");
        assert_eq!(last.split(' ').nth(2), Some(expected[1]), "{last}");
    }
}

#[test]
fn a_shared_parameter_collects_both_gradients() {
    // The same weight in two layers: its gradient is the sum over its two uses.
    let graph = random_graph(8, 12, 1);
    let adjacency = graph.gcn_norm::<f64>();
    let layer = GcnConv::<f64>::new(4, 4, true, &mut init::rng(1));
    let x: Tensor<f64> = init::normal(&[8, 4], 1.0, &mut init::rng(2));
    let tape = Tape::new();
    let pass = Pass::train(&tape, &layer, 0);
    let once = layer.forward(&pass, tape.constant(x.clone()), &adjacency);
    let twice = layer.forward(&pass, once, &adjacency);
    let shared = pass.gradients(twice.sum_all());

    let both = [layer.clone(), layer.clone()];
    let pass = Pass::train(&tape, &both, 0);
    let once = both[0].forward(&pass, tape.constant(x), &adjacency);
    let twice = both[1].forward(&pass, once, &adjacency);
    let apart =
        [&both[0], &both[1]].map(|l| grad(twice.sum_all(), &[pass.param(&l.weight)]).remove(0));
    approx::assert_abs_diff_eq!(
        shared[0],
        (&apart[0] + &apart[1]).into_shared(),
        epsilon = 1e-12
    );
}

#[test]
fn names_of_parameters_are_paths() {
    let config = GraphNetConfig::gatv2(INPUTS, CLASSES).attending(|a| a.residual = true);
    let net = GraphNet::<f32>::new(config, 0).unwrap();
    let names: Vec<String> = net.parameters().into_iter().map(|p| p.name).collect();
    let layer = [
        "source.weight",
        "source.bias",
        "target.weight",
        "target.bias",
        "att",
        "residual",
        "bias",
    ];
    let expected: Vec<String> = (0..2)
        .flat_map(|l| layer.map(|name| format!("layers.{l}.{name}")))
        .collect();
    assert_eq!(names, expected);
    let [d, h] = [INPUTS, 64];
    let first = 2 * (d * h + h) + h + d * h + h;
    let last = 2 * (h * CLASSES + CLASSES) + CLASSES + h * CLASSES + CLASSES;
    assert_eq!(parameter_count(&net), first + last);
}

#[test]
fn a_bad_configuration_is_an_error_that_names_the_field() {
    let good = GraphNetConfig::gat(INPUTS, CLASSES);
    for (bad, message) in [
        (GraphNetConfig { layers: 0, ..good }, "network: layers"),
        (good.heads(0, 1), "network: heads"),
        (
            GraphNetConfig {
                dropout: 1.5,
                ..good
            },
            "network: dropout",
        ),
        (
            GraphNetConfig {
                dropout: f64::NAN,
                ..good
            },
            "network: dropout",
        ),
        (
            good.attending(|a| a.slope = f64::INFINITY),
            "network: slope",
        ),
    ] {
        let error = GraphNet::<f32>::new(bad, 0).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}
