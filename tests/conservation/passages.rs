//! Passages, one after the other.

use emmy::symmetry::{Change, Passage, Way};

#[test]
fn what_is_gone_does_not_come_back() {
    let relu = Passage::homogeneous(1.0);
    let square = Passage::homogeneous(2.0);
    let both = square.then(relu).then(square);
    assert_eq!(both.way(Change::Each), Way::Carries(4.0));
    assert_eq!(both.way(Change::Mix), Way::Breaks);
    let norm = Passage::layer_norm(0.0);
    assert_eq!(norm.then(Passage::BREAKS).way(Change::All), Way::Absorbs);
    assert_eq!(norm.then(relu).way(Change::Shift), Way::Absorbs);
    assert_eq!(relu.then(norm).way(Change::Shift), Way::Breaks);
    assert_eq!(Passage::layer_norm(1e-5).way(Change::All), Way::Breaks);
    assert_eq!(Passage::layer_norm(1e-5).way(Change::Mean), Way::Absorbs);
    assert_eq!(relu.then(norm).way(Change::Mean), Way::Breaks);
}
