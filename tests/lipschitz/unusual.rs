//! Bounds where an operand is unusual: constants per position, rows chosen twice, dropped coefficients, inputs
//! that no tape records. Each was too small once.

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
