//! Sums of laws over layers.

use emmy::symmetry::{Law, Slice, Symmetry, Term};
use std::ops::Range;

#[test]
fn a_sum_over_layers_telescopes() {
    let law = |l: usize, range: Range<usize>| {
        let terms = vec![
            Term::incoming(Slice::new(2 * l, [1, 4, 4])).narrow(range.clone()),
            Term::attention(Slice::new(2 * l + 1, [1, 4, 1])).narrow(range.clone()),
            Term::outgoing(Slice::new(2 * l + 2, [4, 4, 1])).narrow(range),
        ];
        Law::new("", l + 1, Symmetry::Rescaling, terms)
    };
    // Two layers with two heads of two neurons, and a last one: Eq. (9).
    let laws = [law(0, 0..2), law(0, 2..4), law(1, 0..2), law(1, 2..4)];
    let sum = Law::sum("all", &laws);
    let found: Vec<_> = (sum.terms.iter())
        .map(|t| (t.slice.parameter, t.weight))
        .collect();
    assert_eq!(found, [(0, 1.0), (1, -1.0), (3, -1.0), (4, -1.0)]);
    assert_eq!(sum.neurons(), 1);
}

fn rows(range: Range<usize>) -> Law {
    let rows = Term::incoming(Slice::new(0, [1, 4, 4])).narrow(range);
    Law::new("", 1, Symmetry::Rescaling, vec![rows])
}

#[test]
#[should_panic(expected = "sum: the laws do not weigh all of parameter 0 alike")]
fn a_sum_is_over_whole_parameters() {
    let _ = Law::sum("part", &[rows(0..2)]);
}

#[test]
#[should_panic(expected = "sum: the laws do not weigh all of parameter 0 alike")]
fn half_a_parameter_twice_is_not_the_whole() {
    let _ = Law::sum("part", &[rows(0..2), rows(0..2)]);
}

#[test]
#[should_panic(expected = "sum: the laws do not agree on the entries of parameter 0")]
fn a_parameter_has_one_number_of_entries() {
    let other = Term::incoming(Slice::new(0, [1, 4, 3]));
    let other = Law::new("", 1, Symmetry::Rescaling, vec![other]);
    let _ = Law::sum("two", &[rows(0..4), other]);
}

#[test]
#[should_panic(expected = "nothing: terms of [] neurons")]
fn a_sum_of_what_cancels_is_no_law() {
    let terms = vec![
        Term::incoming(Slice::new(0, [1, 3, 3])),
        Term::outgoing(Slice::new(0, [3, 3, 1])),
    ];
    let law = Law::new("", 1, Symmetry::Rescaling, terms);
    let _ = Law::sum("nothing", &[law]);
}
