//! Metrics, counted by hand.

use emmy::tensor::{Tensor, tensor};
use emmy::train::metrics::{accuracy, confusion, cross_entropy, precision_recall, predictions};

fn logits() -> Tensor<f64> {
    tensor(
        &[4, 3],
        vec![1., 2., 0., 3., 3., 0., f64::NAN, 0., 1., -1., -2., -3.],
    )
}

#[test]
fn counted_by_hand() {
    let labels = [1, 1, 2, 2];
    // The third row has a NaN: it predicts nothing, though the largest of the others is right.
    assert_eq!(predictions(&logits()), [Some(1), Some(0), None, Some(0)]);
    assert_eq!(accuracy(&logits(), &labels, &[true; 4]), 0.25);
    assert_eq!(
        accuracy(&logits(), &labels, &[true, false, true, false]),
        0.5
    );
    assert!(accuracy(&logits(), &labels, &[false; 4]).is_nan());
    let counts = confusion(&logits(), &labels, &[true; 4]);
    assert_eq!(counts, ndarray::array![[0, 0, 0], [1, 1, 0], [1, 0, 0]]);
    let first_two = confusion(&logits(), &labels, &[true, true, false, false]);
    assert_eq!(first_two, ndarray::array![[0, 0, 0], [1, 1, 0], [0, 0, 0]]);
    let [zero, one, two] = precision_recall(&counts)[..] else {
        panic!()
    };
    assert!(zero.0 == 0.0 && zero.1.is_nan());
    assert_eq!(one, (1.0, 0.5));
    assert!(two.0.is_nan() && two.1 == 0.0);
}

#[test]
fn a_network_that_is_not_a_number_is_never_right() {
    let nan = tensor(&[3, 2], vec![f64::NAN; 6]);
    assert_eq!(predictions(&nan), [None; 3]);
    assert_eq!(accuracy(&nan, &[0, 0, 1], &[true; 3]), 0.0);
    assert_eq!(confusion(&nan, &[0, 0, 1], &[true; 3]).sum(), 0);
    // Infinite logits are compared like others.
    let infinity = f64::INFINITY;
    let edge = tensor(&[2, 2], vec![-infinity, infinity, -infinity, -infinity]);
    assert_eq!(predictions(&edge), [Some(1), Some(0)]);
}

#[test]
fn cross_entropy_is_that_of_the_tape() {
    let x = logits()
        .mapv(|x| if x.is_nan() { 700.0 } else { x })
        .into_shared();
    let (labels, mask) = ([1, 1, 2, 2], [true, false, true, true]);
    let tape = emmy::Tape::new();
    let expected = tape
        .var(x.clone())
        .cross_entropy(&labels, Some(&mask))
        .item();
    approx::assert_relative_eq!(cross_entropy(&x, &labels, &mask), expected, epsilon = 1e-13);
}

#[test]
#[should_panic(expected = "accuracy: 4 rows, 2 labels, 4 flags")]
fn sizes_must_agree() {
    accuracy(&logits(), &[0, 1], &[true; 4]);
}
