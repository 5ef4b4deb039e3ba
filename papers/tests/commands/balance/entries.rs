//! The change of parameters, counted by hand.

use emmy::tensor::tensor;
use papers::balance::entries::{Change, Spread, change};

#[test]
fn counted_by_hand() {
    let initial = tensor(&[2, 3], vec![0.0, 1.0, 1.0, -2.0, 0.0, 5e-5]);
    let last = tensor(&[2, 3], vec![0.0, 2.0, 1.0, 2.0, 0.5, 0.0]);
    let change = change::<f64>(&initial, &last);
    assert_eq!(change.magnitude, [0.0, 2.0, 1.0, 2.0, 0.5, 0.0]);
    assert_eq!(change.absolute, [0.0, 1.0, 0.0, 4.0, 0.5, 5e-5]);
    assert_eq!(change.relative, [0.0, 0.5, 0.0, 2.0, 1.0, f64::INFINITY]);
    assert_eq!(change.share_unchanged(), 2.0 / 6.0);
    // Significant are 2, 1, 2, 0.5.
    let least = Change::SIGNIFICANT;
    assert_eq!(change.share_above(0.5, least), 2.0 / 4.0);
    assert_eq!(change.share_above(0.4, least), 3.0 / 4.0);
    assert_eq!(change.share_above(0.4, 2.0), 1.0);
    assert!(change.share_above(0.4, 3.0).is_nan());
    let spread = change.absolute_spread().unwrap();
    assert_eq!((spread.min, spread.median, spread.max), (5e-5, 0.75, 4.0));
    assert_eq!(spread.mean, 5.50005 / 4.0);
    // 0.5, 1, 2; what came to 0 has no finite change.
    let spread = change.relative_spread().unwrap();
    assert_eq!((spread.lower, spread.median), (0.75, 1.0));
    assert_eq!((spread.upper, spread.max), (1.5, 2.0));
}

#[test]
fn nothing_has_no_share_and_no_spread() {
    let none = change::<f32>(&tensor(&[0], vec![]), &tensor(&[0], vec![]));
    assert!(none.share_unchanged().is_nan() && none.relative_spread().is_none());
    let one = Spread::of([3.0]).unwrap();
    assert!([one.min, one.lower, one.median, one.upper, one.max, one.mean] == [3.0; 6]);
}

#[test]
#[should_panic(expected = "change: from shape [2] to shape [1, 2]")]
fn shapes_must_agree() {
    let _ = change(
        &tensor(&[2], vec![0.0, 1.0]),
        &tensor(&[1, 2], vec![0.0, 1.0]),
    );
}
