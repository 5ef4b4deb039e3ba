//! Values, derivatives, and properties of the formula.

use super::networks::*;
use approx::assert_abs_diff_eq;
use emmy::autodiff::check_grads;
use emmy::graph::Neighbourhood;
use emmy::graph::generators::random_graph;
use emmy::init;
use emmy::nn::{AttentionOptions, Gatv2Conv, Heads, Module, Pass, entries_mut};
use emmy::{Graph, Tape, Tensor};
use ndarray::{Array2, Axis};
use papers::layers::{Omega, OmegaConv};

/// z − ω (z − S z) by a loop over edges, from the scores of head h on the edge j → i; then the heads joined.
fn by_hand(
    graph: &Graph,
    z: &Array2<f64>,
    (options, omega): (AttentionOptions, &Tensor<f64>),
    score: impl Fn(usize, usize, usize) -> f64,
) -> Array2<f64> {
    let edges = || graph.edge_list().map(|(j, i)| (j as usize, i as usize));
    let width = z.ncols() / options.heads;
    let mut y = Array2::zeros(z.dim());
    for ((i, k), own) in z.indexed_iter() {
        let (h, c) = (k / width, k % width);
        let weight = |j: usize| score(h, j, i).exp();
        let into_i = || edges().filter(|&(_, to)| to == i).map(|(j, _)| j);
        let total: f64 = into_i().map(weight).sum();
        let mean: f64 = into_i().map(|j| weight(j) / total * z[[j, k]]).sum();
        let omega = match omega.len() {
            1 => omega[[0]],
            _ => omega[[h, c]],
        };
        y[[i, k]] = own - omega * (own - mean);
    }
    if options.join == Heads::Concatenate {
        return y;
    }
    let head = |h: usize| y.slice(ndarray::s![.., h * width..(h + 1) * width]);
    let sum = (1..options.heads).fold(head(0).to_owned(), |sum, h| sum + head(h));
    sum / options.heads as f64
}

fn leaky(x: f64) -> f64 {
    if x > 0.0 { x } else { 0.2 * x }
}

#[test]
fn a_layer_is_its_formula() {
    // Without self-loops, and some nodes without neighbours.
    let graph = random_graph(15, 8, 3);
    assert!((0..15).any(|i| graph.pattern().row(i).is_empty()));
    let x = features(15, 4);
    let two_x = two(&x);
    let c = 3;
    for (omega, heads, join) in [
        (Omega::Layer, 1, Heads::Concatenate),
        (Omega::Layer, 3, Heads::Average),
        (Omega::Channel, 3, Heads::Concatenate),
        (Omega::Channel, 2, Heads::Average),
    ] {
        let options = options(heads, join);
        let tape = Tape::new();
        let x = tape.constant(x.clone());
        for shared in [true, false] {
            let gat = Gatv2Conv::<f64>::new(INPUTS, c, shared, options, &mut init::rng(5));
            let mut net = OmegaConv::new(gat, omega);
            unsettle(&mut net, 6);
            let gat = &net.gat;
            let z = two_x.dot(&two(&gat.source.weight).t());
            let target = gat.target.as_ref().unwrap_or(&gat.source);
            let t = two_x.dot(&two(&target.weight).t());
            let expected = by_hand(&graph, &z, (options, &net.omega), |h, j, i| {
                let at = |k: usize| h * c + k;
                (0..c)
                    .map(|k| gat.att[[h, k]] * leaky(z[[j, at(k)]] + t[[i, at(k)]]))
                    .sum()
            });
            assert_eq!(expected.nrows(), graph.nodes());
            let pass = Pass::eval(&tape, &net);
            let found = net.forward(&pass, x, graph.pattern());
            assert_abs_diff_eq!(two(&found.value()), expected, epsilon = 1e-13);
        }
    }
}

#[test]
fn with_one_it_is_attention_and_with_zero_the_linear_map_to_the_bit() {
    let graph = random_graph(15, 30, 3).with_self_loops();
    let x = features(15, 4);
    for omega in OMEGAS {
        for shared in [true, false] {
            let options = AttentionOptions {
                heads: 2,
                residual: true,
                ..AttentionOptions::default()
            };
            let mut gat = Gatv2Conv::<f64>::new(INPUTS, 3, shared, options, &mut init::rng(5));
            gat.source.bias = Some(init::normal(&[6], 1.0, &mut init::rng(6)));
            let mut one = OmegaConv::new(gat, omega);
            assert!(
                one.omega.iter().all(|&w| w == 1.0),
                "a fresh layer has ω = 1"
            );
            let (tape, edges) = (Tape::new(), graph.pattern());
            let x = tape.constant(x.clone());
            let pass = Pass::eval(&tape, &one);
            assert_eq!(
                one.forward(&pass, x, edges).value(),
                one.gat.forward(&pass, x, edges).value()
            );

            one.omega.fill(0.0);
            let pass = Pass::eval(&tape, &one);
            let residual = x.linear(tape.constant(one.gat.residual.clone().unwrap()));
            assert_eq!(
                one.forward(&pass, x, edges).value(),
                (one.gat.source.forward(&pass, x) + residual).value()
            );
        }
    }
}

#[test]
fn there_are_as_many_omegas_as_configured() {
    for (net, omega) in networks().iter().zip(OMEGAS.iter().cycle()) {
        let shapes: Vec<Vec<usize>> = (net.parameters().into_iter())
            .filter(|p| p.name.ends_with("omega"))
            .map(|p| p.tensor.shape().to_vec())
            .collect();
        let expected = match omega {
            Omega::Layer => vec![vec![1]; 3],
            Omega::Channel => vec![vec![2, 4], vec![2, 4], vec![3, CLASSES]],
        };
        assert_eq!(shapes, expected);
    }
}

#[test]
fn first_and_second_derivatives_are_those_of_the_differences() {
    let graph = random_graph(7, 10, 3).with_self_loops();
    for mut net in networks() {
        // One layer of the three: its heads are averaged, its input is as wide as the hidden layers.
        let layer = net.layers.remove(2);
        let x: Tensor<f64> = init::normal(&[7, 8], 1.0, &mut init::rng(4));
        let neighbours = Neighbourhood::of(graph.clone());
        let mut args: Vec<Tensor<f64>> = layer.tensors().into_iter().cloned().collect();
        args.push(x);
        check_grads(
            |args| {
                let (&x, parameters) = args.split_last().unwrap();
                let pass = Pass::bound(x.tape(), &layer, parameters);
                layer.forward(&pass, x, &neighbours)
            },
            &args,
        )
        .unwrap_or_else(|e| panic!("{:?}: {e}", net.config));
    }
}

#[test]
fn renumbering_nodes_renumbers_outputs() {
    let graph = random_graph(30, 60, 1);
    let x = features(30, 2);
    let to: Vec<usize> = (0..30).map(|i| (i * 7 + 3) % 30).collect();
    let mut moved = x.clone();
    for (i, &k) in to.iter().enumerate() {
        let row = x.index_axis(Axis(0), i);
        moved.index_axis_mut(Axis(0), k).assign(&row);
    }
    for net in networks() {
        let y = logits(&net, &graph, &x);
        let z = logits(&net, &graph.permute(&to), &moved);
        assert_abs_diff_eq!(z.select(Axis(0), &to), y, epsilon = 1e-12);
    }
}

#[test]
fn constant_rows_stay_constant_for_every_omega() {
    // Rows of S_ω sum to one: if all nodes are equal, they stay equal, and the output is that of plain
    // attention.
    let graph = random_graph(15, 30, 3);
    let row = features(1, 2);
    let x = Tensor::from_shape_fn(vec![15, INPUTS], |at| row[[0, at[1]]]);
    for net in networks() {
        let mut plain = net.clone();
        for p in entries_mut(&mut plain) {
            if p.name.ends_with("omega") {
                p.tensor.fill(1.0);
            }
        }
        let expected = logits(&plain, &graph, &x);
        assert_abs_diff_eq!(logits(&net, &graph, &x), expected, epsilon = 1e-12);
    }
}
