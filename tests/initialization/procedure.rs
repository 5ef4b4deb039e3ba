//! Balancing step by step: the norms of Procedure 2.6.

use super::networks::*;
use emmy::init;
use emmy::init::{Balancing, Beta, Initialization, Order, TargetInit, WeightInit};
use emmy::nn::{Activation, Conv, GraphNetConfig, Module, Traced};
use emmy::symmetry::Symmetry;

/// ‖row i‖² of a parameter.
fn rows(model: &impl Module<f64>, name: &str) -> Vec<f64> {
    let w = matrix(model, name);
    w.rows().into_iter().map(|row| row.dot(&row)).collect()
}

/// ‖column i‖² of a parameter.
fn columns(model: &impl Module<f64>, name: &str) -> Vec<f64> {
    let w = matrix(model, name);
    w.columns().into_iter().map(|c| c.dot(&c)).collect()
}

#[track_caller]
fn same(a: &[f64], b: &[f64]) {
    approx::assert_relative_eq!(a, b, max_relative = 1e-12, epsilon = 1e-14);
}

fn scheme(base: WeightInit, balancing: Balancing) -> Initialization {
    Initialization {
        base,
        balance: Some(balancing),
        ..Initialization::XAVIER_ZERO
    }
}

#[test]
fn norms_are_those_of_the_procedure() {
    // Without laws: Procedure 2.6 written out for a network with one weight per layer.
    let mut net = graph_net::<f64>(config(SHARED, 3, 5, 2));
    for base in [WeightInit::XavierNormal, WeightInit::LooksLinearOrthogonal] {
        let balancing = Balancing::constant(1.5);
        scheme(base, balancing).apply(&mut net, 3).unwrap();
        let [w1, w2, w3] = [0, 1, 2].map(|l| format!("layers.{l}.source.weight"));
        same(&rows(&net, &w1), &[1.5; 10]);
        same(&columns(&net, &w2), &[1.5; 10]);
        same(&columns(&net, &w3), &rows(&net, &w2));
        for l in 0..3 {
            let a = matrix(&net, &format!("layers.{l}.att"));
            assert!(a.iter().all(|&a| a == 0.0));
        }

        let order = Order::RightToLeft;
        scheme(base, Balancing { order, ..balancing })
            .apply(&mut net, 3)
            .unwrap();
        same(&columns(&net, &w3), &[1.5; 10]);
        same(&rows(&net, &w2), &[1.5; 10]);
        same(&rows(&net, &w1), &columns(&net, &w2));
    }
}

#[test]
fn directions_are_those_that_were_drawn() {
    let widths = [4, 6, 3];
    let mut drawn = mlp::<f64>(&widths, Activation::Relu, false);
    let mut balanced = drawn.clone();
    Initialization::XAVIER_ZERO.apply(&mut drawn, 8).unwrap();
    Initialization::BAL_X.apply(&mut balanced, 8).unwrap();
    let (a, b) = (
        matrix(&drawn, "layers.1.weight"),
        matrix(&balanced, "layers.1.weight"),
    );
    for (a, b) in a.columns().into_iter().zip(b.columns()) {
        let cosine = a.dot(&b) / (a.dot(&a) * b.dot(&b)).sqrt();
        approx::assert_relative_eq!(cosine, 1.0, epsilon = 1e-12);
    }
}

#[test]
fn of_separate_weights_each_has_beta_and_both_share_what_flows_out() {
    let mut net = graph_net::<f64>(config(SEPARATE, 3, 4, 1));
    let names = |l: usize| ["source", "target"].map(|side| format!("layers.{l}.{side}.weight"));
    let sum = |a: Vec<f64>, b: Vec<f64>| a.iter().zip(&b).map(|(a, b)| a + b).collect::<Vec<_>>();
    Initialization::BAL_X.apply(&mut net, 2).unwrap();
    let [[s1, t1], [s2, t2], [s3, t3]] = [names(0), names(1), names(2)];
    same(&rows(&net, &s1), &[2.0; 4]);
    same(&rows(&net, &t1), &[2.0; 4]);
    same(&sum(columns(&net, &s2), columns(&net, &t2)), &[4.0; 4]);
    let into = sum(rows(&net, &s2), rows(&net, &t2));
    same(&sum(columns(&net, &s3), columns(&net, &t3)), &into);
    assert_ne!(matrix(&net, &s1), matrix(&net, &t1));
    // An orthogonal hidden weight has norm 2 already.
    Initialization::BAL_O.apply(&mut net, 2).unwrap();
    same(&columns(&net, &s2), &[2.0; 4]);
    same(&columns(&net, &t2), &[2.0; 4]);

    let zero = Initialization {
        target: TargetInit::Zero,
        ..Initialization::BAL_X
    };
    zero.apply(&mut net, 2).unwrap();
    for (source, target) in [(s1, t1), (s2, t2), (s3, t3)] {
        assert!(matrix(&net, &target).iter().all(|&x| x == 0.0));
        assert!(rows(&net, &source).iter().all(|&norm| norm > 0.1));
    }
    same(&columns(&net, "layers.1.source.weight"), &[2.0; 4]);
}

#[test]
fn attention_takes_what_does_not_flow_out() {
    for (order, i, o) in [
        (Order::LeftToRight, 3.0, 0.75),
        (Order::RightToLeft, 12.0, 3.0),
    ] {
        let balancing = Balancing {
            beta: Beta::Constant(3.0),
            ratio: 0.25,
            order,
        };
        let start = scheme(WeightInit::XavierNormal, balancing);
        // GATv2: one entry; GAT: two entries that share.
        let mut net = graph_net::<f64>(config(SHARED, 2, 3, 2));
        start.apply(&mut net, 0).unwrap();
        same(&rows(&net, "layers.0.source.weight"), &[i; 6]);
        same(&columns(&net, "layers.1.source.weight"), &[o; 6]);
        let entry = (i - o).sqrt();
        let a = matrix(&net, "layers.0.att");
        same(a.as_slice().unwrap(), &[entry; 6]);
        // No neuron of the last layer has a law.
        assert!(matrix(&net, "layers.1.att").iter().all(|&a| a == 0.0));
        let mut net = graph_net::<f64>(config(Conv::GAT, 2, 3, 2));
        start.apply(&mut net, 0).unwrap();
        for name in ["layers.0.att_source", "layers.0.att_target"] {
            let a = matrix(&net, name);
            same(a.as_slice().unwrap(), &[entry / 2.0_f64.sqrt(); 6]);
        }
        // Without attention, the outgoing weights get the whole norm.
        let mut net = graph_net::<f64>(config(Conv::GCN, 2, 3, 1));
        start.apply(&mut net, 0).unwrap();
        same(&rows(&net, "layers.0.weight"), &[3.0; 3]);
        same(&columns(&net, "layers.1.weight"), &[3.0; 3]);
    }
}

#[test]
fn beta_may_be_drawn() {
    let start = |beta| {
        let mut net = mlp::<f64>(&[3, 4000, 2], Activation::Relu, false);
        let balancing = Balancing {
            beta,
            ..Balancing::constant(1.0)
        };
        (scheme(WeightInit::XavierNormal, balancing).apply(&mut net, 5)).unwrap();
        rows(&net, "layers.0.weight")
    };
    let moments = |x: &[f64]| {
        let mean = x.iter().sum::<f64>() / x.len() as f64;
        let var = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / x.len() as f64;
        (mean, var.sqrt())
    };
    // 4000 draws: mean and deviation are right to a few per cent of the deviation.
    let drawn = start(Beta::Uniform {
        low: 1.0,
        high: 4.0,
    });
    let (mean, std) = moments(&drawn);
    assert!((mean - 2.5).abs() < 0.06 && (std - 0.75_f64.sqrt()).abs() < 0.04);
    assert!(drawn.iter().all(|x| (0.999..=4.001).contains(x)));
    let (mean, std) = moments(&start(Beta::Normal {
        mean: 5.0,
        std: 0.5,
    }));
    assert!((mean - 5.0).abs() < 0.04 && (std - 0.5).abs() < 0.03);
    // Half of these are drawn below 0; the mean of |N(0, 1)| is √(2/π).
    let drawn = start(Beta::Normal {
        mean: 0.0,
        std: 1.0,
    });
    let (mean, _) = moments(&drawn);
    assert!((mean - 0.798).abs() < 0.04, "{mean}");
}

#[test]
fn an_activation_of_degree_two_weighs_what_flows_out_twice() {
    let mut net = mlp::<f64>(&[3, 4, 2], Activation::ReluSquared, true);
    Initialization::BAL_X.apply(&mut net, 0).unwrap();
    same(&rows(&net, "layers.0.weight"), &[2.0; 4]);
    same(&columns(&net, "layers.1.weight"), &[1.0; 4]);
}

#[test]
fn only_laws_of_rescaling_count() {
    let balanced = |all: bool| {
        // The identity has laws about the space of neurons, a softmax one about the sum over classes.
        let mut net = mlp::<f64>(&[3, 4, 4, 2], Activation::Identity, true);
        let mut laws = net.laws();
        laws.extend(net.softmax_laws());
        assert_eq!(laws.len(), 6);
        laws.retain(|law| all || law.symmetry == Symmetry::Rescaling);
        let balancing = Balancing {
            beta: Beta::Uniform {
                low: 1.0,
                high: 2.0,
            },
            ..Balancing::constant(1.0)
        };
        (balancing.apply(&laws, &mut net.tensors_mut(), &mut init::rng(1))).unwrap();
        numbers(&net)
    };
    assert_eq!(balanced(true), balanced(false));
}

#[test]
fn without_a_law_balancing_is_that_of_degree_one() {
    let weights = |activation| {
        let mut net = graph_net::<f64>(GraphNetConfig {
            activation,
            ..config(Conv::GAT, 3, 4, 2)
        });
        Initialization::BAL_O.apply(&mut net, 0).unwrap();
        numbers(&net)
    };
    assert_eq!(weights(Activation::Elu), weights(Activation::Relu));
}
