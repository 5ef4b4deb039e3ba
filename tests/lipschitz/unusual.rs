//! Bounds where an operand is unusual: constants per position, rows chosen twice, dropped coefficients,
//! inputs that no tape records. Each was too small once.

use emmy::autodiff::Function;
use emmy::kernels::map;
use emmy::lipschitz::{Domain, Lp, bound, jacobian_norm, rounding};
use emmy::ops::attention::{DenseAttention, Mask, Qkv};
use emmy::ops::sparse::gather_rows;
use emmy::sparse::Pattern;
use emmy::tensor::tensor;
use emmy::{Tape, Var};

/// The bound on rows of at most `radius`, and the norm of the Jacobian at the recorded x.
fn sides(y: Var<'_, f64>, x: Var<'_, f64>, radius: f64) -> [f64; 2] {
    let proven = bound(y, x, Lp::Two, Domain::Rows(radius)).unwrap();
    let found = jacobian_norm(y, x, Lp::Two).0.lower.get();
    [found, proven.upper().get()]
}

fn attend<'t>(q: Var<'t, f64>, k: Var<'t, f64>, v: Var<'t, f64>, at: [usize; 3]) -> Var<'t, f64> {
    let attention = DenseAttention::new(1, Mask::none());
    attention.attend(Qkv::new(q.reshape(&at), k.reshape(&at), v.reshape(&at)))
}

/// Values and keys with a constant per position are no linear map of x with a bias.
#[test]
fn attention_with_constants_per_position() {
    let at = [2, 1, 1];
    let tape = Tape::new();
    let one = tape.constant(tensor(&[1, 1], vec![1.0]));
    let position = tape.constant(tensor(&[2, 1], vec![10.0, -10.0]));
    let x = tape.var(tensor(&[2, 1], vec![0.0, 0.0]));
    let (map, bias) = (|| x.linear(one), tape.constant(vec![1.0]));
    for y in [
        attend(map() + bias, map(), map() + position, at),
        attend(map() + bias, map() + position, map(), at),
        attend(map() + bias, map() + position, map() + position, at),
        // After the split into heads.
        DenseAttention::new(1, Mask::none()).attend(Qkv::new(
            map().reshape(&at) + bias,
            map().reshape(&at),
            map().reshape(&at) + position.reshape(&at),
        )),
        // With a map behind it.
        attend(map() + bias, map(), map() + position, at)
            .reshape(&[2, 1])
            .linear(one),
    ] {
        let [found, proven] = sides(y, x, 0.01);
        assert!(found <= proven, "{found} and {proven}");
        let here = bound(y, x, Lp::Two, Domain::Here).unwrap().upper().get();
        assert!(found <= here, "{found} and {here}");
    }
    // A bias is the same in all positions.
    let biased = attend(map() + bias, map() + bias, map() + bias, at);
    let [found, proven] = sides(biased, x, 0.01);
    assert!(found <= proven && proven < 2.0, "{found} and {proven}");
}

/// A reshape that puts positions into heads is no split into heads.
#[test]
fn attention_whose_heads_are_positions() {
    let tape = Tape::new();
    let w = tape.constant(tensor(&[1, 1], vec![3.0]));
    let x = tape.var(tensor(&[2, 1], vec![0.5, 0.1]));
    let part = x.linear(w);
    let y = attend(part, part, part, [1, 2, 1]);
    let [found, proven] = sides(y, x, 1.0);
    assert!(
        found >= 3.0 * (1.0 - 1e-12) && found <= proven,
        "{found} and {proven}"
    );
    let here = bound(y, x, Lp::Two, Domain::Here).unwrap().upper().get();
    assert!(found <= here, "{found} and {here}");
}

/// Coefficients that stay are divided by 1 − p, so what attention gives is larger than its values.
#[test]
fn attention_with_dropout_reaches_further() {
    let tape = Tape::new();
    let x = tape.var(tensor(&[1, 1, 1], vec![0.1]));
    let kept = (0..64).find_map(|seed| {
        let attention = DenseAttention {
            dropout: Some((0.5, seed)),
            ..DenseAttention::new(1, Mask::none())
        };
        let y = attention.attend(Qkv::new(x, x, x));
        (y.item() > 0.0).then_some(y)
    });
    let y = kept.expect("a seed that keeps the one coefficient");
    // z = (2x)², so z′ = 8x.
    let [found, proven] = sides(y * y, x, 0.1);
    assert!(
        (found - 0.8).abs() < 1e-12 && found <= proven,
        "{found} and {proven}"
    );
}

/// Entries of a vector that are gathered several times make a longer vector.
#[test]
fn entries_that_are_gathered_twice() {
    let four = Pattern::from_pairs(1, 4, &[(0, 0), (0, 1), (0, 2), (0, 3)]).unwrap();
    let tape = Tape::new();
    let x = tape.var(vec![0.5]);
    let y = gather_rows(&four, x).reshape(&[1, 4]);
    let [found, proven] = sides(y.linear(y), x, 0.5);
    assert!(
        (found - 4.0).abs() < 1e-12 && found <= proven,
        "{found} and {proven}"
    );
}

/// −relu(x) is at most 0.
#[test]
fn a_bent_function_may_have_any_signs() {
    for (below, above, range) in [
        (0.0, 1.0, [0.0, f64::INFINITY]),
        (-1.0, 1.0, [0.0, f64::INFINITY]),
        (0.5, 1.0, [f64::NEG_INFINITY, f64::INFINITY]),
        (0.0, -1.0, [f64::NEG_INFINITY, 0.0]),
        (1.0, -2.0, [f64::NEG_INFINITY, 0.0]),
        (-1.0, -2.0, [f64::NEG_INFINITY, f64::INFINITY]),
    ] {
        assert_eq!(
            Function::bent("bent", below, above).range,
            range,
            "{below}, {above}"
        );
    }
    let tape = Tape::new();
    let x = tape.var(vec![0.5]);
    let function = Function::bent("negative_relu", 0.0, -1.0);
    let y = x.unary(
        function,
        map::unary(&x.value(), |x: f64| -x.max(0.0)),
        |p| {
            -(p.gy()
                * p.tape().constant(map::unary(&p.x().value(), |x: f64| {
                    f64::from(u8::from(x > 0.0))
                })))
        },
    );
    assert!(bound(1.0 / (y + 1.0), x, Lp::Two, Domain::Everywhere).is_err());
}

/// What is computed from a constant is not recorded: there is nothing to bound.
#[test]
fn an_input_that_is_a_constant_is_refused() {
    let tape = Tape::new();
    let (constant, variable) = (tape.constant(vec![1.0]), tape.var(vec![1.0]));
    for y in [constant * 2.0, constant * 2.0 + variable] {
        for error in [
            bound(y, constant, Lp::Two, Domain::Everywhere).unwrap_err(),
            rounding(y, constant, 0.0).unwrap_err(),
        ] {
            let text = error.to_string();
            assert!(text.contains("a variable (Tape::var)"), "{text}");
        }
    }
    // An output that does not depend on the input has the constant 0.
    let none = bound(constant * 2.0, variable, Lp::Two, Domain::Everywhere).unwrap();
    assert_eq!(none.upper().get(), 0.0);
}

/// Nothing in, nothing out.
#[test]
fn a_residual_of_no_rows() {
    let tape = Tape::new();
    let x = tape.var(tensor(&[0, 3], Vec::<f64>::new()));
    for p in [Lp::One, Lp::Two, Lp::Inf] {
        for domain in [Domain::Everywhere, Domain::Here, Domain::Rows(1.0)] {
            let upper = bound(x.relu() + x, x, p, domain).unwrap().upper();
            assert!(upper.get() >= 0.0);
        }
    }
}

/// A number that is added to all entries of a query is a bias of that many entries.
#[test]
fn attention_with_a_bias_that_is_broadcast() {
    let (tape, d, at) = (Tape::new(), 16, [2, 1, 16]);
    let columns = |[a, b]: [f64; 2]| {
        let rows = [a, b].repeat(d);
        tape.constant(tensor(&[d, 2], rows))
    };
    let mut unit = vec![0.0; 2 * d];
    (unit[0], unit[3]) = (1.0, 1.0);
    let w_v = tape.constant(tensor(&[d, 2], unit));
    let x = tape.var(tensor(&[2, 2], vec![0.0, 0.999, 0.0, -0.999]));
    let bias = tape.constant(vec![5.0]);
    let q = x.linear(columns([0.0, 0.0]));
    let (k, v) = (
        x.linear(columns([0.25, 0.0])).reshape(&at),
        x.linear(w_v).reshape(&at),
    );
    for q in [
        (q + bias).reshape(&at),
        q.reshape(&at) + bias,
        q.reshape(&at) + bias.reshape(&[1, 1]),
    ] {
        let y = DenseAttention::new(d, Mask::none()).attend(Qkv::new(q, k, v));
        let [found, proven] = sides(y, x, 1.0);
        assert!(found > 5.0 && found <= proven, "{found} and {proven}");
    }
}

/// Between two maps without a neuron nothing passes.
#[test]
fn a_hidden_layer_without_neurons() {
    let tape = Tape::new();
    let x = tape.var(tensor(&[2, 3], vec![1.0; 6]));
    let [first, second] = [[0, 3], [2, 0]].map(|at| tape.var(tensor(&at, Vec::<f64>::new())));
    for p in [Lp::One, Lp::Two, Lp::Inf] {
        let y = x.linear(first).relu().linear(second);
        let bound = bound(y, x, p, Domain::Everywhere).unwrap();
        assert_eq!(
            (bound.upper().get(), bound.var().unwrap().item()),
            (0.0, 0.0)
        );
    }
}

/// The computed variance of a row of equal numbers is not always 0.
#[test]
fn a_norm_of_a_row_without_variance_has_no_bound() {
    let tape = Tape::new();
    for (row, may_pass) in [
        (vec![0.1; 3], false),
        (vec![1e8, 1e8, 1e8 + 2f64.powi(-26)], true),
    ] {
        let x = tape.var(tensor(&[1, 3], row.clone()));
        let y = x.layer_norm(None, None, 0.0);
        match bound(y, x, Lp::Two, Domain::Here) {
            Ok(bound) => {
                // The exact variance of (0, 0, δ) is 2δ²/9.
                let variance = 2.0 * (row[2] - row[0]).powi(2) / 9.0;
                let upper = bound.upper().get();
                assert!(may_pass && upper >= 1.0 / variance.sqrt(), "{upper}");
            }
            Err(error) => assert!(error.to_string().contains("without variance"), "{error}"),
        }
    }
}
