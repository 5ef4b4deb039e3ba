//! Values, derivatives and state of PyTorch and PyTorch Geometric.

use crate::reference::{Derivatives, Stored, check_derivatives, close, fill, read};
use emmy::nn::{BatchNorm, Module, Norm, NormLayer, PairMode, PairNorm, Pass, Running, Spectral};
use emmy::{Tape, Var, init};
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize)]
struct Case {
    kind: String,
    x: Stored,
    value: Stored,
    parameters: BTreeMap<String, Stored>,
    eps: Option<f64>,
    mode: Option<PairMode>,
    individually: Option<bool>,
    scale: Option<f64>,
    training: Option<bool>,
    state: Option<BTreeMap<String, Stored>>,
    after: Option<BTreeMap<String, Stored>>,
    #[serde(flatten)]
    derivatives: Derivatives,
}

impl Case {
    /// The layer of the case, with its parameters.
    fn layer(&self) -> NormLayer<f64> {
        let width = *self.x.shape.last().expect("an axis");
        let [gain, bias] = ["gain", "bias"].map(|name| self.parameters.contains_key(name));
        let eps = |default: f64| self.eps.unwrap_or(default);
        let norm = match &*self.kind {
            "layer" => Norm::Layer {
                eps: eps(1e-5),
                gain,
                bias,
            },
            "rms" => Norm::Rms {
                eps: eps(1e-6),
                gain,
            },
            "batch" => Norm::Batch {
                eps: eps(1e-5),
                affine: gain,
                momentum: self.state.as_ref().map(|_| 0.1),
            },
            "graph" => Norm::GRAPH,
            "pair" => Norm::Pair(PairNorm {
                scale: self.scale.expect("a scale"),
                ..PairNorm::new(self.mode.expect("a mode"))
            }),
            "pair-pyg" => Norm::Pair(PairNorm {
                scale: self.scale.expect("a scale"),
                ..PairNorm::pyg(self.individually.expect("a mode"))
            }),
            other => panic!("no norm {other}"),
        };
        let mut layer = norm.build(width, &mut init::rng(0));
        fill(&mut layer, &self.parameters);
        if let (Some(norm), Some(state)) = (layer.downcast_mut::<BatchNorm<f64>>(), &self.state) {
            norm.running = Some(Running {
                mean: state["mean"].tensor(),
                variance: state["variance"].tensor(),
            });
        }
        layer
    }
}

#[test]
fn norms_are_pytorchs() {
    let cases: Vec<Case> = read("norms.json");
    let mut checked = BTreeMap::new();
    for (k, case) in cases
        .iter()
        .enumerate()
        .filter(|(_, c)| c.kind != "spectral")
    {
        let what = format!("{}, case {k}", case.kind);
        let mut layer = case.layer();
        let tape = Tape::new();
        let x = tape.var(case.x.tensor());
        // An evaluation in which derivatives by parameters can be had too.
        let training = case.training.unwrap_or(true);
        let pass = match training {
            true => Pass::train(&tape, &layer, 0),
            false => Pass::differentiable(&tape, &layer),
        };
        let y = layer.forward(&pass, x);
        close(&y.value(), &case.value, &what);
        let names = layer.parameters().into_iter().map(|p| p.name);
        let own: BTreeMap<String, Var<'_, f64>> = names.zip(pass.vars().iter().copied()).collect();
        // The script lists them in the order gain, bias, share.
        let listed = ["gain", "bias", "share"].iter().filter_map(|n| own.get(*n));
        let xs: Vec<_> = std::iter::once(x).chain(listed.copied()).collect();
        check_derivatives(y, &xs, &case.derivatives, &what);
        let updates = pass.into_updates();
        updates.apply(&mut layer);
        if let (Some(norm), Some(after)) = (layer.downcast_ref::<BatchNorm<f64>>(), &case.after) {
            let running = norm.running.as_ref().expect("running statistics");
            close(&running.mean, &after["mean"], &what);
            close(&running.variance, &after["variance"], &what);
        }
        *checked.entry(case.kind.clone()).or_insert(0) += 1;
    }
    let expected = [
        ("batch", 6),
        ("graph", 1),
        ("layer", 5),
        ("pair", 3),
        ("pair-pyg", 2),
        ("rms", 3),
    ];
    assert_eq!(checked, expected.map(|(k, n)| (k.to_owned(), n)).into());
}

#[test]
fn spectral_normalisation_is_pytorchs() {
    let mut cases: Vec<Case> = read("norms.json");
    cases.retain(|c| c.kind == "spectral");
    assert_eq!(cases.len(), 4);
    for (k, case) in cases.iter().enumerate() {
        let what = format!("case {k}");
        let state = case.state.as_ref().expect("u and v");
        let mut layer = Spectral {
            weight: case.x.tensor(),
            left: state["left"].tensor(),
            right: state["right"].tensor(),
        };
        let tape = Tape::new();
        let pass = match case.training {
            Some(true) => Pass::train(&tape, &layer, 0),
            _ => Pass::differentiable(&tape, &layer),
        };
        let y = layer.forward(&pass);
        close(&y.value(), &case.value, &what);
        check_derivatives(y, pass.vars(), &case.derivatives, &what);
        pass.into_updates().apply(&mut layer);
        let after = case.after.as_ref().expect("u and v");
        close(&layer.left, &after["left"], &what);
        close(&layer.right, &after["right"], &what);
    }
}
