//! The order in which a network composes its parts, its depth, and the text that describes it.

use crate::support::{INPUTS, features};
use emmy::graph::generators::random_graph;
use emmy::nn::{
    Activation, Conv, EndMaps, GcniiConv, GraphContext, GraphNet, GraphNetConfig, Module, Norm,
    Pass,
};
use emmy::{Tape, Var, init};

const NODES: usize = 12;
const CLASSES: usize = 3;

/// All parts at once: the order is dropout → layer → norm → σ → residual, as it is documented.
#[test]
fn a_network_is_its_parts_in_the_documented_order() {
    let graph = random_graph(NODES, 20, 1);
    let base = GraphNetConfig {
        hidden: 4,
        layers: 5,
        dropout: 0.0,
        activation: Activation::Tanh,
        ..GraphNetConfig::gcn(INPUTS, CLASSES)
    };
    for ends in [
        EndMaps::NONE,
        EndMaps::LINEAR,
        EndMaps::ACTIVATED,
        EndMaps::OUTPUT,
    ] {
        for norm in [None, Some(Norm::LAYER), Some(Norm::PAIR)] {
            for period in [None, Some(1), Some(2)] {
                let config = GraphNetConfig {
                    ends,
                    norm,
                    residual: period,
                    ..base
                };
                let mut net = GraphNet::<f64>::new(config, 3).unwrap();
                let rng = &mut init::rng(9);
                for p in net.tensors_mut() {
                    *p = init::normal(p.shape(), 0.7, rng);
                }
                let neighbours = config.neighbourhood(&graph);
                let tape = Tape::new();
                let pass = Pass::eval(&tape, &net);
                let x = tape.constant(features(NODES, 2));
                let y = by_hand(&net, &pass, x, &neighbours);
                let found = net.forward(&pass, x, &neighbours);
                assert_eq!(found.value(), y.value(), "{config:?}");
                let hidden = if ends.output { 5 } else { 4 };
                assert_eq!(net.norms.len(), if norm.is_some() { hidden } else { 0 });
            }
        }
    }
}

fn by_hand<'t>(
    net: &GraphNet<f64>,
    pass: &Pass<'t, '_, f64>,
    x: Var<'t, f64>,
    neighbours: &emmy::graph::Neighbourhood<f64>,
) -> Var<'t, f64> {
    let config = &net.config;
    // The representations of hidden width, and the places in this list to which x_old points.
    let mut stream = Vec::new();
    let mut x = x;
    if let Some(map) = &net.input {
        x = map.forward(pass, x);
        if config.ends.activated {
            x = x.tanh();
        }
        stream.push(x);
    }
    let last = net.output.is_none();
    for (l, layer) in net.layers.iter().enumerate() {
        x = layer.forward(pass, x, neighbours);
        if last && l + 1 == net.layers.len() {
            return x;
        }
        if let Some(norm) = net.norms.get(l) {
            x = norm.forward(pass, x);
        }
        x = x.tanh();
        if let Some(r) = config.residual
            && stream.len() >= r
            && stream.len().is_multiple_of(r)
        {
            x = x + stream[stream.len() - r];
        }
        stream.push(x);
    }
    net.output.as_ref().expect("a map").forward(pass, x)
}

#[test]
fn dropout_stands_before_every_layer_and_map() {
    let graph = random_graph(NODES, 20, 1);
    for (config, expected) in [
        (GraphNetConfig::gcnii(INPUTS, CLASSES).depth(3), 1 + 3 + 1),
        (GraphNetConfig::gin(INPUTS, CLASSES), 2 + 1),
        (GraphNetConfig::ggnn(INPUTS, CLASSES), 1 + 1 + 1),
        (GraphNetConfig::sgc(INPUTS, CLASSES), 0),
        // That of the coefficients is a part of each attention.
        (GraphNetConfig::transformer(INPUTS, CLASSES), 2),
    ] {
        let net = GraphNet::<f64>::new(config, 0).unwrap();
        let count = |input_dropout: bool| {
            let mut net = net.clone();
            net.config.input_dropout = input_dropout;
            let tape = Tape::new();
            let x = tape.constant(features(NODES, 2));
            let pass = Pass::train(&tape, &net, 1);
            net.forward(&pass, x, &config.neighbourhood(&graph));
            tape.operations().get("dropout").copied().unwrap_or(0)
        };
        let less = usize::from(expected > 0);
        assert_eq!(
            (count(true), count(false)),
            (expected, expected - less),
            "{config:?}"
        );
    }
}

/// β falls with the number of a layer, and x₀ reaches every layer.
#[test]
fn layers_of_gcnii_know_their_numbers_and_the_first_representation() {
    let config = GraphNetConfig::gcnii(INPUTS, CLASSES).depth(4);
    let net = GraphNet::<f64>::new(config, 0).unwrap();
    let numbers: Vec<usize> = (net.layers.iter())
        .map(|layer| layer.downcast_ref::<GcniiConv<f64>>().unwrap().layer)
        .collect();
    assert_eq!(numbers, [1, 2, 3, 4]);
    let neighbours = config.neighbourhood(&random_graph(NODES, 20, 1));
    let tape = Tape::new();
    let pass = Pass::eval(&tape, &net);
    let [x, a, b] =
        [1, 2, 3].map(|seed| tape.constant(init::normal(&[NODES, 64], 1.0, &mut init::rng(seed))));
    let of = |first| {
        let context = GraphContext {
            neighbours: &neighbours,
            first: Some(first),
        };
        net.layers[3].forward(&pass, x, context).value()
    };
    assert_ne!(of(a), of(b));
}

#[test]
fn depth_is_layers_or_steps() {
    for (config, layers, steps) in [
        (GraphNetConfig::gin(INPUTS, CLASSES).depth(5), 5, None),
        (GraphNetConfig::sgc(INPUTS, CLASSES).depth(5), 1, Some(5)),
        (GraphNetConfig::ggnn(INPUTS, CLASSES).depth(3), 1, Some(3)),
    ] {
        assert_eq!(config.layers, layers);
        let found = match config.conv {
            Conv::Sgc(options) => Some(options.steps),
            Conv::GatedGraph(options) => Some(options.steps),
            _ => None,
        };
        assert_eq!(found, steps);
        GraphNet::<f32>::new(config, 0).unwrap();
    }
}

/// A configuration is the saved form of a network, in JSON too.
#[test]
fn a_configuration_is_read_back_as_it_was_written() {
    let norm = GraphNetConfig {
        norm: Some(Norm::LAYER),
        residual: Some(2),
        ..GraphNetConfig::gatv2(INPUTS, CLASSES)
    };
    for config in [
        norm,
        GraphNetConfig::gcnii(INPUTS, CLASSES),
        GraphNetConfig::ggnn(INPUTS, CLASSES),
    ] {
        let text = serde_json::to_string(&config).unwrap();
        assert_eq!(
            serde_json::from_str::<GraphNetConfig>(&text).unwrap(),
            config,
            "{text}"
        );
    }
}
