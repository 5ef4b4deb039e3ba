//! Files written by PyTorch give the outputs that PyTorch computed. Files for PyTorch are written to
//! `target/tmp/weights`, with outputs that `tests/fixtures/weights.py --check target/tmp/weights` compares
//! with its own.

use super::*;
use crate::reference::{self, Stored};
use emmy::graph::{Duplicates, SelfLoops};
use emmy::nn::{AttentionOptions, Conv, GraphNet, GraphNetConfig, Heads, Module, entries_mut};
use emmy::store::weights::{self, Weights};
use emmy::{Graph, Tape};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;

#[derive(Deserialize)]
pub(super) struct Case {
    name: String,
    pub edges: Vec<(u32, u32)>,
    x: Stored,
    value: Stored,
}

pub(super) fn case(name: &str) -> Case {
    let cases: Vec<Case> = reference::read("weights.json");
    cases.into_iter().find(|case| case.name == name).unwrap()
}

fn output<M: Module<f64>>(
    model: &M,
    x: &Stored,
    compute: &impl for<'t> Fn(&M, &Pass<'t, '_, f64>, Var<'t, f64>) -> Var<'t, f64>,
) -> Tensor<f64> {
    let tape = Tape::new();
    compute(model, &Pass::eval(&tape, model), tape.constant(x.tensor())).value()
}

/// Other numbers in every tensor, positive ones in every state.
fn redraw(model: &mut impl Module<f64>) {
    let rng = &mut init::rng(77);
    for entry in entries_mut(model) {
        let drawn = init::normal(entry.tensor.shape(), 0.7, rng);
        *entry.tensor = match entry.is_trained() {
            true => drawn,
            false => drawn.mapv(f64::abs).into_shared(),
        };
    }
}

/// The file of PyTorch gives the output of PyTorch.
#[track_caller]
fn reads<M: Module<f64>>(
    name: &str,
    model: &mut M,
    compute: &impl for<'t> Fn(&M, &Pass<'t, '_, f64>, Var<'t, f64>) -> Var<'t, f64>,
) -> Case {
    let case = case(name);
    let report = weights::load_into(fixture(name), model).unwrap();
    assert_eq!(report.fitting.len(), weights::keys(model).len());
    reference::close(&output(model, &case.x, compute), &case.value, name);
    case
}

/// The same, and a file with other numbers is written for PyTorch, with the same names and shapes.
#[track_caller]
pub(super) fn twin<M: Module<f64>>(
    name: &str,
    mut model: M,
    config: &impl Serialize,
    compute: impl for<'t> Fn(&M, &Pass<'t, '_, f64>, Var<'t, f64>) -> Var<'t, f64>,
) {
    let Case { x, .. } = reads(name, &mut model, &compute);
    redraw(&mut model);
    let y = output(&model, &x, &compute);
    let path = write(name, &model, config, y);
    assert_eq!(names_and_shapes(&path), names_and_shapes(&fixture(name)));
}

/// The names that PyTorch's own reader compares; it does not need counters of batches.
fn names_and_shapes(path: &Path) -> BTreeMap<String, Vec<usize>> {
    let file = Weights::open(path).unwrap();
    let kept = (file.keys()).filter(|key| !key.ends_with("num_batches_tracked"));
    kept.map(|key| (key.to_owned(), file.shape(key).unwrap().to_vec()))
        .collect()
}

fn write<F: Real, M: Module<F>>(
    name: &str,
    model: &M,
    config: &impl Serialize,
    y: Tensor<f64>,
) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("weights");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(format!("{name}.safetensors"));
    weights::save(&path, model, config).unwrap();
    let data: Vec<_> = y.iter().collect();
    let text = json!({ "value": { "shape": y.shape(), "data": data } });
    std::fs::write(folder.join(format!("{name}.json")), text.to_string()).unwrap();
    path
}

fn graph_net(name: &str, config: GraphNetConfig) {
    let edges = case(name).edges;
    let graph = Graph::new(6, &edges, Duplicates::Reject, SelfLoops::Reject).unwrap();
    let neighbours = config.neighbourhood(&graph.symmetrise());
    let net = GraphNet::new(config, 0).unwrap();
    twin(name, net, &config, |net, pass, x| {
        net.forward(pass, x, &neighbours)
    });
}

#[test]
fn perceptrons() {
    twin("mlp", mlp(5), &(), |mlp, pass, x| mlp.forward(pass, x));
}

#[test]
fn every_type_of_numbers_is_read() {
    for name in ["mlp_f32", "mlp_f16", "mlp_bf16"] {
        let mut model = mlp(5);
        let Case { x, .. } = reads(name, &mut model, &|mlp: &Mlp<_>, pass, x| {
            mlp.forward(pass, x)
        });
        if name == "mlp_f32" {
            // The numbers of an f32 model, and their output in f64.
            let f32s = mlp::<f32>(6);
            for (to, from) in model.tensors_mut().into_iter().zip(f32s.tensors()) {
                *to = from.mapv(f64::from).into_shared();
            }
            let y = output(&model, &x, &|mlp: &Mlp<_>, pass, x| mlp.forward(pass, x));
            write(name, &f32s, &(), y);
        }
    }
}

#[test]
fn graph_networks() {
    let base = GraphNetConfig {
        hidden: 4,
        activation: Activation::Elu,
        dropout: 0.0,
        ..GraphNetConfig::gcn(3, 2)
    };
    let attending = |conv: Conv, residual: bool| {
        let change = |a: &mut AttentionOptions| a.residual = residual;
        let config = base.of(conv).heads(2, 3).attending(change);
        assert_eq!(config.last.attention().unwrap().join, Heads::Average);
        config
    };
    graph_net("gcn", base);
    let sage = GraphNetConfig::sage(3, 2);
    graph_net(
        "sage",
        GraphNetConfig {
            self_loops: false,
            ..base.of(sage.conv)
        },
    );
    graph_net("gat", attending(Conv::GAT, true));
    graph_net("gatv2", attending(Conv::gatv2(false), true));
    graph_net("gatv2_shared", attending(Conv::gatv2(true), false));
}

#[test]
fn state_and_a_counter_that_is_ignored() {
    let path = fixture("normalised");
    let report = weights::load_into(&path, &mut Normalised::<f64>::new(2)).unwrap();
    assert_eq!(report.ignored, ["norm.num_batches_tracked"]);
    twin("normalised", Normalised::new(3), &(), |m, pass, x| {
        m.forward(pass, x)
    });
}

/// The layer here has only the weights: names and numbers are compared.
#[test]
fn names_of_a_recurrent_layer_in_both_directions() {
    let mut model = Recurrent::<f64>::new();
    weights::load_into(fixture("bidirectional"), &mut model).unwrap();
    let file = Weights::open(fixture("bidirectional")).unwrap();
    let back = model.lstm.layers[1].backward.as_ref().unwrap();
    assert_eq!(
        file.get::<f64>("lstm.weight_hh_l1_reverse").unwrap(),
        back.weight_hh
    );
    redraw(&mut model);
    write("bidirectional", &model, &(), Tensor::ones(vec![0]));
}
