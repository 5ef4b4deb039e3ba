//! Values, derivatives, and properties of the formula.

use super::networks::*;
use crate::support::{INPUTS, features};
use approx::assert_abs_diff_eq;
use emmy::autodiff::check_grads;
use emmy::graph::Neighbourhood;
use emmy::graph::generators::random_graph;
use emmy::init;
use emmy::nn::{AttentionOptions, GatConv, Gatv2Conv, Heads, Module, Omega, Pass, entries_mut};
use emmy::{Graph, Tape, Tensor};
use ndarray::{Array2, Axis};

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
        let omega = match options.omega.unwrap() {
            Omega::Layer => omega[[0]],
            Omega::Channel => omega[[h, c]],
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
    let (n, c) = (graph.nodes(), 3);
    for (omega, heads, join) in [
        (Omega::Layer, 1, Heads::Concatenate),
        (Omega::Layer, 3, Heads::Average),
        (Omega::Channel, 3, Heads::Concatenate),
        (Omega::Channel, 2, Heads::Average),
    ] {
        let options = options(omega, heads, join);
        let tape = Tape::new();
        let x = tape.constant(x.clone());
        let check = |found: [emmy::Var<'_, f64>; 2], expected: Array2<f64>| {
            for found in found {
                assert_abs_diff_eq!(two(&found.value()), expected, epsilon = 1e-13);
            }
        };

        let mut gat = GatConv::<f64>::new(INPUTS, c, options, &mut init::rng(5));
        unsettle(&mut gat, 6);
        let z = two_x.dot(&two(&gat.weight).t());
        let part = |a: &Tensor<f64>, h: usize, i: usize| -> f64 {
            (0..c).map(|k| a[[h, k]] * z[[i, h * c + k]]).sum()
        };
        let expected = by_hand(
            &graph,
            &z,
            (options, gat.omega.as_ref().unwrap()),
            |h, j, i| leaky(part(&gat.att_source, h, j) + part(&gat.att_target, h, i)),
        );
        assert_eq!(expected.nrows(), n);
        let pass = Pass::eval(&tape, &gat);
        let plain = gat.forward(&pass, x, graph.pattern());
        let (explained, _) = gat.forward_with_attention(&pass, x, graph.pattern());
        check([plain, explained], expected);

        for shared in [true, false] {
            let mut net = Gatv2Conv::<f64>::new(INPUTS, c, shared, options, &mut init::rng(5));
            unsettle(&mut net, 6);
            let z = two_x.dot(&two(&net.source.weight).t());
            let target = net.target.as_ref().unwrap_or(&net.source);
            let t = two_x.dot(&two(&target.weight).t());
            let expected = by_hand(
                &graph,
                &z,
                (options, net.omega.as_ref().unwrap()),
                |h, j, i| {
                    let at = |k: usize| h * c + k;
                    (0..c)
                        .map(|k| net.att[[h, k]] * leaky(z[[j, at(k)]] + t[[i, at(k)]]))
                        .sum()
                },
            );
            let pass = Pass::eval(&tape, &net);
            let plain = net.forward(&pass, x, graph.pattern());
            let (explained, _) = net.forward_with_attention(&pass, x, graph.pattern());
            check([plain, explained], expected);
        }
    }
}

#[test]
fn with_one_it_is_attention_and_with_zero_the_linear_map_to_the_bit() {
    let graph = random_graph(15, 30, 3).with_self_loops();
    let x = features(15, 4);
    let made = |omega: Option<Omega>, shared: bool, value: f64| {
        let options = AttentionOptions {
            heads: 2,
            residual: true,
            omega,
            ..AttentionOptions::default()
        };
        let rng = || init::rng(5);
        let mut gat = GatConv::<f64>::new(INPUTS, 3, options, &mut rng());
        let mut gatv2 = Gatv2Conv::<f64>::new(INPUTS, 3, shared, options, &mut rng());
        gatv2.source.bias = Some(init::normal(&[6], 1.0, &mut init::rng(6)));
        for omega in [&mut gat.omega, &mut gatv2.omega].into_iter().flatten() {
            assert!(omega.iter().all(|&w| w == 1.0), "a fresh layer has ω = 1");
            omega.fill(value);
        }
        (gat, gatv2)
    };
    for omega in OMEGAS {
        for shared in [true, false] {
            let tape = Tape::new();
            let (x, edges) = (tape.constant(x.clone()), graph.pattern());
            let both = (made(Some(omega), shared, 1.0), made(None, shared, 1.0));
            let (pass, (one, none)) = (Pass::eval(&tape, &both), &both);
            assert_eq!(
                one.0.forward(&pass, x, edges).value(),
                none.0.forward(&pass, x, edges).value()
            );
            assert_eq!(
                one.1.forward(&pass, x, edges).value(),
                none.1.forward(&pass, x, edges).value()
            );

            let both = made(Some(omega), shared, 0.0);
            let (pass, (gat, gatv2)) = (Pass::eval(&tape, &both), &both);
            let map = |w: &Tensor<f64>| x.linear(tape.constant(w.clone()));
            assert_eq!(
                gat.forward(&pass, x, edges).value(),
                (map(&gat.weight) + map(gat.residual.as_ref().unwrap())).value()
            );
            assert_eq!(
                gatv2.forward(&pass, x, edges).value(),
                (gatv2.source.forward(&pass, x) + map(gatv2.residual.as_ref().unwrap())).value()
            );
        }
    }
}

#[test]
fn there_are_as_many_omegas_as_configured() {
    for net in networks() {
        let shapes: Vec<Vec<usize>> = (net.parameters().into_iter())
            .filter(|p| p.name.ends_with("omega"))
            .map(|p| p.tensor.shape().to_vec())
            .collect();
        let expected = match net.config.conv.attention().unwrap().omega.unwrap() {
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
