//! Networks that cannot be balanced, and the error messages.

use super::networks::*;
use emmy::init::{Balancing, Beta, Initialization, Order, TargetInit};
use emmy::nn::{
    Activation, AttentionConfig, Layer, Module, MultiHeadAttention, Params, Trace, Traced,
};
use emmy::ops::attention::Mask;
use emmy::symmetry::Ports;
use emmy::{Tensor, init};

#[track_caller]
fn refused(scheme: Initialization, widths: &[usize], reason: &str) {
    let mut net = mlp::<f64>(widths, Activation::Relu, true);
    let before = numbers(&net);
    let error = scheme.apply(&mut net, 0).unwrap_err().to_string();
    assert!(error.contains(reason), "{error}");
    assert_eq!(
        numbers(&net),
        before,
        "a refusal leaves the model as it was"
    );
}

#[test]
fn an_identity_without_entries_to_scale_is_refused_by_name() {
    // The third layer reads 5 neurons with an identity of 3 rows.
    refused(
        Initialization::IDENTITY_BAL,
        &[4, 4, 5, 3, 2],
        "balancing layer 2, neurons, number 4 of 5: expected outgoing entries",
    );
    // From right to left, rows are missing.
    let backwards = Initialization {
        balance: Some(Balancing {
            order: Order::RightToLeft,
            ..Balancing::constant(1.0)
        }),
        ..Initialization::IDENTITY
    };
    refused(
        backwards,
        &[4, 3, 5, 2],
        "balancing layer 2, neurons, number 4 of 5: expected incoming entries",
    );
    // Without balancing there is nothing to refuse. Nothing is refused either if all incoming
    // entries are zero: the outgoing entries then become zero.
    let mut net = mlp::<f64>(&[4, 4, 5, 3, 2], Activation::Relu, true);
    Initialization::IDENTITY.apply(&mut net, 0).unwrap();
    let mut net = mlp::<f64>(&[4, 3, 5, 2], Activation::Relu, true);
    Initialization::IDENTITY_BAL.apply(&mut net, 0).unwrap();
    let last = matrix(&net, "layers.2.weight");
    assert!(last.column(2).iter().all(|&x| x != 0.0));
    assert!(last.column(3).iter().all(|&x| x == 0.0));
}

#[test]
fn constants_that_break_their_rule_are_refused() {
    let with = |beta, ratio| Initialization {
        balance: Some(Balancing {
            beta,
            ratio,
            order: Order::LeftToRight,
        }),
        ..Initialization::BAL_X
    };
    let good = Beta::Constant(1.0);
    for ratio in [0.0, -0.5, 1.5, f64::NAN] {
        refused(with(good, ratio), &[3, 3, 3], "balancing: ratio");
    }
    for beta in [
        Beta::Constant(0.0),
        Beta::Constant(-1.0),
        Beta::Constant(f64::INFINITY),
        Beta::Uniform {
            low: 2.0,
            high: 1.0,
        },
        Beta::Uniform {
            low: -1.0,
            high: 1.0,
        },
        Beta::Uniform {
            low: 0.0,
            high: 0.0,
        },
        Beta::Normal {
            mean: 1.0,
            std: -1.0,
        },
        Beta::Normal {
            mean: 0.0,
            std: 0.0,
        },
        Beta::Normal {
            mean: f64::NAN,
            std: 1.0,
        },
    ] {
        refused(with(beta, 1.0), &[3, 3, 3], "balancing: β");
    }
}

/// Balances a network whose first weight has this first row, the others being drawn.
fn balance(row: [f64; 2], bias: f64) -> Result<Vec<f64>, String> {
    let mut net = mlp::<f64>(&[2, 2, 2], Activation::Relu, true);
    net.layers[0].weight[[0, 0]] = row[0];
    net.layers[0].weight[[0, 1]] = row[1];
    net.layers[0].bias = Some(emmy::tensor::tensor(&[2], vec![bias, 0.0]));
    let laws = net.laws();
    let mut parameters = net.tensors_mut();
    let done = Balancing::constant(2.0).apply(&laws, &mut parameters, &mut init::rng(0));
    done.map_err(|e| e.to_string())?;
    assert!(worst_balance(&net) < 1e-12);
    Ok(numbers(&net))
}

#[test]
fn a_first_layer_of_zeros_or_worse_is_refused() {
    let error = balance([0.0; 2], 0.0).unwrap_err();
    assert_eq!(
        error,
        "balancing layer 1, neurons, number 1 of 2: expected incoming entries that can be scaled to squared norm 2: \
         finite, not all zero, found squared norm 0"
    );
    assert!(
        balance([f64::NAN, 1.0], 0.0)
            .unwrap_err()
            .contains("found squared norm NaN")
    );
    let error = balance([f64::INFINITY, 1.0], 0.0).unwrap_err();
    assert!(error.contains("found squared norm inf"));
    // A parameter that is zero stays zero; one that is not gets β, like any other.
    let found = balance([3.0, 4.0], 0.0).unwrap();
    approx::assert_relative_eq!(found[..2], [0.6 * 2.0_f64.sqrt(), 0.8 * 2.0_f64.sqrt()][..]);
    let found = balance([0.0; 2], -7.0).unwrap();
    assert_eq!(found[..2], [0.0; 2]);
    approx::assert_relative_eq!(found[4], -2.0_f64.sqrt());
}

#[test]
#[should_panic(expected = "layer 1, neurons: parameter 1 has not the 6 entries the law speaks of")]
fn laws_of_another_model_panic() {
    let net = mlp::<f64>(&[2, 3, 2], Activation::Relu, false);
    let mut other = mlp::<f64>(&[2, 3, 3], Activation::Relu, false);
    let mut parameters = other.tensors_mut();
    let _ = Balancing::constant(1.0).apply(&net.laws(), &mut parameters, &mut init::rng(0));
}

#[test]
fn an_unknown_name_is_answered_with_those_that_are_known() {
    let error = "xavir".parse::<Initialization>().unwrap_err().to_string();
    assert!(
        error.contains("one of xavier, xavier-zero, bal-x, bal-o") && error.contains("\"xavir\"")
    );
}

/// A vector that is said to be a matrix.
struct Vector {
    weight: Tensor<f64>,
}
emmy::module!(Vector for f64: weight);

impl Layer<f64> for Vector {
    fn ports(&self, params: &Params<'_, f64>) -> Option<Ports> {
        Some(Ports::writes([params.rows(&self.weight)]))
    }
}

#[test]
fn a_vector_among_the_weights_is_refused() {
    let mut net = Vector {
        weight: init::zeros(&[3]),
    };
    let trace = Trace::of(&net, |pass| {
        pass.call(&net, &[], || pass.param(&net.weight).square())
    });
    let order = trace.weight_order();
    let error = Initialization::XAVIER.draw(&order, &mut net.tensors_mut(), 0);
    let text = error.unwrap_err().to_string();
    assert!(text.contains("two axes [out, in]"), "{text}");
}

/// Only a layer with attention vectors has a target, whose weight may start at zero.
#[test]
fn a_target_of_zero_leaves_other_layers_alone() {
    let zero = Initialization {
        target: TargetInit::Zero,
        ..Initialization::XAVIER
    };
    let rng = &mut init::rng(0);
    let config = AttentionConfig::new(8, 2);
    let mut attention = MultiHeadAttention::<f64>::new(config, rng).unwrap();
    let x = init::normal(&[1, 3, 8], 1.0, rng);
    let order = Trace::at(&attention, &x, |pass, x| {
        attention.forward(pass, x, &Mask::none())
    })
    .weight_order();
    zero.draw(&order, &mut attention.tensors_mut(), 1).unwrap();
    for map in [&attention.query, &attention.value, &attention.output] {
        assert!(map.weight.iter().any(|w| *w != 0.0));
    }
}
