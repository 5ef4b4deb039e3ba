//! δ and c on the tape, where they can be differentiated.

use super::{Law, Side, Slice, Symmetry};
use crate::autodiff::Var;
use crate::real::Real;

/// δ of a law on the tape: shape `[n]`, for a matrix `[n, n]`.
///
/// `parameters` and `gradients` stand in the model's order; gradients from [`grad_graph`](crate::autodiff::grad_graph) make δ a function
/// of the parameters that can be differentiated and trained on. [`Law::measure`] gives the same numbers without a tape.
///
/// # Panics
/// If a parameter or gradient is missing or has another number of entries than the law says.
#[track_caller]
pub fn delta<'t, F: Real>(
    law: &Law,
    parameters: &[Var<'t, F>],
    gradients: &[Var<'t, F>],
) -> Var<'t, F> {
    let term = |term: &super::Term| {
        let m = rows(law, &term.slice, parameters);
        let n = rows(law, &term.slice, gradients);
        let (weight, incoming) = (F::of(term.weight), term.side == Side::Incoming);
        match (law.symmetry, incoming) {
            (Symmetry::Rescaling, _) => (m * n).sum(&[1], false).scale(weight),
            (Symmetry::Translation, _) => n.sum(&[1], false).scale(weight),
            (Symmetry::Linear, true) => n.matmul(m.t()),
            (Symmetry::Linear, false) => -m.matmul(n.t()),
            (Symmetry::Rotation, _) => n.matmul(m.t()) - m.matmul(n.t()),
        }
    };
    let terms = law.terms.iter().map(term);
    terms.reduce(|a, b| a + b).expect("a law has a term")
}

/// c of a law on the tape, as [`Law::balance`]; `None` for rotations. The mean of its squares is a penalty on imbalance.
///
/// # Panics
/// If a parameter is missing or has another number of entries than the law says.
#[track_caller]
pub fn balance<'t, F: Real>(law: &Law, parameters: &[Var<'t, F>]) -> Option<Var<'t, F>> {
    let term = |term: &super::Term| {
        let m = rows(law, &term.slice, parameters);
        let sign = if term.side == Side::Incoming {
            1.0
        } else {
            -1.0
        };
        let weight = F::of(term.weight);
        match law.symmetry {
            Symmetry::Rescaling => Some((m * m).sum(&[1], false).scale(weight)),
            Symmetry::Translation => Some(m.sum(&[1], false).scale(weight)),
            Symmetry::Linear => Some(m.matmul(m.t()).scale(F::of(sign))),
            Symmetry::Rotation => None,
        }
    };
    let terms: Option<Vec<_>> = law.terms.iter().map(term).collect();
    terms?.into_iter().reduce(|a, b| a + b)
}

/// The entries that belong to the neurons, a row a neuron.
#[track_caller]
fn rows<'t, F: Real>(law: &Law, slice: &Slice, all: &[Var<'t, F>]) -> Var<'t, F> {
    let Some(x) = all.get(slice.parameter) else {
        panic!("{}: there is no parameter {}", law.name, slice.parameter);
    };
    assert_eq!(
        x.len(),
        slice.len(),
        "{}: parameter {} has {} entries, the law speaks of {}",
        law.name,
        slice.parameter,
        x.len(),
        slice.len()
    );
    let [outer, _, inner] = slice.shape;
    let entries = x.reshape(&slice.shape).slice(1, slice.range.clone());
    entries
        .permute(&[1, 0, 2])
        .reshape(&[slice.neurons(), outer * inner])
}
