//! ContraNorm in all its forms against loops from the formula; its derivatives, masks and refusals.

use super::x;
use emmy::autodiff::{check_grads, grad};
use emmy::graph::{Duplicates, Neighbourhood, SelfLoops};
use emmy::nn::contra::{After, Between, StepSize, Tau, Terms, UnitRows};
use emmy::nn::{ContraConfig, ContraNorm, GraphNet, GraphNetConfig, Module, Norm, Pass};
use emmy::ops::attention::Mask;
use emmy::{Graph, Tape, Tensor};

const S: f64 = 0.4;

/// All combinations of the options that change the value.
fn forms() -> Vec<ContraConfig> {
    let mut all = Vec::new();
    for terms in [Terms::Rows, Terms::Columns, Terms::Both, Terms::Products] {
        for rows in [UnitRows::Never, UnitRows::Compared, UnitRows::Summed] {
            for between in [Between::Rows, Between::Features] {
                for tau in [Tau::Both, Tau::Outside, Tau::Inside] {
                    let k = all.len();
                    let after = [
                        After::Nothing,
                        After::LayerNorm { eps: 0.1 },
                        After::UnitRows,
                    ][k % 3];
                    let step =
                        [StepSize::Fixed, StepSize::Learnt, StepSize::LearntExponent][k / 3 % 3];
                    all.push(ContraConfig {
                        terms,
                        rows,
                        between,
                        tau,
                        after,
                        step,
                        temperature: 0.7,
                        identity: k.is_multiple_of(2),
                        ..ContraConfig::stopped(S)
                    });
                }
            }
        }
    }
    all
}

/// y of rows h by loops; row i sees row j where `sees` holds.
fn expected(
    c: &ContraConfig,
    layer: &ContraNorm<f64>,
    h: &[Vec<f64>],
    sees: &dyn Fn(usize, usize) -> bool,
) -> Vec<Vec<f64>> {
    let (n, d) = (h.len(), h[0].len());
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
    let unit = |rows: &[Vec<f64>]| -> Vec<Vec<f64>> {
        let of = |r: &Vec<f64>| r.iter().map(|x| x / dot(r, r).sqrt()).collect();
        rows.iter().map(of).collect()
    };
    let (mut compared, mut summed) = (h.to_vec(), h.to_vec());
    if c.rows != UnitRows::Never {
        compared = unit(h);
    }
    if c.rows == UnitRows::Summed {
        summed = unit(h);
    }
    let (inside, outside) = match c.tau {
        Tau::Both => (c.temperature, c.temperature),
        Tau::Outside => (1.0, c.temperature),
        Tau::Inside => (c.temperature, 1.0),
    };
    // Rows are compared as they are, features as the rows of the transpose.
    let turned = |m: &[Vec<f64>]| -> Vec<Vec<f64>> {
        (0..m[0].len())
            .map(|k| m.iter().map(|r| r[k]).collect())
            .collect()
    };
    let (things, size) = match c.between {
        Between::Rows => (compared, n),
        Between::Features => (turned(&compared), d),
    };
    let a = |i: usize, j: usize| match sees(i, j) {
        true => (dot(&things[i], &things[j]) / inside).exp(),
        false => 0.0,
    };
    let degree = |i: usize| (0..size).map(|j| a(i, j)).sum::<f64>();
    let weight = |i: usize, j: usize| {
        if c.terms == Terms::Products {
            return dot(&things[i], &things[j]) / inside;
        }
        let by_rows = if degree(i) > 0.0 {
            a(i, j) / degree(i)
        } else {
            0.0
        };
        match c.terms {
            Terms::Rows => by_rows,
            Terms::Columns => a(i, j) / degree(j),
            Terms::Both | Terms::Products => by_rows + a(i, j) / degree(j),
        }
    };
    let mut out = h.to_vec();
    for i in 0..n {
        for k in 0..d {
            let sum: f64 = match c.between {
                Between::Rows => (0..n).map(|j| weight(i, j) * summed[j][k]).sum(),
                Between::Features => (0..d).map(|j| summed[i][j] * weight(j, k)).sum(),
            };
            let s = match (&layer.step, c.step) {
                (Some(s), StepSize::LearntExponent) => s[k].exp(),
                (Some(s), _) => s[k],
                (None, _) => c.scale,
            };
            let own = if c.identity { 1.0 + s } else { 1.0 };
            out[i][k] = own * h[i][k] - s / outside * sum;
        }
    }
    match c.after {
        After::Nothing => out,
        After::UnitRows => unit(&out),
        After::LayerNorm { eps } => {
            let norm = layer.norm.as_ref().expect("its norm");
            let (gain, bias) = (norm.gain.as_ref().unwrap(), norm.bias.as_ref().unwrap());
            let of = |r: Vec<f64>| {
                let mean = r.iter().sum::<f64>() / d as f64;
                let var = r.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / d as f64;
                let z = r.iter().map(|x| (x - mean) / (var + eps).sqrt());
                z.enumerate().map(|(k, z)| z * gain[k] + bias[k]).collect()
            };
            out.into_iter().map(of).collect()
        }
    }
}

/// A layer whose parameters are no longer those of its start.
fn trained(config: &ContraConfig, width: usize) -> ContraNorm<f64> {
    let mut layer = config.build::<f64>(width);
    for (k, p) in layer.tensors_mut().into_iter().enumerate() {
        *p = 0.5 * x(&[width], 30 + k as u64) + &*p;
    }
    layer
}

fn rows(x: &Tensor<f64>) -> Vec<Vec<f64>> {
    x.outer_iter()
        .map(|r| r.iter().copied().collect())
        .collect()
}

#[track_caller]
fn equal(found: &Tensor<f64>, expected: &[Vec<f64>], what: &dyn std::fmt::Debug) {
    for (row, expected) in found.outer_iter().zip(expected) {
        for (a, b) in row.iter().zip(expected) {
            assert!(
                (a - b).abs() <= 1e-12 * (1.0 + b.abs()),
                "{what:?}: {a} ≠ {b}"
            );
        }
    }
}

fn value(layer: &ContraNorm<f64>, h: &Tensor<f64>, mask: &Mask) -> Tensor<f64> {
    let tape = Tape::new();
    let pass = Pass::eval(&tape, layer);
    layer.masked(&pass, tape.constant(h), mask).value()
}

#[test]
fn every_form_is_its_formula() {
    let h = x(&[6, 4], 1);
    for config in forms() {
        let layer = trained(&config, 4);
        let y = value(&layer, &h, &Mask::none());
        equal(
            &y,
            &expected(&config, &layer, &rows(&h), &|_, _| true),
            &config,
        );
    }
}

/// A row of a batch is compared only with the rows of its own item.
#[test]
fn items_of_a_batch_are_apart() {
    let h = x(&[3, 5, 4], 2);
    for config in [
        ContraConfig::new(S),
        ContraConfig::full(S),
        ContraConfig::v2(S),
        ContraConfig::dimension(S),
    ] {
        let layer = config.build::<f64>(4);
        let all = value(&layer, &h, &Mask::none());
        for (item, y) in h.outer_iter().zip(all.outer_iter()) {
            let alone = value(&layer, &item.to_owned().into_shared(), &Mask::none());
            assert!((&alone - &y).iter().all(|d| d.abs() < 1e-14), "{config:?}");
        }
    }
}

#[test]
fn padding_takes_no_part() {
    let h = x(&[1, 5, 3], 3);
    let config = ContraConfig::new(S);
    let layer = config.build::<f64>(3);
    let y = value(&layer, &h, &Mask::lengths(&[3]));
    let y = y.index_axis(ndarray::Axis(0), 0).to_owned().into_shared();
    let h = h.index_axis(ndarray::Axis(0), 0).to_owned().into_shared();
    equal(
        &y,
        &expected(&config, &layer, &rows(&h), &|_, j| j < 3),
        &config,
    );
}

/// A star: all nodes are neighbours of the node in the middle.
#[test]
fn the_published_code_for_graphs_leaves_neighbours_out() {
    let edges: Vec<(u32, u32)> = (1..5).flat_map(|j| [(0, j), (j, 0)]).collect();
    let graph = Graph::new(5, &edges, Duplicates::Reject, SelfLoops::Reject).unwrap();
    let neighbours = Neighbourhood::<f64>::of(graph);
    let (h, config) = (x(&[5, 3], 4), ContraConfig::graph_code(S));
    let layer = trained(&config, 3);
    let tape = Tape::new();
    let pass = Pass::eval(&tape, &layer);
    let y = layer
        .on_graph(&pass, tape.constant(&h), &neighbours)
        .value();
    let apart = |i: usize, j: usize| i != j && i != 0 && j != 0;
    equal(&y, &expected(&config, &layer, &rows(&h), &apart), &config);

    let within = GraphNetConfig {
        layers: 3,
        norm: Some(Norm::Contra(config)),
        ..GraphNetConfig::gcn(3, 2)
    };
    let net = GraphNet::<f64>::new(within, 0).unwrap();
    let tape = Tape::new();
    let y = net.forward(&Pass::eval(&tape, &net), tape.constant(&h), &neighbours);
    assert!(y.value().iter().all(|y| y.is_finite()));
}

#[test]
fn first_and_second_derivatives_are_those_of_differences() {
    for config in forms().into_iter().step_by(5) {
        let layer = trained(&config, 3);
        let mut inputs = vec![x(&[4, 3], 5)];
        inputs.extend(layer.tensors().into_iter().cloned());
        check_grads(
            |args| {
                let pass = Pass::bound(args[0].tape(), &layer, &args[1..]);
                layer.forward(&pass, args[0])
            },
            &inputs,
        )
        .unwrap_or_else(|e| panic!("{config:?}: {e}"));
    }
}

/// With coefficients that are constants, y is linear in the rows: the derivative of ⟨c, y⟩ in direction h
/// is ⟨c, y⟩ itself.
#[test]
fn detached_coefficients_are_constants() {
    let h = x(&[5, 3], 6);
    let slope = |detached: bool| {
        let config = ContraConfig {
            detached,
            ..ContraConfig::regularized(S)
        };
        let layer = config.build::<f64>(3);
        let tape = Tape::new();
        let h = tape.var(&h);
        let loss =
            (layer.forward(&Pass::eval(&tape, &layer), h) * tape.constant(x(&[5, 3], 7))).sum_all();
        let gradient = grad(loss, &[h]).remove(0);
        (gradient * h.value()).sum() - loss.value().sum()
    };
    assert!(slope(true).abs() < 1e-14);
    assert!(slope(false).abs() > 1e-3);
}

/// A row that is 0 has no direction: it is compared as 0, and no derivative is lost.
#[test]
fn a_row_of_zeros_is_allowed() {
    for config in [ContraConfig::graph_code(S), ContraConfig::unit(S)] {
        let config = ContraConfig {
            without_neighbours: false,
            ..config
        };
        let layer = config.build::<f64>(3);
        let tape = Tape::new();
        let mut h = x(&[4, 3], 8);
        h.slice_mut(ndarray::s![1, ..]).fill(0.0);
        let h = tape.var(h);
        let y = layer.forward(&Pass::eval(&tape, &layer), h);
        let gradient = grad(y.square().sum_all(), &[h]).remove(0);
        assert!(
            gradient.iter().chain(&y.value()).all(|x| x.is_finite()),
            "{config:?}"
        );
    }
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let base = ContraConfig::new(S);
    let refused = |config: ContraConfig, part: &str| {
        let text = config.validate().unwrap_err().to_string();
        assert!(text.contains(part), "{text}");
    };
    refused(
        ContraConfig {
            scale: f64::NAN,
            ..base
        },
        "ContraNorm: s",
    );
    refused(
        ContraConfig {
            temperature: 0.0,
            ..base
        },
        "ContraNorm: temperature",
    );
    let exponent = ContraConfig {
        step: StepSize::LearntExponent,
        ..ContraConfig::new(0.0)
    };
    refused(exponent, "its logarithm is trained");
    let after = After::LayerNorm { eps: -1.0 };
    refused(ContraConfig { after, ..base }, "ContraNorm: eps");
    let graph = ContraConfig::graph_code(S);
    let between = Between::Features;
    refused(ContraConfig { between, ..graph }, "comparison of features");
    let terms = Terms::Both;
    refused(ContraConfig { terms, ..graph }, "sums by columns");
    let terms = Terms::Products;
    refused(
        ContraConfig { terms, ..graph },
        "products without a softmax",
    );
    graph.validate().unwrap();
}

#[test]
#[should_panic(expected = "it leaves neighbours out, so it needs their graph")]
fn neighbours_need_a_graph() {
    let layer = ContraConfig::graph_code(S).build::<f64>(3);
    let tape = Tape::new();
    layer.forward(&Pass::eval(&tape, &layer), tape.constant(x(&[4, 3], 1)));
}

#[test]
#[should_panic(expected = "features are compared, a mask has no meaning")]
fn features_take_no_mask() {
    value(
        &ContraConfig::v2(S).build(3),
        &x(&[1, 4, 3], 1),
        &Mask::lengths(&[2]),
    );
}

#[test]
#[should_panic(expected = "products are summed over all rows, a mask has no meaning")]
fn products_take_no_mask() {
    value(
        &ContraConfig::dimension(S).build(3),
        &x(&[1, 4, 3], 1),
        &Mask::lengths(&[2]),
    );
}

#[test]
fn a_learnt_step_starts_as_its_scale() {
    for (step, start) in [
        (StepSize::Learnt, 0.25),
        (StepSize::LearntExponent, 0.25_f64.ln()),
    ] {
        let config = ContraConfig {
            step,
            ..ContraConfig::new(0.25)
        };
        let layer = config.build::<f64>(3);
        assert_eq!(layer.step, Some(Tensor::from_elem(vec![3], start)));
    }
}
