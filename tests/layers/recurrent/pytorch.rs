//! PyTorch's values, first and second derivatives.

use super::{flat, run_gru, run_lstm};
use crate::reference::{Derivatives, Stored, check_derivatives, close, fill, read};
use emmy::nn::{Gru, GruCell, Lstm, LstmCell, LstmState, Module, Pass};
use emmy::{Tape, Var, init};
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize)]
struct Case {
    kind: String,
    parameters: BTreeMap<String, Stored>,
    x: Stored,
    state: Vec<Stored>,
    value: Stored,
    #[serde(flatten)]
    derivatives: Derivatives,
}
/// The part of each layer.
fn per_layer<'t>(state: &[Var<'t, f64>]) -> Vec<Vec<Var<'t, f64>>> {
    let layers = |s: &Var<'t, f64>| {
        let part = |l: usize| s.slice(0, l..l + 1).squeeze(0);
        (0..s.shape()[0]).map(part).collect()
    };
    state.iter().map(layers).collect()
}

fn compare<M: Module<f64>>(
    case: &Case,
    mut layer: M,
    forward: impl for<'t, 'm> Fn(&M, &Pass<'t, 'm, f64>, Var<'t, f64>, &[Var<'t, f64>]) -> Var<'t, f64>,
) {
    fill(&mut layer, &case.parameters);
    let tape = Tape::new();
    let pass = Pass::differentiable(&tape, &layer);
    let x = tape.var(case.x.tensor());
    let state: Vec<_> = case.state.iter().map(|s| tape.var(s.tensor())).collect();
    let y = forward(&layer, &pass, x, &state);
    close(&y.value(), &case.value, &case.kind);
    let xs = [&[x], &state[..], pass.vars()].concat();
    check_derivatives(y, &xs, &case.derivatives, &case.kind);
}

#[test]
fn values_and_derivatives_are_those_of_pytorch() {
    let cases: Vec<Case> = read("recurrent.json");
    let mut kinds = Vec::new();
    for case in &cases {
        let rng = &mut init::rng(0);
        let (width, layers) = (2, case.parameters.len() / 4);
        match &*case.kind {
            "GruCell" => compare(case, GruCell::new(3, width, rng), |layer, pass, x, s| {
                flat(&[layer.forward(pass, x, s[0])])
            }),
            "LstmCell" => compare(case, LstmCell::new(3, width, rng), |layer, pass, x, s| {
                let [hidden, cell] = [s[0], s[1]];
                let next = layer.forward(pass, x, LstmState { hidden, cell });
                flat(&[next.hidden, next.cell])
            }),
            "Gru" => compare(
                case,
                Gru::new(3, width, layers, rng),
                |layer, pass, x, s| {
                    let given = per_layer(s);
                    run_gru(layer, pass, x, given.first().map(|s| &s[..]))
                },
            ),
            "Lstm" => compare(
                case,
                Lstm::new(3, width, layers, rng),
                |layer, pass, x, s| {
                    let given = per_layer(s);
                    let given: Option<Vec<_>> = (!given.is_empty()).then(|| {
                        let pairs = given[0].iter().zip(&given[1]);
                        let state = |(&hidden, &cell)| LstmState { hidden, cell };
                        pairs.map(state).collect()
                    });
                    run_lstm(layer, pass, x, given.as_deref())
                },
            ),
            other => panic!("no layer {other}"),
        }
        kinds.push((&*case.kind, layers));
    }
    let expected = [
        ("GruCell", 1),
        ("LstmCell", 1),
        ("Gru", 1),
        ("Gru", 2),
        ("Lstm", 1),
        ("Lstm", 2),
    ];
    assert_eq!(kinds, expected);
}
