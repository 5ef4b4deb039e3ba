//! The blocks of a looks-linear start.

use emmy::init::{Position, identity, looks_linear};
use emmy::tensor::{Tensor, tensor};

/// D with entries 1, 2, …, row by row.
fn counted(out: usize, input: usize) -> Tensor<f64> {
    let entries = (1..=out * input).map(|k| k as f64).collect();
    tensor(&[out, input], entries)
}

fn drawn(out: usize, input: usize, position: Position) -> Vec<f64> {
    let w = looks_linear(out, input, position, counted);
    assert_eq!(w.shape(), [out, input]);
    w.iter().copied().collect()
}

#[test]
#[rustfmt::skip]
fn blocks_are_those_of_the_paper() {
    assert_eq!(drawn(4, 2, Position::First), [
        1.0, 2.0,
        3.0, 4.0,
        -1.0, -2.0,
        -3.0, -4.0,
    ]);
    assert_eq!(drawn(2, 4, Position::Hidden), [
        1.0, 2.0, -1.0, -2.0,
        -1.0, -2.0, 1.0, 2.0,
    ]);
    assert_eq!(drawn(2, 4, Position::Last), [
        1.0, 2.0, -1.0, -2.0,
        3.0, 4.0, -3.0, -4.0,
    ]);
    assert_eq!(drawn(1, 3, Position::Only), [1.0, 2.0, 3.0]);
}

#[test]
#[rustfmt::skip]
fn of_odd_widths_the_mirrored_half_is_cut() {
    assert_eq!(drawn(3, 1, Position::First), [1.0, 2.0, -1.0]);
    assert_eq!(drawn(3, 3, Position::Hidden), [
        1.0, 2.0, -1.0,
        3.0, 4.0, -3.0,
        -1.0, -2.0, 1.0,
    ]);
    assert_eq!(drawn(1, 3, Position::Last), [1.0, 2.0, -1.0]);
    assert_eq!(drawn(1, 1, Position::Hidden), [1.0]);
}

#[test]
fn positions() {
    use Position::{First, Hidden, Last, Only};
    assert_eq!([0, 1, 2].map(|l| Position::of(l, 3)), [First, Hidden, Last]);
    assert_eq!(Position::of(0, 1), Only);
}

#[test]
#[rustfmt::skip]
fn identities_are_cut_to_shape() {
    let entries = |out, input| identity::<f32>(out, input).into_iter().collect::<Vec<_>>();
    assert_eq!(entries(2, 3), [
        1.0, 0.0, 0.0,
        0.0, 1.0, 0.0,
    ]);
    assert_eq!(entries(2, 1), [1.0, 0.0]);
}

#[test]
#[should_panic(expected = "looks_linear: a block for 4 neurons of 2, First layer")]
fn a_block_has_the_shape_asked_for() {
    let _ = looks_linear(4, 2, Position::First, |out, _| counted(out, 1));
}
