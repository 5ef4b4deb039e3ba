//! What slices and laws refuse.

use emmy::symmetry::{Law, Slice, Symmetry, Term};

#[test]
fn a_part_of_a_part_is_a_part() {
    let columns = Slice::new(0, [3, 4, 1]).narrow(1..3);
    assert_eq!(columns.narrow(1..2).range, 2..3);
}

#[test]
#[should_panic(expected = "narrow: neurons 1..4 of 3")]
fn a_slice_has_only_its_neurons() {
    let _ = Slice::new(0, [1, 3, 4]).narrow(1..4);
}

#[test]
#[should_panic(expected = "layer 1: neurons 2..5 of a parameter read as [1, 4, 3], which has 4")]
fn a_law_speaks_of_neurons_there_are() {
    let slice = Slice {
        parameter: 0,
        shape: [1, 4, 3],
        range: 2..5,
    };
    let _ = Law::new(
        "layer 1",
        1,
        Symmetry::Rescaling,
        vec![Term::incoming(slice)],
    );
}

#[test]
#[should_panic(expected = "layer 1: terms of [3, 4] neurons")]
fn all_terms_are_about_the_same_neurons() {
    let terms = vec![
        Term::incoming(Slice::new(0, [1, 3, 4])),
        Term::outgoing(Slice::new(1, [3, 4, 1])),
    ];
    let _ = Law::new("layer 1", 1, Symmetry::Rescaling, terms);
}
