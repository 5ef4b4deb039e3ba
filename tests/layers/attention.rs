//! Attention layers: comparison with their formula, forward passes with and without returned
//! coefficients, heads, dropout.

use crate::support::{INPUTS, features};
use emmy::graph::generators::random_graph;
use emmy::init;
use emmy::nn::{AttentionOptions, GatConv, Gatv2Conv, Heads, Pass};
use emmy::{Graph, Tape, Tensor};
use ndarray::{Array2, Ix2};

/// Attention by loops over edges, from the formula.
fn attention_by_hand(
    net: &Gatv2Conv<f64>,
    graph: &Graph,
    x: &Array2<f64>,
) -> (Array2<f64>, Vec<f64>) {
    let two = |t: &Tensor<f64>| t.clone().into_dimensionality::<Ix2>().unwrap().into_owned();
    let (a, source) = (two(&net.att), x.dot(&two(&net.source.weight).t()));
    let target = match &net.target {
        Some(map) => x.dot(&two(&map.weight).t()),
        None => source.clone(),
    };
    let ((heads, width), slope) = (a.dim(), net.options.slope);
    let mut y = Array2::zeros((graph.nodes(), heads * width));
    let mut coefficients = vec![0.0; graph.edges() * heads];
    let edges: Vec<(u32, u32)> = graph.edge_list().collect();
    for h in 0..heads {
        let score = |&(j, i): &(u32, u32)| -> f64 {
            (0..width)
                .map(|c| {
                    let t: f64 =
                        source[[j as usize, h * width + c]] + target[[i as usize, h * width + c]];
                    a[[h, c]] * if t > 0.0 { t } else { slope * t }
                })
                .sum::<f64>()
                .exp()
        };
        for (e, edge) in edges.iter().enumerate() {
            let same_target = edges.iter().filter(|other| other.1 == edge.1);
            let alpha = score(edge) / same_target.map(score).sum::<f64>();
            coefficients[e * heads + h] = alpha;
            for c in h * width..(h + 1) * width {
                y[[edge.1 as usize, c]] += alpha * source[[edge.0 as usize, c]];
            }
        }
    }
    (y, coefficients)
}

#[test]
fn gatv2_is_its_formula() {
    let graph = random_graph(15, 30, 3).with_self_loops();
    let x = features(15, 4);
    for (shared, slope) in [(true, 0.2), (false, 0.7)] {
        let options = AttentionOptions {
            heads: 2,
            bias: false,
            slope,
            ..AttentionOptions::default()
        };
        let layer = Gatv2Conv::<f64>::new(INPUTS, 3, shared, options, &mut init::rng(5));
        let (y, alpha) = attention_by_hand(
            &layer,
            &graph,
            &x.clone().into_dimensionality().unwrap().to_owned(),
        );
        let tape = Tape::new();
        let pass = Pass::eval(&tape, &layer);
        let fused = layer.forward(&pass, tape.constant(x.clone()), graph.pattern());
        let (composed, coefficients) =
            layer.forward_with_attention(&pass, tape.constant(x.clone()), graph.pattern());
        for found in [fused, composed] {
            approx::assert_abs_diff_eq!(
                found.value(),
                y.clone().into_dyn().into_shared(),
                epsilon = 1e-13
            );
        }
        let found = coefficients.values.value();
        assert_eq!(found.shape(), [graph.edges(), 2]);
        for (found, alpha) in found.iter().zip(alpha) {
            approx::assert_abs_diff_eq!(*found, alpha, epsilon = 1e-14);
        }
        let sums = coefficients.row_sums().value();
        assert!(sums.iter().all(|s| (s - 1.0).abs() < 1e-14));
    }
}

#[test]
fn attention_on_request_changes_nothing_in_training_either() {
    let graph = random_graph(15, 30, 3).with_self_loops();
    let x = features(15, 4);
    for join in [Heads::Concatenate, Heads::Average] {
        let options = AttentionOptions {
            heads: 2,
            join,
            residual: true,
            dropout: 0.5,
            ..AttentionOptions::default()
        };
        let layer = GatConv::<f64>::new(INPUTS, 3, options, &mut init::rng(5));
        let run = |with_attention: bool| {
            let tape = Tape::new();
            let pass = Pass::train(&tape, &layer, 11);
            let x = tape.constant(x.clone());
            let y = if with_attention {
                layer.forward_with_attention(&pass, x, graph.pattern()).0
            } else {
                layer.forward(&pass, x, graph.pattern())
            };
            assert!(pass.was_random());
            (y.value(), pass.gradients((y * y).sum_all()))
        };
        let ((y, g), (z, h)) = (run(true), run(false));
        approx::assert_abs_diff_eq!(y, z, epsilon = 1e-13);
        for (g, h) in g.iter().zip(&h) {
            approx::assert_abs_diff_eq!(g, h, epsilon = 1e-11);
        }
    }
}

#[test]
fn averaged_heads_are_the_mean_of_heads_side_by_side() {
    let graph = random_graph(15, 30, 3).with_self_loops();
    let (heads, width) = (3, 4);
    let options = |join| AttentionOptions {
        heads,
        join,
        bias: false,
        ..AttentionOptions::default()
    };
    let rng = || init::rng(5);
    let tape = Tape::new();
    let x = tape.constant(features(15, 4));
    let [joined, mean] = [Heads::Concatenate, Heads::Average].map(|join| {
        let gat = GatConv::<f64>::new(INPUTS, width, options(join), &mut rng());
        let gatv2 = Gatv2Conv::<f64>::new(INPUTS, width, false, options(join), &mut rng());
        let both = (gat, gatv2);
        let pass = Pass::eval(&tape, &both);
        [
            both.0.forward(&pass, x, graph.pattern()),
            both.1.forward(&pass, x, graph.pattern()),
        ]
    });
    for (joined, mean) in joined.iter().zip(mean) {
        let (joined, mean) = (joined.value(), mean.value());
        assert_eq!(mean.shape(), [15, width]);
        for ((i, c), found) in mean.into_dimensionality::<Ix2>().unwrap().indexed_iter() {
            let sum: f64 = (0..heads).map(|h| joined[[i, h * width + c]]).sum();
            approx::assert_abs_diff_eq!(*found, sum / heads as f64, epsilon = 1e-14);
        }
    }
}

#[test]
fn attention_dropout_acts_in_training_alone() {
    let graph = random_graph(15, 30, 3).with_self_loops();
    let x = features(15, 4);
    let run = |dropout: f64, training: bool| {
        let options = AttentionOptions {
            dropout,
            ..AttentionOptions::default()
        };
        let gat = GatConv::<f64>::new(INPUTS, 3, options, &mut init::rng(5));
        let gatv2 = Gatv2Conv::<f64>::new(INPUTS, 3, false, options, &mut init::rng(5));
        let (tape, both) = (Tape::new(), (gat, gatv2));
        let pass = if training {
            Pass::train(&tape, &both, 1)
        } else {
            Pass::eval(&tape, &both)
        };
        let x = tape.constant(x.clone());
        [
            both.0.forward(&pass, x, graph.pattern()).value(),
            both.1.forward(&pass, x, graph.pattern()).value(),
        ]
    };
    let plain = run(0.0, false);
    assert_eq!(run(0.0, true), plain);
    assert_eq!(run(0.5, false), plain);
    let dropped = run(0.5, true);
    assert!(dropped.iter().zip(&plain).all(|(a, b)| a != b));
    // If every coefficient is dropped, only the bias remains, which starts at zero.
    assert!(run(1.0, true).iter().flatten().all(|y| *y == 0.0));
}
