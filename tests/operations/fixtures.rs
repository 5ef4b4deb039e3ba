//! Comparison with PyTorch and PyTorch Geometric in `float64`: values, first and second derivatives
//! of operations and layers, optimisers, schedules. `tests/fixtures/README.md` says how the
//! reference values were made.

use crate::reference::{Derivatives, Stored, check_derivatives, close, fill, read};
use emmy::graph::{Duplicates, SelfLoops};
use emmy::nn::{AttentionOptions, GatConv, Gatv2Conv, GcnConv, Heads, Module, Pass};
use emmy::ops::Sparse;
use emmy::optim::{Algorithm, Decay, Muon, Optimizer, Plateau, Schedule, Sgd};
use emmy::tensor::tensor;
use emmy::{Graph, Tape, Var, init};
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize)]
struct Op {
    name: String,
    args: Vec<Stored>,
    value: Stored,
    #[serde(flatten)]
    derivatives: Derivatives,
}

fn apply<'t>(name: &str, x: &[Var<'t, f64>]) -> Var<'t, f64> {
    let keep = tensor(
        &[3, 4],
        [1, 0, 1, 1, 0, 1, 0, 0, 1, 1, 1, 1]
            .map(|k| k == 1)
            .to_vec(),
    );
    match name {
        "exp" => x[0].exp(),
        "ln" => x[0].ln(),
        "sqrt" => x[0].sqrt(),
        "powf" => x[0].powf(2.7),
        "tanh" => x[0].tanh(),
        "sigmoid" => x[0].sigmoid(),
        "relu" => x[0].relu(),
        "leaky_relu" => x[0].leaky_relu(0.2),
        "elu" => x[0].elu(1.0),
        "gelu" => x[0].gelu(),
        "gelu_tanh" => x[0].gelu_tanh(),
        "silu" => x[0].silu(),
        "softplus" => x[0].softplus(),
        "div" => x[0] / x[1],
        "maximum" => x[0].maximum(x[1]),
        "clamp" => x[0].clamp(-0.5, 0.7),
        "where_" => x[0].where_(&keep, x[1]),
        "sum" => x[0].sum(&[0, 2], false),
        "mean" => x[0].mean(&[1], true),
        "var" => x[0].var(&[1], false),
        "max" => x[0].max(&[1], false),
        "norm" => x[0].norm(&[1], false),
        "softmax" => x[0].softmax(1),
        "softmax_masked" => x[0].softmax_masked(1, &keep),
        "log_softmax" => x[0].log_softmax(0),
        "logsumexp" => x[0].logsumexp(1, true),
        "cross_entropy" => x[0].cross_entropy(&[2, 0, 3], Some(&[true, false, true])),
        "mse" => x[0].mse(x[1]),
        "bce_with_logits" => x[0].bce_with_logits(x[1]),
        "matmul" => x[0].matmul(x[1]),
        "linear" => x[0].linear(x[1]),
        "index_select" => x[0].index_select(0, vec![2, 0, 2]),
        other => panic!("no operation {other}"),
    }
}

#[test]
fn operations_are_pytorchs() {
    let cases: Vec<Op> = read("ops.json");
    assert!(cases.len() >= 30);
    for case in cases {
        let tape = Tape::new();
        let xs: Vec<_> = case.args.iter().map(|x| tape.var(x.tensor())).collect();
        let y = apply(&case.name, &xs);
        close(&y.value(), &case.value, &case.name);
        check_derivatives(y, &xs, &case.derivatives, &case.name);
    }
}

#[derive(Deserialize)]
struct GraphOf {
    nodes: usize,
    edges: Vec<(u32, u32)>,
}

#[derive(Deserialize)]
struct Layer {
    kind: String,
    config: BTreeMap<String, serde_json::Value>,
    parameters: BTreeMap<String, Stored>,
    x: Stored,
    value: Stored,
    edges: Option<Vec<(usize, usize)>>,
    alpha: Option<Stored>,
    graph: GraphOf,
    #[serde(flatten)]
    derivatives: Derivatives,
}

impl Layer {
    fn flag(&self, name: &str) -> bool {
        self.config.get(name).is_some_and(|v| v.as_bool().unwrap())
    }

    fn options(&self) -> AttentionOptions {
        AttentionOptions {
            heads: self.config["heads"].as_u64().unwrap() as usize,
            join: if self.flag("concat") {
                Heads::Concatenate
            } else {
                Heads::Average
            },
            bias: self.flag("bias"),
            residual: self.flag("residual"),
            ..AttentionOptions::default()
        }
    }

    /// Both ways to run a layer: with fused kernels, and composed, with the coefficients returned.
    fn check<M: Module<f64>>(
        &self,
        mut module: M,
        fused: impl for<'t> Fn(&M, &Pass<'t, '_, f64>, Var<'t, f64>) -> Var<'t, f64>,
        composed: impl for<'t> Fn(
            &M,
            &Pass<'t, '_, f64>,
            Var<'t, f64>,
        ) -> (Var<'t, f64>, Sparse<'t, f64>),
    ) {
        fill(&mut module, &self.parameters);
        let what = format!("{} {:?}", self.kind, self.config);
        let tape = Tape::new();
        let pass = Pass::train(&tape, &module, 0);
        let x = tape.var(self.x.tensor());
        let parameters = module.parameters();
        let mut operands = vec![x];
        operands.extend(self.order().iter().map(|name| {
            let own = parameters.iter().find(|p| p.name == *name);
            pass.param(own.unwrap().tensor)
        }));
        let mut outputs = vec![fused(&module, &pass, x)];
        if let (Some(edges), Some(alpha)) = (&self.edges, &self.alpha) {
            let (y, attention) = composed(&module, &pass, x);
            outputs.push(y);
            let found = attention.values.value();
            let heads = found.shape()[1];
            assert_eq!(edges.len(), attention.pattern.nnz(), "{what}");
            for (k, &(source, target)) in edges.iter().enumerate() {
                let e = attention
                    .pattern
                    .find(target, source)
                    .expect("the same edges");
                for h in 0..heads {
                    approx::assert_abs_diff_eq!(
                        found[[e, h]],
                        alpha.data[k * heads + h],
                        epsilon = 1e-13
                    );
                }
            }
        }
        for y in outputs {
            close(&y.value(), &self.value, &what);
            check_derivatives(y, &operands, &self.derivatives, &what);
        }
    }

    /// The reference's order of parameters: that in which PyTorch Geometric registers them.
    fn order(&self) -> Vec<String> {
        let all = match self.kind.as_str() {
            "gcn" => vec!["bias", "weight"],
            "gat" => vec!["att_source", "att_target", "bias", "weight", "residual"],
            _ => vec![
                "att",
                "bias",
                "source.weight",
                "source.bias",
                "target.weight",
                "target.bias",
                "residual",
            ],
        };
        all.into_iter()
            .filter(|n| self.parameters.contains_key(*n))
            .map(String::from)
            .collect()
    }
}

#[test]
fn layers_are_pytorch_geometrics() {
    let cases: Vec<Layer> = read("layers.json");
    assert_eq!(cases.len(), 11);
    let rng = &mut init::rng(0);
    for case in cases {
        let GraphOf { nodes, edges } = &case.graph;
        let graph = Graph::new(*nodes, edges, Duplicates::Reject, SelfLoops::Keep).unwrap();
        let looped = graph.with_self_loops();
        let edges = looped.pattern();
        let adjacency = graph.gcn_norm();
        match case.kind.as_str() {
            "gcn" => {
                let layer = GcnConv::new(3, 2, case.flag("bias"), rng);
                case.check(
                    layer,
                    |layer, pass, x| layer.forward(pass, x, &adjacency),
                    |_, _, _| unreachable!("a convolution has no coefficients"),
                );
            }
            "gat" => case.check(
                GatConv::new(3, 2, case.options(), rng),
                |layer, pass, x| layer.forward(pass, x, edges),
                |layer, pass, x| layer.forward_with_attention(pass, x, edges),
            ),
            "gatv2" => case.check(
                Gatv2Conv::new(3, 2, case.flag("share_weights"), case.options(), rng),
                |layer, pass, x| layer.forward(pass, x, edges),
                |layer, pass, x| layer.forward_with_attention(pass, x, edges),
            ),
            other => panic!("{other}"),
        }
    }
}

#[derive(Deserialize)]
struct Step {
    gradients: Vec<Stored>,
    parameters: Vec<Stored>,
}

#[derive(Deserialize)]
struct Updates {
    name: String,
    #[serde(default)]
    config: BTreeMap<String, serde_json::Value>,
    #[serde(default)]
    start: Vec<Stored>,
    #[serde(default)]
    steps: Vec<Step>,
    #[serde(default)]
    rates: Vec<f64>,
    #[serde(default)]
    losses: Vec<f64>,
}

impl Updates {
    fn number(&self, name: &str) -> f64 {
        self.config[name].as_f64().unwrap()
    }
}

#[test]
fn optimisers_are_pytorchs() {
    let cases: Vec<Updates> = read("optim.json");
    let mut count = 0;
    for case in cases.iter().filter(|c| !c.steps.is_empty()) {
        let method = match case.name.as_str() {
            "sgd" => Algorithm::Sgd(Sgd {
                momentum: case.number("momentum"),
                nesterov: case.config["nesterov"].as_bool().unwrap(),
            }),
            "adam" => Algorithm::ADAM,
            "adamw" => Algorithm::ADAMW,
            "muon" => Algorithm::Muon(Muon {
                momentum: case.number("momentum"),
                nesterov: case.config["nesterov"].as_bool().unwrap(),
                rest: case.number("rest"),
                ..Muon::DEFAULT
            }),
            other => panic!("{other}"),
        };
        let mut optimizer = Optimizer::new(method).weight_decay(case.number("weight_decay"));
        let mut parameters: Vec<_> = case.start.iter().map(Stored::tensor).collect();
        for (k, step) in case.steps.iter().enumerate() {
            let gradients: Vec<_> = step.gradients.iter().map(Stored::tensor).collect();
            optimizer.step(&mut parameters, &gradients, case.number("lr"));
            for (found, expected) in parameters.iter().zip(&step.parameters) {
                close(
                    found,
                    expected,
                    &format!("{} {:?}, step {k}", case.name, case.config),
                );
            }
        }
        count += 1;
    }
    assert_eq!(count, 11);
}

#[test]
fn schedules_are_pytorchs() {
    let cases: Vec<Updates> = read("optim.json");
    let mut seen = Vec::new();
    for case in cases.iter().filter(|c| !c.rates.is_empty()) {
        let mut plateau = Plateau::default();
        let schedule: Schedule = match case.name.as_str() {
            "step" => Decay::Step {
                every: 7,
                gamma: 0.3,
            }
            .into(),
            "cosine" => Decay::Cosine { over: 25, end: 0.1 }.into(),
            "warm_up" => Schedule {
                warm_up: 5,
                then: Decay::Constant,
                ..Schedule::default()
            },
            "plateau" => {
                plateau = Plateau {
                    gamma: case.number("factor"),
                    patience: case.number("patience") as usize,
                    threshold: case.number("threshold"),
                    cooldown: case.number("cooldown") as usize,
                    least: case.number("min_lr"),
                    ..plateau
                };
                Schedule::default()
            }
            other => panic!("{other}"),
        };
        for (epoch, expected) in case.rates.iter().enumerate() {
            let found = schedule.factor(epoch) * plateau.factor();
            assert!(
                (found - expected).abs() < 1e-12,
                "{}, epoch {epoch}: {found}, expected {expected}",
                case.name
            );
            if let Some(&loss) = case.losses.get(epoch) {
                plateau.observe(loss, 1.0);
            }
        }
        seen.push(case.name.as_str());
    }
    assert_eq!(seen, ["step", "cosine", "warm_up", "plateau"]);
}
