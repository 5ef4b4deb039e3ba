//! δ and c on the tape, where they can be differentiated.

use super::{Law, Side, Symmetry, Term};
use crate::autodiff::Var;
use crate::real::Real;
use ndarray::Array2;

/// δ of a law on the tape: shape `[n]`, for a matrix `[n, n]`.
///
/// `parameters` and `gradients` stand in the model's order; gradients from
/// [`grad_graph`](crate::autodiff::grad_graph) make δ a function of the parameters that can be differentiated
/// and trained on. [`Law::measure`] gives the same numbers without a tape.
///
/// # Panics
/// If a parameter or gradient is missing or has another number of entries than the law says.
#[track_caller]
#[inline(never)]
pub fn delta<'t, F: Real>(
    law: &Law,
    parameters: &[Var<'t, F>],
    gradients: &[Var<'t, F>],
) -> Var<'t, F> {
    let mut sum: Option<Var<'t, F>> = None;
    for term in &law.terms {
        let m = rows(law, term, parameters, term.identity);
        let n = rows(law, term, gradients, 0.0);
        let part = match (law.symmetry, term.side) {
            (Symmetry::Rescaling, _) => (m * n).sum(&[1], false).scale(F::of(term.weight)),
            (Symmetry::Translation, _) => n.sum(&[1], false).scale(F::of(term.weight)),
            (Symmetry::Linear, Side::Incoming) => n.matmul(m.t()),
            (Symmetry::Linear, _) => -m.matmul(n.t()),
            (Symmetry::Rotation, _) => n.matmul(m.t()) - m.matmul(n.t()),
        };
        sum = Some(sum.map_or(part, |sum| sum + part));
    }
    sum.expect("a law has a term")
}

/// c of a law on the tape, as [`Law::balance`]; `None` for rotations. The mean of its squares is a penalty on
/// imbalance.
///
/// # Panics
/// If a parameter is missing or has another number of entries than the law says.
#[track_caller]
#[inline(never)]
pub fn balance<'t, F: Real>(law: &Law, parameters: &[Var<'t, F>]) -> Option<Var<'t, F>> {
    let mut sum: Option<Var<'t, F>> = None;
    for term in &law.terms {
        let m = rows(law, term, parameters, term.identity);
        let part = match (law.symmetry, term.side) {
            (Symmetry::Rescaling, _) => (m * m).sum(&[1], false).scale(F::of(term.weight)),
            (Symmetry::Translation, _) => m.sum(&[1], false).scale(F::of(term.weight)),
            (Symmetry::Linear, Side::Incoming) => m.matmul(m.t()),
            (Symmetry::Linear, _) => -m.matmul(m.t()),
            (Symmetry::Rotation, _) => return None,
        };
        sum = Some(sum.map_or(part, |sum| sum + part));
    }
    sum
}

/// The entries of x + c I that belong to the neurons, one row per neuron; for a mean one row, the sum divided
/// by √n.
#[track_caller]
fn rows<'t, F: Real>(law: &Law, term: &Term, all: &[Var<'t, F>], c: f64) -> Var<'t, F> {
    let slice = &term.slice;
    let &(mut x) = law.find(slice, all.get(slice.parameter), |x| x.len());
    if c != 0.0 {
        let identity = Array2::from_diag_elem(slice.len().isqrt(), F::of(c)).into_dyn();
        x = x + x.tape().constant(identity).reshape(&x.shape());
    }
    let [outer, _, inner] = slice.shape;
    let entries = x.reshape(&slice.shape).slice(1, slice.range.clone());
    let rows = entries
        .permute(&[1, 0, 2])
        .reshape(&[slice.neurons(), outer * inner]);
    match term.mean {
        true => (rows.sum(&[0], true)).scale(F::of(slice.neurons() as f64).sqrt().recip()),
        false => rows,
    }
}
