//! The conventions of the chapter "The engine": derivatives at kinks, and reductions of nothing.

use emmy::autodiff::{Tape, Var, grad};
use emmy::ops::sparse::{segment_max, segment_mean};
use emmy::sparse::Pattern;
use emmy::tensor::{Tensor, tensor};

/// The derivative of Σ f(x).
fn derivative(f: impl for<'t> Fn(Var<'t, f64>) -> Var<'t, f64>, x: &[f64]) -> Vec<f64> {
    let tape = Tape::new();
    let x = tape.var(x.to_vec());
    grad(f(x).sum_all(), &[x])[0].iter().copied().collect()
}

#[test]
fn at_a_kink_a_derivative_is_that_of_the_flat_side() {
    assert_eq!(derivative(|x| x.relu(), &[-1.0, 0.0, 1.0]), [0.0, 0.0, 1.0]);
    assert_eq!(derivative(|x| x.abs(), &[-2.0, 0.0, 2.0]), [-1.0, 0.0, 1.0]);

    let around = [-0.6, -0.5, -0.4, 1.9, 2.0, 2.1];
    assert_eq!(
        derivative(|x| 3.0 * x.clamp(-0.5, 2.0), &around),
        [0.0, 0.0, 3.0, 3.0, 0.0, 0.0]
    );
    let hardtanh = derivative(|x| x.hardtanh(), &[-1.0, 0.0, 1.0]);
    assert_eq!(hardtanh, [0.0, 1.0, 0.0]);
}

#[test]
fn entries_that_are_the_maximum_share_its_derivative() {
    let x = [2.0, -1.0, 2.0, 2.0, 1.0, -1.0];
    let third = 1.0 / 3.0;
    let shared = [third, 0.0, third, third, 0.0, 0.0];
    assert_eq!(derivative(|x| x.max_all(), &x), shared);
    let least = [0.0, 0.5, 0.0, 0.0, 0.0, 0.5];
    assert_eq!(derivative(|x| x.min_all(), &x), least);

    let tape = Tape::new();
    let (a, b) = (tape.var(vec![1.0, 2.0, 3.0]), tape.var(vec![1.0, 3.0, 2.0]));
    for (y, greater) in [(a.maximum(b), 1.0), (a.minimum(b), 0.0)] {
        let d = grad(y.sum_all(), &[a, b]);
        assert_eq!(d[0].as_slice(), Some(&[0.5, 1.0 - greater, greater][..]));
        assert_eq!(d[1].as_slice(), Some(&[0.5, greater, 1.0 - greater][..]));
    }

    let pattern = Pattern::from_pairs(1, 3, &[(0, 0), (0, 1), (0, 2)]).unwrap();
    let v = tape.var(tensor(&[3, 1], vec![5.0, 4.0, 5.0]));
    let d = grad(segment_max(&pattern, v).sum_all(), &[v]);
    assert_eq!(d[0].iter().copied().collect::<Vec<_>>(), [0.5, 0.0, 0.5]);
}

#[test]
fn a_softmax_of_nothing_is_zero() {
    let tape = Tape::new();
    let x = tape.var(tensor(&[2, 2], vec![1.0, 2.0, 3.0, 3.0]));
    let mask = tensor(&[2, 2], vec![false, false, true, true]);
    let y = x.softmax_masked(-1, &mask);
    assert_eq!(y.value(), tensor(&[2, 2], vec![0.0, 0.0, 0.5, 0.5]));
    assert!(x.log_softmax_masked(-1, &mask).value()[[0, 0]] == f64::NEG_INFINITY);
    let sums = x.logsumexp_masked(-1, &mask, false);
    assert_eq!(sums.value()[[0]], f64::NEG_INFINITY);
    let weights = tape.constant(tensor(&[2, 2], vec![1.0, 5.0, 1.0, 5.0]));
    let d = grad((y * weights).sum_all(), &[x]);
    assert_eq!(d[0], tensor(&[2, 2], vec![0.0, 0.0, -1.0, 1.0]));
    let d = grad(sums.slice(0, 0..1).sum_all(), &[x]);
    assert!(d[0].iter().all(|&x| x == 0.0));
}

#[test]
fn the_gradient_of_a_norm_at_zero_is_zero() {
    assert_eq!(derivative(|x| x.norm(&[0], false), &[0.0, 0.0]), [0.0, 0.0]);
    assert_eq!(derivative(|x| x.norm(&[0], false), &[4.0, 0.0]), [1.0, 0.0]);
    assert_eq!(derivative(|x| x.frobenius_norm(), &[0.0]), [0.0]);
}

#[test]
fn a_row_without_entries_has_mean_and_maximum_zero() {
    let pattern = Pattern::from_pairs(2, 2, &[(0, 0), (0, 1)]).unwrap();
    let tape = Tape::new();
    let v = tape.var(tensor(&[2, 1], vec![-3.0, -5.0]));
    let (mean, max) = (segment_mean(&pattern, v), segment_max(&pattern, v));
    assert_eq!(mean.value(), tensor(&[2, 1], vec![-4.0, 0.0]));
    assert_eq!(max.value(), tensor(&[2, 1], vec![-3.0, 0.0]));
}

#[test]
#[should_panic(expected = "cross_entropy")]
fn a_loss_of_no_row_is_refused() {
    let tape = Tape::new();
    let x = tape.var(tensor(&[2, 2], vec![1.0, 2.0, 3.0, 3.0]));
    x.cross_entropy(&[0, 1], Some(&[false, false]));
}

#[test]
fn the_mean_of_nothing_is_not_a_number() {
    let tape = Tape::<f64>::new();
    let x = tape.var(Tensor::zeros(&[2, 0][..]));
    for y in [x.mean(&[1], false), x.var(&[1], false)] {
        assert_eq!(y.shape(), [2]);
        assert!(y.value().iter().all(|y| y.is_nan()));
        assert_eq!(grad(y.sum_all(), &[x])[0].shape(), [2, 0]);
    }
    assert!(x.mean(&[], false).item().is_nan());
    assert!(x.mse(x).item().is_nan() && x.bce_with_logits(x).item().is_nan());
    // A result without elements: no mean is taken.
    assert_eq!(x.mean(&[0], false).shape(), [0]);
    assert_eq!(tape.scalar(3.0).mean(&[], false).item(), 3.0);
}
