//! Comparison with PyTorch Geometric: values, first and second derivatives of every layer.

use crate::reference::{Derivatives, Stored, check_derivatives, close, fill, read};
use emmy::graph::{Duplicates, Neighbourhood, SelfLoops};
use emmy::nn::{
    GatedGraphConv, GatedGraphOptions, GcniiConv, GcniiOptions, GinConv, GinOptions, Heads, Linear,
    Module, Pass, SageConv, SageOptions, SgcConv, SgcOptions, TransformerConv, TransformerOptions,
};
use emmy::{Graph, Tape, Var, init};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Deserialize)]
struct GraphOf {
    nodes: usize,
    edges: Vec<(u32, u32)>,
}

#[derive(Deserialize)]
struct Case {
    kind: String,
    config: BTreeMap<String, Value>,
    /// The names of the parameters, in the order of the derivatives.
    order: Vec<String>,
    parameters: BTreeMap<String, Stored>,
    /// x, then the other inputs of the layer.
    args: Vec<Stored>,
    graph: GraphOf,
    value: Stored,
    #[serde(flatten)]
    derivatives: Derivatives,
}

impl Case {
    fn number(&self, name: &str) -> f64 {
        self.config[name].as_f64().expect("a number")
    }

    fn size(&self, name: &str) -> usize {
        self.config[name].as_u64().expect("a size") as usize
    }

    fn flag(&self, name: &str) -> bool {
        self.config[name].as_bool().expect("a flag")
    }

    fn check<M: Module<f64>>(
        &self,
        mut layer: M,
        forward: impl for<'t> Fn(&M, &Pass<'t, '_, f64>, &[Var<'t, f64>]) -> Var<'t, f64>,
    ) {
        fill(&mut layer, &self.parameters);
        let what = format!("{} {:?}", self.kind, self.config);
        let tape = Tape::new();
        let pass = Pass::train(&tape, &layer, 0);
        let args: Vec<_> = self.args.iter().map(|x| tape.var(x.tensor())).collect();
        let named = layer.parameters();
        let parameter = |name: &String| {
            let own = named.iter().find(|p| p.name == *name);
            pass.param(own.expect("a parameter").tensor)
        };
        let operands: Vec<_> = (args.iter().copied())
            .chain(self.order.iter().map(parameter))
            .collect();
        let y = forward(&layer, &pass, &args);
        close(&y.value(), &self.value, &what);
        check_derivatives(y, &operands, &self.derivatives, &what);
    }
}

#[test]
fn layers_are_pytorch_geometrics() {
    let cases: Vec<Case> = read("graphs.json");
    let mut seen = BTreeMap::new();
    let rng = &mut init::rng(0);
    for case in cases {
        let GraphOf { nodes, edges } = &case.graph;
        let graph = Graph::new(*nodes, edges, Duplicates::Reject, SelfLoops::Keep).unwrap();
        // Features of edges are in the order in which the graph has them.
        assert!(graph.edge_list().eq(edges.iter().copied()));
        let adjacency = graph.gcn_norm();
        let neighbours = Neighbourhood::of(graph);
        let input = case.args[0].shape[1];
        match case.kind.as_str() {
            "sgc" => {
                let options = SgcOptions {
                    steps: case.size("steps"),
                    bias: case.flag("bias"),
                };
                case.check(SgcConv::new(input, 2, options, rng), |layer, pass, x| {
                    layer.forward(pass, x[0], &adjacency)
                });
            }
            "gin" => {
                let options = GinOptions {
                    eps: case.flag("eps"),
                    bias: true,
                };
                let layer = GinConv::new(input, case.size("out"), options, rng);
                case.check(layer, |layer, pass, x| {
                    layer.forward(pass, x[0], &neighbours)
                });
            }
            "gcnii" => {
                let options = GcniiOptions {
                    alpha: case.number("alpha"),
                    theta: case.number("theta"),
                    shared: case.flag("shared"),
                };
                let layer = GcniiConv::new(input, case.size("number"), options, rng);
                case.check(layer, |layer, pass, x| {
                    layer.forward(pass, x[0], x[1], &adjacency)
                });
            }
            "transformer" => {
                let options = TransformerOptions {
                    heads: case.size("heads"),
                    join: match case.flag("concat") {
                        true => Heads::Concatenate,
                        false => Heads::Average,
                    },
                    bias: case.flag("bias"),
                    skip: case.flag("skip"),
                    gate: case.flag("gate"),
                    dropout: 0.0,
                    score_norm: None,
                };
                let features = case.config["features"].as_u64().map(|d| d as usize);
                let layer = || TransformerConv::new(input, 2, features, options, &mut init::rng(0));
                let edges = neighbours.pattern();
                case.check(layer(), |layer, pass, x| {
                    layer.forward(pass, x[0], edges, x.get(1).copied())
                });
                case.check(layer(), |layer, pass, x| {
                    let e = x.get(1).copied();
                    layer.forward_with_attention(pass, x[0], edges, e).0
                });
            }
            "gated-graph" => {
                let options = GatedGraphOptions {
                    steps: case.size("steps"),
                };
                // A width of its own: x may be narrower.
                case.check(GatedGraphConv::new(3, options, rng), |layer, pass, x| {
                    layer.forward(pass, x[0], &neighbours)
                });
            }
            "sage" => {
                let options = SageOptions {
                    bias: case.flag("bias"),
                };
                case.check(
                    SageConv::new(input, 2, options.bias, rng),
                    |layer, pass, x| layer.forward(pass, x[0], &neighbours),
                );
            }
            other => panic!("{other}"),
        }
        *seen.entry(case.kind.clone()).or_insert(0) += 1;
    }
    let expected = [
        ("gated-graph", 2),
        ("gcnii", 2),
        ("gin", 2),
        ("sage", 2),
        ("sgc", 2),
        ("transformer", 6),
    ];
    let expected: BTreeMap<_, _> = expected.map(|(kind, n)| (kind.to_owned(), n)).into();
    assert_eq!(seen, expected);
}

/// A linear map inside a layer has the names that fixtures use.
#[test]
fn parts_of_a_layer_are_named_after_their_fields() {
    let rng = &mut init::rng(0);
    let layer = TransformerConv::<f64>::new(3, 2, Some(1), TransformerOptions::DEFAULT, rng);
    let Linear { weight, .. } = &layer.query;
    let first = layer.parameters().swap_remove(0);
    assert_eq!((&*first.name, first.tensor), ("query.weight", weight));
    assert_eq!(layer.parameters().len(), 9);
}
