//! Planted errors: each is caught within 200 cases, and what it was planted in passes.

use crate::wrong::{atan, flat_derivative, sine, twice};
use emmy::graph::generators::random_graph;
use emmy::lipschitz::Lp;
use emmy::nn::{Conv, GraphNet, GraphNetConfig, Linear, Module};
use emmy::testing::{
    Attack, Report, Subject, check_bound, check_grads, check_hessian, check_laws_of,
    check_lipschitz,
};
use emmy::{Tensor, Var, init};

const CASES: u64 = 200;

/// The number of the first case whose report has a failing statement.
#[track_caller]
fn caught(case: impl Fn(u64) -> Report) -> u64 {
    match (0..CASES).find(|&seed| !case(seed).holds()) {
        Some(seed) => seed + 1,
        None => panic!("not caught within 200 cases; the last: {}", case(CASES - 1)),
    }
}

fn input(seed: u64) -> Tensor<f64> {
    init::normal(&[3, 4], 1.0, &mut init::rng(seed))
}

/// A layer of a user's own with an operation in it.
fn layer_with(
    seed: u64,
    operation: impl for<'t> Fn(Var<'t, f64>) -> Var<'t, f64> + Sync,
    check: impl Fn(&Subject<'_, f64>) -> Report,
) -> Report {
    let layer = Linear::<f64>::new(4, 5, true, &mut init::rng(seed + 1000));
    let subject = Subject::new(&layer, &input(seed), seed, |pass, x| {
        operation(layer.forward(pass, x))
    });
    check(&subject)
}

#[test]
fn a_derivative_that_is_one_percent_wrong() {
    for factor in [1.01, 0.99, 1.001] {
        let cases = caught(|seed| layer_with(seed, |x| sine(x, factor), check_grads));
        assert_eq!(cases, 1, "{factor}");
        let report = layer_with(0, |x| sine(x, factor), check_grads);
        let off = (factor - 1.0).abs();
        assert!((0.5 * off..2.0 * off).contains(&report.worst()), "{report}");
    }
    for seed in 0..20 {
        layer_with(seed, |x| sine(x, 1.0), check_grads).assert();
    }
}

#[test]
fn a_second_derivative_that_is_left_out() {
    for seed in 0..20 {
        layer_with(seed, flat_derivative, check_grads).assert();
        layer_with(seed, |x| sine(x, 1.0), check_hessian).assert();
    }
    assert_eq!(
        caught(|seed| layer_with(seed, flat_derivative, check_hessian)),
        1
    );
}

/// Every term of every law of a GATv2 with separate weights, and of a GCN, is left out once.
#[test]
fn a_law_with_a_term_left_out() {
    let graph = random_graph(9, 16, 1).symmetrise();
    let mut tried = 0;
    for conv in [Conv::GCN, Conv::GAT, Conv::gatv2(false)] {
        let config = GraphNetConfig {
            layers: 3,
            hidden: 4,
            dropout: 0.0,
            ..GraphNetConfig::gcn(4, 3)
        };
        let config = config
            .of(conv)
            .heads(2, 1)
            .attending(|a| a.dropout = 0.0)
            .biased(true);
        let neighbours = config.neighbourhood(&graph);
        let with = |seed: u64, check: &dyn Fn(&Subject<'_, f64>) -> Report| {
            let mut net = GraphNet::<f64>::new(config, seed).unwrap();
            let rng = &mut init::rng(seed);
            for p in net.tensors_mut() {
                *p = init::normal(p.shape(), 0.6, rng);
            }
            let x = init::normal(&[9, 4], 1.0, rng);
            check(&Subject::new(&net, &x, seed, |pass, x| {
                net.forward(pass, x, &neighbours)
            }))
        };
        let net = GraphNet::<f64>::new(config, 0).unwrap();
        let laws = emmy::nn::Traced::laws(&net);
        for seed in 0..20 {
            with(seed, &|subject| check_laws_of(subject, &laws)).assert();
        }
        for law in &laws {
            for k in 0..law.terms.len() {
                let mut law = law.clone();
                let left_out = law.terms.remove(k);
                // A law of one term has no such mutant, and a term without weight is only for comparison.
                if law.terms.is_empty() || left_out.weight == 0.0 {
                    continue;
                }
                tried += 1;
                let cases = caught(|seed| {
                    with(seed, &|subject| {
                        check_laws_of(subject, std::slice::from_ref(&law))
                    })
                });
                assert!(
                    cases <= 20,
                    "{conv:?}, {}, term {k}: {cases} cases",
                    law.name
                );
            }
        }
    }
    assert!(tried > 20, "{tried}");
}

/// Σ relu(x_k − 1) of six numbers: √6 and 6 where all are above 1, for p = 2 and ∞. Elsewhere the
/// Jacobian is smaller, and constant between kinks, so that no gradient leads there.
#[test]
fn a_bound_that_is_reached_behind_kinks() {
    let none: Vec<Tensor<f64>> = Vec::new();
    for (p, constant) in [(Lp::Two, 6f64.sqrt()), (Lp::Inf, 6.0)] {
        let attacked = |seed: u64, bound: f64| {
            let x = init::normal(&[1, 6], 1.0, &mut init::rng(seed));
            let subject = Subject::new(&none, &x, seed, |_, x| {
                x.add_scalar(-1.0).relu().sum(&[1], true)
            });
            check_bound(&subject, p, bound, &Attack::default())
        };
        attacked(0, constant).assert();
        assert!(caught(|seed| attacked(seed, 0.9 * constant)) <= 20, "{p}");
    }
}

/// The same error is caught in single precision.
#[test]
fn a_bound_of_singles_that_is_ten_percent_too_small() {
    let none: Vec<Tensor<f32>> = Vec::new();
    for p in Lp::ALL {
        let attacked = |seed: u64, bound: f64| {
            let x = init::normal(&[3, 4], 1.0, &mut init::rng(seed));
            let subject = Subject::new(&none, &x, seed, |_, x| x.softmax(-1));
            check_bound(&subject, p, bound, &Attack::default())
        };
        attacked(0, 0.5).assert();
        assert!(caught(|seed| attacked(seed, 0.45)) <= 20, "p = {p}");
    }
}

/// Bounds that an operation declares for itself, and bounds of one's own.
#[test]
fn a_bound_that_is_ten_percent_too_small() {
    let args: Vec<Tensor<f64>> = Vec::new();
    let attack = Attack::default();
    for p in Lp::ALL {
        let declared = |seed: u64, bound: f64| {
            let subject = Subject::new(&args, &input(seed), seed, |_, x| atan(x, bound));
            check_lipschitz(&subject, p, &attack)
        };
        let report = declared(0, 1.0).assert();
        let r = report.rows[0].r.unwrap();
        assert!((0.9..=1.0).contains(&r), "{report}");
        assert!(caught(|seed| declared(seed, 0.9)) <= 20);
        let stated = |seed: u64, norm: f64| {
            let subject = Subject::new(&args, &input(seed), seed, |_, x| twice(x, norm));
            check_lipschitz(&subject, p, &attack)
        };
        stated(0, 2.0).assert();
        assert_eq!(caught(|seed| stated(seed, 1.8)), 1);
        // A row softmax: a half for p = 2, where two entries are equal and the others far below.
        let own = |seed: u64, bound: f64| {
            let subject = Subject::new(&args, &input(seed), seed, |_, x| x.softmax(-1));
            check_bound(&subject, p, bound, &attack)
        };
        own(0, 0.5).assert();
        assert!(caught(|seed| own(seed, 0.45)) <= 20, "p = {p}");
    }
}
