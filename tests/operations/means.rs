//! Means of nothing.

use emmy::autodiff::{Tape, grad};
use emmy::tensor::Tensor;

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
