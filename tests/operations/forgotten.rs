//! Values that are freed before the tape ends: they are computed again with the same bits, and derivatives
//! do not need them.

use emmy::autodiff::{grad, grad_and_free, hvp};
use emmy::ops::{Sparse, sparse};
use emmy::sparse::Pattern;
use emmy::tensor::tensor;
use emmy::{Tape, Tensor, Var, kernels::draw};
use emmy_strategies::ACTIVATIONS;
use std::sync::Arc;

fn random(shape: &[usize], seed: u64) -> Tensor<f32> {
    draw::uniform(shape, 1.0, &mut draw::rng(seed))
}

fn pattern() -> Arc<Pattern> {
    Pattern::from_pairs(3, 4, &[(0, 0), (0, 3), (1, 2), (2, 1), (2, 2)]).expect("entries in range")
}

/// The operations whose values can be computed again, of variables that are made here.
fn repeatable<'t>(tape: &'t Tape<f32>) -> Vec<Var<'t, f32>> {
    let var = |shape: &[usize], seed| tape.var(random(shape, seed));
    let (x, w, b) = (var(&[4, 5], 0), var(&[2, 5], 1), var(&[5], 2));
    let (p, s) = (pattern(), var(&[5], 3));
    vec![
        x + b,
        x.add_bias(b),
        var(&[2, 4, 5], 4).matmul(var(&[5, 3], 5)),
        x.linear(w),
        sparse::spmm(&p, s, x),
        sparse::spmm_t(&p, s, var(&[3, 5], 6)),
    ]
}

#[test]
fn a_forgotten_value_has_its_shape_and_comes_back_with_the_same_bits() {
    let tape = Tape::new();
    for y in repeatable(&tape) {
        let (value, shape) = (y.value(), y.shape());
        y.forget();
        assert!(!y.is_kept(), "{y:?}");
        assert_eq!((y.shape(), y.ndim()), (shape.clone(), shape.len()));
        assert_eq!(y.len(), value.len());
        y.forget();
        assert!(!y.is_kept());
        let before = tape.len();
        assert_eq!(y.value(), value);
        assert!(y.is_kept());
        assert_eq!(tape.len(), before);
    }
}

#[test]
fn a_sum_in_place_forgets_the_product_but_no_other_value() {
    let tape = Tape::new();
    let x = tape.var(random(&[4, 5], 0));
    let (w, b) = (tape.var(random(&[2, 5], 1)), tape.var(random(&[2], 2)));
    let product = x.linear(w);
    let held = product.value();
    let plain = product + b;
    let y = product.add_bias(b);
    assert!(!product.is_kept());
    assert_eq!(y.value(), plain.value());
    assert_eq!(product.value(), held, "what a user holds does not change");
    // exp is not computed again, and its derivative reads it.
    let y = w.exp();
    let value = y.value();
    let _ = y.add_bias(tape.var(random(&[5], 3)));
    assert!(y.is_kept());
    assert_eq!(y.value(), value);
}

#[test]
fn without_derivatives_nothing_is_forgotten() {
    let tape = Tape::new();
    let (x, w) = (random(&[4, 5], 0), random(&[2, 5], 1));
    let (x, w) = (tape.constant(x), tape.constant(w));
    let y = x.linear(w);
    let sum = y.add_bias(tape.var(random(&[2], 2)));
    let s = Sparse::new(&pattern(), tape.constant(random(&[5], 3)));
    let product = s.matmul(x);
    for y in [y, sum, product] {
        y.forget();
    }
    assert!(y.is_kept() && x.is_kept() && product.is_kept());
    // The sum has a variable.
    assert!(!sum.is_kept());
}

/// One layer after another, each forgotten: they come back without recursion.
#[test]
fn a_long_chain_is_computed_again() {
    let tape = Tape::new();
    let x = tape.var(vec![1.0_f64, 2.0]);
    let mut sums = vec![x];
    for _ in 0..30_000 {
        let last = sums[sums.len() - 1];
        sums.push(last + last * 0.0);
    }
    let y = sums[sums.len() - 1];
    sums[1..].iter().for_each(|sum| sum.forget());
    assert_eq!(y.value(), tensor(&[2], vec![1.0, 2.0]));
}

/// A layer and its activation, with and without values that are forgotten: the derivatives of first and
/// second order are the same, and none of them reads what `consume` forgets.
#[test]
fn derivatives_do_not_read_what_a_layer_forgets() {
    for activation in ACTIVATIONS {
        let results = [false, true].map(|forgets| {
            let tape = Tape::new();
            let (x, w) = (tape.var(random(&[4, 5], 0)), tape.var(random(&[6, 5], 1)));
            let b = tape.var(random(&[6], 2));
            let product = x.linear(w);
            let sum = match forgets {
                true => product.add_bias(b),
                false => product + b,
            };
            let y = match forgets {
                true => activation.consume(sum),
                false => activation.apply(sum),
            };
            let loss = (y * y).sum_all();
            let kept = sum.is_kept();
            let first = grad(loss, &[x, w, b]);
            assert_eq!(product.is_kept(), !forgets, "{activation:?}");
            assert_eq!(
                sum.is_kept(),
                kept,
                "{activation:?}: the derivative reads x"
            );
            let along = [random(&[4, 5], 3), random(&[6, 5], 4), random(&[6], 5)];
            let second = hvp(loss, &[x, w, b], &along);
            assert_eq!(product.is_kept(), !forgets, "{activation:?}");
            assert_eq!(
                sum.is_kept(),
                kept,
                "{activation:?}: the second derivative reads x"
            );
            (y.value(), first, second)
        });
        assert_eq!(results[0], results[1], "{activation:?}");
    }
}

/// Of every operation of a small network, only the loss and the leaves stay, and what a user holds.
#[test]
fn the_last_gradient_is_the_same_and_frees_the_tape() {
    let results = [false, true].map(|last| {
        let tape = Tape::new();
        let (x, w) = (tape.var(random(&[4, 5], 0)), tape.var(random(&[6, 5], 1)));
        let b = tape.var(random(&[6], 2));
        let hidden = x.linear(w).add_bias(b).layer_norm(None, None, 1e-5).gelu();
        let beside = hidden.exp();
        let loss = (hidden * hidden.softmax(1)).sum_all();
        let held = hidden.value();
        let xs = [x, w, b];
        let gradients = match last {
            true => grad_and_free(loss, &xs),
            false => grad(loss, &xs),
        };
        let kept: Vec<_> = (0..tape.len())
            .filter(|&id| tape.handle(id).is_kept())
            .collect();
        if last {
            let leaves = [x, w, b, beside, loss].map(|var| var.id());
            assert_eq!(kept, leaves);
        }
        (gradients, loss.value(), held)
    });
    assert_eq!(results[0], results[1]);
}

#[test]
#[should_panic(expected = "exp: its value was freed by `grad_and_free`")]
fn a_value_that_was_freed_is_not_read() {
    let tape = Tape::new();
    let x = tape.var(random(&[3], 0));
    let y = x.exp();
    grad_and_free(y.sum_all(), &[x]);
    y.value();
}

/// Zeros would be wrong.
#[test]
#[should_panic(expected = "exp: it was freed by `grad_and_free`")]
fn a_derivative_through_what_was_freed_is_refused() {
    let tape = Tape::new();
    let x = tape.var(random(&[3], 0));
    let trunk = x.exp();
    let (first, second) = (trunk.sum_all(), trunk.mean_all());
    grad_and_free(first, &[x]);
    grad(second, &[x]);
}
