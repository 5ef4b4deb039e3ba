//! `docs/evidence/statements.json`, a row per numbered law, erratum, and statement of the four papers: every
//! test that it names exists, and every mutant is rejected by the check that the statement itself passes.
//!
//! A mutant of a law leaves a term out (factor 0), puts it on the other side (factor −1), or multiplies its
//! weight; or it is the same law for another loss. The mutant of a bound has another number in it (`checks`).
//! The mutant of an erratum is the printed statement, and that of C24 is written out: the test of that row
//! compares it with the one that holds. Definitions, and steps of a proof that has a row, have no mutant.

mod checks;
mod tables;
mod tight;

use emmy::graph::generators::random_graph;
use emmy::nn::{
    Activation, AttentionConfig, BatchNorm, Conv, FeedForward, FeedForwardConfig, GraphNet,
    GraphNetConfig, LayerNorm, Linear, Mlp, Module, MultiHeadAttention, PairMode, PairNorm, Pass,
    Score, Trace,
};
use emmy::ops::attention::Mask;
use emmy::symmetry::{Law, Side, Symmetry};
use emmy::testing::{Loss, Report, Subject, Verdict, check_laws_of};
use emmy::{Var, init};
use serde::Deserialize;
use std::path::Path;

#[derive(Deserialize)]
struct Row {
    id: String,
    /// The table of the chapter.
    table: String,
    /// Paper, number and equations; not for a law or an erratum that has its number.
    place: Option<String>,
    statement: String,
    holds: String,
    /// More about how it holds.
    says: Option<String>,
    tests: Vec<String>,
    mutant: Option<Mutant>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Mutant {
    Printed {
        printed: String,
    },
    Check {
        check: String,
        change: f64,
    },
    Term {
        model: String,
        law: String,
        term: usize,
        factor: f64,
    },
    Loss {
        model: String,
        law: String,
        loss: String,
    },
}

impl Mutant {
    fn model(&self) -> Option<(&str, &str)> {
        match self {
            Self::Printed { .. } | Self::Check { .. } => None,
            Self::Term { model, law, .. } | Self::Loss { model, law, .. } => Some((model, law)),
        }
    }

    fn change(&self, law: &mut Law, other: &mut Loss) {
        match self {
            Self::Printed { .. } | Self::Check { .. } => {}
            Self::Loss { loss, .. } => {
                let named = |of: &Loss| format!("{of:?}") == *loss;
                *other = Loss::ALL.into_iter().find(named).expect("a loss");
            }
            Self::Term {
                term, factor: 0.0, ..
            } => drop(law.terms.remove(*term)),
            Self::Term { term, factor, .. } => {
                let term = &mut law.terms[*term];
                match (law.symmetry, term.side) {
                    (Symmetry::Linear, Side::Incoming) => term.side = Side::Outgoing,
                    (Symmetry::Linear, _) => term.side = Side::Incoming,
                    _ => term.weight *= factor,
                }
            }
        }
    }
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

fn rows() -> Vec<Row> {
    let text = std::fs::read_to_string(root().join("docs/evidence/statements.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// `conservation::errata::name` is a function in `tests/conservation/errata.rs`, and `tests/..` a file or a
/// folder.
fn exists(test: &str) -> bool {
    if test.starts_with("tests/") {
        return root().join(test).exists();
    }
    let parts: Vec<&str> = test.split("::").collect();
    let (name, modules) = parts.split_last().expect("a name");
    let file = match modules.split_first() {
        Some((&"papers", modules)) => format!("papers/tests/{}.rs", modules.join("/")),
        _ => format!("tests/{}.rs", modules.join("/")),
    };
    let text = std::fs::read_to_string(root().join(file)).unwrap_or_default();
    text.contains(&format!("fn {name}("))
}

#[test]
fn every_test_of_a_statement_exists() {
    let rows = rows();
    let count = |table: &str| rows.iter().filter(|row| row.table == table).count();
    assert_eq!((count("laws"), count("errata")), (25, 24));
    // The theorems, lemmas, propositions, corollaries and procedures of the papers have mutants.
    let numbered = [
        "Theorem",
        "Lemma",
        "Proposition",
        "Corollary",
        "Procedure",
        "Remark 2",
    ];
    for row in &rows {
        let known = ["yes", "corrected", "open", "definition"].contains(&&*row.holds);
        assert!(!row.statement.is_empty() && known, "{}", row.id);
        assert!(!row.tests.is_empty(), "{}: no test", row.id);
        for test in &row.tests {
            assert!(exists(test), "{}: {test}", row.id);
        }
        let place = row.place.as_deref().unwrap_or_default();
        let of_number = numbered.iter().any(|kind| place.contains(kind));
        let of_law = row.table == "laws" || row.table == "errata";
        assert!(row.mutant.is_some() || !(of_number || of_law), "{}", row.id);
        if let Some(Mutant::Printed { printed }) = &row.mutant {
            let of_law = row.table == "laws" && row.id != "C24";
            assert!(!printed.is_empty() && !of_law, "{}", row.id);
        }
    }
    let mut ids: Vec<&str> = rows.iter().map(|row| &*row.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), rows.len());
    assert!(!exists("conservation::errata::no_such_test") && !exists("conservation::none::x"));
}

/// A statement that is no law of a layer holds with 1, and not with the number of its mutant.
#[test]
fn every_mutant_of_a_bound_is_rejected() {
    let mut mutants = 0;
    for row in rows() {
        let Some(Mutant::Check { check, change }) = &row.mutant else {
            continue;
        };
        mutants += 1;
        assert!(
            checks::holds(check, 1.0),
            "{}: {check} does not hold",
            row.id
        );
        assert!(
            !checks::holds(check, *change),
            "{}: {check} holds with {change}",
            row.id
        );
    }
    assert_eq!(mutants, 30);
}

/// The report of one law that is read off a pass of a model, mutated or not.
fn report<M: Module<f64> + Sync>(
    (net, width, seed): (&mut M, usize, u64),
    law: &str,
    mutant: Option<&Mutant>,
    forward: impl for<'t, 'm> Fn(&M, &Pass<'t, 'm, f64>, Var<'t, f64>) -> Var<'t, f64> + Sync,
) -> Report {
    let rng = &mut init::rng(seed);
    for parameter in net.tensors_mut() {
        *parameter = init::normal(parameter.shape(), 0.7, rng);
    }
    let (net, x) = (&*net, init::normal(&[6, width], 1.0, rng));
    let trace = Trace::of(net, |pass| {
        forward(net, pass, pass.tape().constant(x.clone()))
    });
    let softmax = law.contains("classes");
    let mut loss = if softmax {
        Loss::CrossEntropy
    } else {
        Loss::Smooth
    };
    let laws = if softmax {
        trace.softmax_laws()
    } else {
        trace.laws()
    };
    let names: Vec<String> = laws.iter().map(|law| law.name.clone()).collect();
    let found = laws.into_iter().find(|found| found.name.contains(law));
    let mut law = found.unwrap_or_else(|| panic!("no law {law:?} in {names:?}"));
    if let Some(mutant) = mutant {
        mutant.change(&mut law, &mut loss);
    }
    let subject = Subject::new(net, &x, seed, |pass, x| forward(net, pass, x)).with_loss(loss);
    check_laws_of(&subject, &[law])
}

/// The report for a model of this name.
fn of(model: &str, law: &str, mutant: Option<&Mutant>, seed: u64) -> Report {
    let rng = &mut init::rng(0);
    let words: Vec<&str> = model.split(' ').collect();
    match words[0] {
        "mlp" => {
            let activation = match words[1] {
                "identity" => Activation::Identity,
                "relu²" => Activation::ReluSquared,
                _ => Activation::Relu,
            };
            let mut net = Mlp::<f64>::new(&[4, 5, 3], activation, true, rng);
            report((&mut net, 4, seed), law, mutant, |net, pass, x| {
                net.forward(pass, x)
            })
        }
        "gcn" | "gat" | "gatv2" => {
            let conv = match model {
                "gcn" => Conv::GCN,
                "gat" => Conv::GAT,
                _ => Conv::gatv2(model == "gatv2 shared"),
            };
            let heads = if model == "gatv2 heads" { 2 } else { 1 };
            let config = GraphNetConfig {
                layers: 2,
                hidden: 3,
                dropout: 0.0,
                activation: Activation::Relu,
                ..GraphNetConfig::gcn(4, 3)
            };
            let config = config.of(conv).heads(heads, 1).biased(true);
            let config = config.attending(|a| a.dropout = 0.0);
            let neighbours = config.neighbourhood(&random_graph(6, 9, 1).symmetrise());
            let mut net = GraphNet::<f64>::new(config, 0).unwrap();
            report((&mut net, 4, seed), law, mutant, |net, pass, x| {
                net.forward(pass, x, &neighbours)
            })
        }
        "attention" => {
            let is = |kind: &str| words.get(1) == Some(&kind);
            let config = AttentionConfig {
                groups: if is("grouped") { 1 } else { 2 },
                rotary: is("rotary").then_some(100.0),
                normalize: is("normalised").then_some(0.0),
                score: if is("distances") {
                    Score::L2
                } else {
                    Score::Dot
                },
                ..AttentionConfig::new(4, 2)
            };
            let mut net = MultiHeadAttention::<f64>::new(config, rng).unwrap();
            report((&mut net, 4, seed), law, mutant, |net, pass, x| {
                net.forward(pass, x, &Mask::none())
            })
        }
        "gated" => {
            let config = FeedForwardConfig::gated(4, 5, Activation::Silu);
            let mut net = FeedForward::<f64>::new(config, rng).unwrap();
            report((&mut net, 4, seed), law, mutant, |net, pass, x| {
                net.forward(pass, x)
            })
        }
        "layer" => {
            let norm = LayerNorm::<f64> {
                eps: 0.0,
                ..LayerNorm::new(5)
            };
            let mut net = (Linear::new(4, 5, true, rng), norm);
            report((&mut net, 4, seed), law, mutant, |net, pass, x| {
                net.1.forward(pass, net.0.forward(pass, x))
            })
        }
        "gain" => {
            let mut net = (LayerNorm::<f64>::new(4), Linear::new(4, 3, true, rng));
            report((&mut net, 4, seed), law, mutant, |net, pass, x| {
                net.1.forward(pass, net.0.forward(pass, x))
            })
        }
        // A norm that removes the mean of each feature removes a bias: two maps write the stream.
        "pair" | "batch" => {
            let pair = PairNorm {
                eps: 0.0,
                ..PairNorm::new(PairMode::Pn)
            };
            let batch = BatchNorm::<f64> {
                eps: 0.0,
                ..BatchNorm::new(5)
            };
            let maps = [(4, 5), (4, 6), (6, 5)].map(|(i, o)| Linear::new(i, o, true, rng));
            let mut net = (maps, (model == "batch norm").then_some(batch));
            report((&mut net, 4, seed), law, mutant, |net, pass, x| {
                let inner = net.0[1].forward(pass, x).tanh();
                let y = net.0[0].forward(pass, x) + net.0[2].forward(pass, inner);
                match &net.1 {
                    Some(batch) => batch.forward(pass, y),
                    None => pair.forward(pass, y),
                }
            })
        }
        // A stream behind LayerNorms alone, but read raw at the end.
        "stream" => {
            let maps = [(4, 5), (5, 6), (6, 5), (5, 3)];
            let maps = maps.map(|(i, o)| Linear::<f64>::new(i, o, true, rng));
            let mut net = (maps, LayerNorm::new(5));
            report((&mut net, 4, seed), law, mutant, |net, pass, x| {
                let x = net.0[0].forward(pass, x);
                let inner = net.0[1].forward(pass, net.1.forward(pass, x)).relu();
                net.0[3].forward(pass, x + net.0[2].forward(pass, inner))
            })
        }
        "experts" => {
            let experts = [0; 2].map(|_| Mlp::<f64>::new(&[4, 5, 3], Activation::Relu, true, rng));
            let mut net = (Linear::new(4, 2, true, rng), experts);
            report((&mut net, 4, seed), law, mutant, |net, pass, x| {
                let shares = net.0.forward(pass, x).softmax(-1);
                let part = |e: usize| net.1[e].forward(pass, x) * shares.slice(1, e..e + 1);
                part(0) + part(1)
            })
        }
        "residual" => {
            let mut net = vec![
                Linear::<f64>::new(4, 5, true, rng),
                Linear::new(5, 6, true, rng),
                Linear::new(6, 5, true, rng),
                Linear::new(5, 3, true, rng),
            ];
            report((&mut net, 4, seed), law, mutant, |net, pass, x| {
                let x = net[0].forward(pass, x).relu();
                let inner = net[1].forward(pass, x).relu();
                net[3].forward(pass, x + net[2].forward(pass, inner).relu())
            })
        }
        other => panic!("no model {other:?}"),
    }
}

/// The statement holds in every draw, and says something in most; its mutant fails in most.
#[test]
fn every_mutant_of_a_law_is_rejected() {
    const DRAWS: u64 = 20;
    let mut mutants = 0;
    for row in rows() {
        let Some((mutant, (model, law))) = row.mutant.as_ref().and_then(|m| Some((m, m.model()?)))
        else {
            continue;
        };
        mutants += 1;
        let count = |mutant: Option<&Mutant>, verdict: Verdict| {
            let reports = (0..DRAWS).map(|seed| of(model, law, mutant, seed));
            reports
                .filter(|report| report.rows[0].verdict == verdict)
                .count()
        };
        let holds = count(None, Verdict::Holds);
        assert!(
            holds > 15 && count(None, Verdict::Fails) == 0,
            "{}: {holds} of 20",
            row.id
        );
        let fails = count(Some(mutant), Verdict::Fails);
        assert!(
            fails > 15,
            "{}: the mutant fails in {fails} of 20 draws",
            row.id
        );
    }
    assert_eq!(mutants, 29);
}
