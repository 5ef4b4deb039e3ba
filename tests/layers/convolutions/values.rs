//! Values by formulas and in limits: features propagated once, GIN-0, α and θ of GCNII, α of the transformer.

use crate::support::{INPUTS, features};
use approx::assert_abs_diff_eq;
use emmy::graph::Neighbourhood;
use emmy::graph::generators::random_graph;
use emmy::nn::{
    GcnConv, GcniiConv, GcniiOptions, GinConv, GinOptions, Linear, Module, Pass, SgcConv,
    SgcOptions, TransformerConv, TransformerOptions,
};
use emmy::sparse::Csr;
use emmy::{Graph, Tape, Tensor, init};

const NODES: usize = 12;

fn graph() -> Graph {
    let graph = random_graph(NODES, 7, 3);
    assert!((0..NODES).any(|i| graph.sources(i).is_empty()));
    graph
}

/// Every parameter drawn, so that biases and ε are not zero.
fn drawn<M: Module<f64>>(mut layer: M) -> M {
    let rng = &mut init::rng(5);
    for p in layer.tensors_mut() {
        *p = init::normal(p.shape(), 0.7, rng);
    }
    layer
}

#[test]
fn features_that_do_not_change_are_propagated_once() {
    let adjacency = graph().gcn_norm();
    let x = features(NODES, 1);
    // Fewer and more neurons than features: both orders of the products.
    for (out, steps) in [(2, 3), (8, 2), (2, 0)] {
        let options = SgcOptions { steps, bias: true };
        let layer = drawn(SgcConv::<f64>::new(INPUTS, out, options, &mut init::rng(1)));
        let tape = Tape::new();
        let pass = Pass::eval(&tape, &layer);
        let each = layer.forward(&pass, tape.constant(x.clone()), &adjacency);
        let sparse = layer.forward(&pass, tape.sparse(&Csr::from_dense(&x)), &adjacency);
        let map = Linear {
            weight: layer.weight.clone(),
            bias: layer.bias.clone(),
        };
        let once = tape.constant(layer.propagate(&x, &adjacency));
        let once = map.forward(&Pass::eval(&tape, &map), once);
        assert_abs_diff_eq!(each.value(), once.value(), epsilon = 1e-13);
        assert_abs_diff_eq!(each.value(), sparse.value(), epsilon = 1e-13);
    }
}

#[test]
fn gin_sums_on_the_narrower_side() {
    let neighbours = Neighbourhood::of(graph());
    let x = features(NODES, 2);
    for (out, first) in [(2, "linear"), (8, "spmm")] {
        let options = GinOptions {
            eps: true,
            bias: true,
        };
        let layer = drawn(GinConv::<f64>::new(INPUTS, out, options, &mut init::rng(1)));
        let tape = Tape::new();
        let pass = Pass::eval(&tape, &layer);
        let dense = layer.forward(&pass, tape.constant(x.clone()), &neighbours);
        let sparse = layer.forward(&pass, tape.sparse(&Csr::from_dense(&x)), &neighbours);
        assert_abs_diff_eq!(dense.value(), sparse.value(), epsilon = 1e-12);
        let own = tape.operations();
        assert!(own[first] >= 1, "{own:?}");
        // ε = 0 is GIN-0.
        let mut zero = layer.clone();
        zero.eps = Some(init::zeros(&[1]));
        let fixed = GinConv {
            eps: None,
            ..zero.clone()
        };
        let value = |layer: &GinConv<f64>| {
            let tape = Tape::new();
            let pass = Pass::eval(&tape, layer);
            layer
                .forward(&pass, tape.constant(x.clone()), &neighbours)
                .value()
        };
        assert_eq!(value(&zero), value(&fixed));
        assert_ne!(value(&layer), value(&fixed));
    }
}

#[test]
fn gcnii_is_graph_convolution_and_x0_at_the_ends_of_its_options() {
    let adjacency = graph().gcn_norm();
    let [x, x0] = [3, 4].map(|seed| features(NODES, seed));
    let value = |alpha: f64, theta: f64, number: usize| {
        let options = GcniiOptions {
            alpha,
            theta,
            shared: true,
        };
        let layer = GcniiConv::new(INPUTS, number, options, &mut init::rng(1));
        let tape = Tape::new();
        let pass = Pass::eval(&tape, &layer);
        let [x, x0] = [&x, &x0].map(|x| tape.constant(x.clone()));
        let y = layer.forward(&pass, x, x0, &adjacency).value();
        (y, layer)
    };
    // β = ln(e − 1 + 1) = 1: a graph convolution.
    let (y, layer) = value(0.0, std::f64::consts::E - 1.0, 1);
    assert!((layer.beta() - 1.0).abs() < 1e-15);
    let gcn = GcnConv {
        weight: layer.map.weight.clone(),
        bias: None,
    };
    let tape = Tape::new();
    let pass = Pass::eval(&tape, &gcn);
    let expected = gcn.forward(&pass, tape.constant(x.clone()), &adjacency);
    assert_abs_diff_eq!(y, expected.value(), epsilon = 1e-13);
    // Far from the input the weight is near the identity, and α = 1 leaves x₀ alone.
    let (y, _) = value(1.0, 0.5, 1_000_000_000);
    assert_abs_diff_eq!(y, x0, epsilon = 1e-8);
}

#[test]
fn coefficients_of_the_transformer_sum_to_one_and_give_its_output() {
    let neighbours = Neighbourhood::<f64>::of(graph());
    let edges = neighbours.pattern();
    let options = TransformerOptions {
        heads: 3,
        gate: true,
        ..TransformerOptions::DEFAULT
    };
    let layer = TransformerConv::<f64>::new(INPUTS, 2, Some(2), options, &mut init::rng(1));
    let layer = drawn(layer);
    let tape = Tape::new();
    let pass = Pass::eval(&tape, &layer);
    let x = tape.constant(features(NODES, 5));
    let e = tape.constant(init::normal(&[edges.nnz(), 2], 1.0, &mut init::rng(6)));
    let y = layer.forward(&pass, x, edges, Some(e));
    let (z, alpha) = layer.forward_with_attention(&pass, x, edges, Some(e));
    assert_eq!(y.value(), z.value());
    let sums = alpha.row_sums().value();
    for i in 0..NODES {
        let expected = f64::from(!edges.row(i).is_empty());
        for h in 0..3 {
            assert_abs_diff_eq!(sums[[i, h]], expected, epsilon = 1e-14);
        }
    }
    // Without features of edges the attention is one operation, and needs no tensor of edges and widths.
    let plain = TransformerConv::<f64>::new(INPUTS, 2, None, options, &mut init::rng(1));
    let tape = Tape::new();
    let pass = Pass::train(&tape, &plain, 0);
    let y = plain.forward(&pass, tape.constant(features(NODES, 5)), edges, None);
    pass.gradients(y.sum_all());
    let operations = tape.operations();
    assert!(!operations.contains_key("gather_rows") && operations["scaled_product"] == 1);
}

/// With dropout of coefficients a training pass differs from an evaluation, by its seed.
#[test]
fn coefficients_of_the_transformer_are_dropped_in_training() {
    let neighbours = Neighbourhood::<f64>::of(random_graph(NODES, 40, 1));
    let options = TransformerOptions {
        dropout: 0.5,
        ..TransformerOptions::DEFAULT
    };
    let layer = TransformerConv::<f64>::new(INPUTS, 2, None, options, &mut init::rng(1));
    let value = |seed: Option<u64>| -> Tensor<f64> {
        let tape = Tape::new();
        let pass = match seed {
            Some(seed) => Pass::train(&tape, &layer, seed),
            None => Pass::eval(&tape, &layer),
        };
        let x = tape.constant(features(NODES, 5));
        layer.forward(&pass, x, neighbours.pattern(), None).value()
    };
    assert_eq!(value(Some(1)), value(Some(1)));
    assert_ne!(value(Some(1)), value(Some(2)));
    assert_ne!(value(Some(1)), value(None));
}
