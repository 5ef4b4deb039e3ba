//! GraphSAGE with the mean: value, derivatives, laws, and its place in a network.

use approx::assert_abs_diff_eq;
use emmy::autodiff::check_grads;
use emmy::graph::Neighbourhood;
use emmy::graph::generators::random_graph;
use emmy::init::{self, Initialization};
use emmy::nn::{GraphNet, GraphNetConfig, Module, Pass, SageConv, Traced};
use emmy::symmetry::Symmetry;
use emmy::{Graph, Tape, Tensor};
use ndarray::Ix2;

fn layer(input: usize, out: usize, bias: bool) -> SageConv<f64> {
    let mut layer = SageConv::new(input, out, bias, &mut init::rng(1));
    if let Some(bias) = &mut layer.bias {
        *bias = init::normal(&[out], 1.0, &mut init::rng(2));
    }
    layer
}

/// Some nodes have no neighbours, some are their own neighbours.
fn graph() -> Graph {
    let graph = random_graph(12, 7, 3);
    assert!((0..12).any(|i| graph.sources(i).is_empty()));
    graph
}

#[test]
fn the_value_is_the_formula() {
    for graph in [graph(), graph().with_self_loops()] {
        let layer = layer(4, 3, true);
        let x: Tensor<f64> = init::normal(&[12, 4], 1.0, &mut init::rng(5));
        let tape = Tape::new();
        let neighbours = Neighbourhood::of(graph.clone());
        let pass = Pass::eval(&tape, &layer);
        let found = layer
            .forward(&pass, tape.constant(x.clone()), &neighbours)
            .value();
        let two = |t: &Tensor<f64>| t.clone().into_dimensionality::<Ix2>().unwrap().into_owned();
        let (x, w_n, w_r) = (two(&x), two(&layer.neighbours), two(&layer.root));
        for i in 0..12 {
            let sources = graph.sources(i);
            for k in 0..3 {
                let mean = |c: usize| {
                    let sum: f64 = sources.iter().map(|&j| x[[j as usize, c]]).sum();
                    sum / sources.len().max(1) as f64
                };
                let own: f64 = (0..4)
                    .map(|c| w_n[[k, c]] * mean(c) + w_r[[k, c]] * x[[i, c]])
                    .sum();
                let bias = layer.bias.as_ref().unwrap()[k];
                assert_abs_diff_eq!(found[[i, k]], own + bias, epsilon = 1e-13);
            }
        }
    }
}

#[test]
fn first_and_second_derivatives_are_those_of_the_differences() {
    let (layer, neighbours) = (layer(3, 2, true), Neighbourhood::of(graph()));
    let mut args: Vec<Tensor<f64>> = layer.tensors().into_iter().cloned().collect();
    args.push(init::normal(&[12, 3], 1.0, &mut init::rng(4)));
    check_grads(
        |args| {
            let (&x, parameters) = args.split_last().unwrap();
            let pass = Pass::bound(x.tape(), &layer, parameters);
            layer.forward(&pass, x, &neighbours)
        },
        &args,
    )
    .unwrap();
}

/// C1 with two weights on both sides, C2 without an activation, C20 for both weights and b.
#[test]
fn its_laws_hold() {
    use emmy::nn::Activation;
    for (activation, laws) in [
        (Activation::Relu, 2),
        (Activation::Identity, 4),
        (Activation::Elu, 0),
    ] {
        let config = GraphNetConfig {
            layers: 3,
            hidden: 5,
            dropout: 0.0,
            activation,
            ..GraphNetConfig::sage(4, 3)
        };
        for seed in 0..10 {
            let mut net = GraphNet::<f64>::new(config, seed).unwrap();
            let rng = &mut init::rng(seed + 100);
            for p in net.tensors_mut() {
                *p = init::normal(p.shape(), 0.6, rng);
            }
            let tape = Tape::new();
            let pass = Pass::train(&tape, &net, seed);
            let x = tape.constant(init::normal(&[12, 4], 1.0, rng));
            let labels: Vec<usize> = (0..12).map(|i| i % 3).collect();
            let loss = net.forward(&pass, x, &config.neighbourhood(&graph()));
            let gradients = pass.gradients(loss.cross_entropy(&labels, None));
            assert_eq!(net.laws().len(), laws);
            assert_eq!(net.softmax_laws().len(), 3);
            for law in net.laws().iter().chain(&net.softmax_laws()) {
                let worst = law.measure(&net.tensors(), &gradients).worst();
                assert!(worst < 1e-10, "{}: {worst}", law.name);
            }
        }
    }
}

#[test]
fn it_starts_balanced_when_asked() {
    let config = GraphNetConfig {
        layers: 4,
        hidden: 6,
        ..GraphNetConfig::sage(5, 3)
    };
    let mut net = GraphNet::<f64>::new(config, 0).unwrap();
    Initialization::BAL_O.apply(&mut net, 1).unwrap();
    let laws = net.laws();
    assert!(laws.iter().all(|law| law.symmetry == Symmetry::Rescaling));
    for law in laws {
        let c = law.balance(&net.tensors()).unwrap();
        assert!(c.iter().all(|c| c.abs() < 1e-12), "{}: {c:?}", law.name);
    }
}

#[test]
#[should_panic(expected = "SageConv: x has 3 rows, the graph has 12 nodes")]
fn features_of_another_graph_are_refused() {
    let layer = layer(4, 3, true);
    let tape = Tape::new();
    let pass = Pass::eval(&tape, &layer);
    let x = tape.constant(init::zeros(&[3, 4]));
    let _ = layer.forward(&pass, x, &Neighbourhood::of(graph()));
}
