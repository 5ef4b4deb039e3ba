//! Recurrent layers: each step changes a state by gates, which the step computes.
//!
//! | letter | shape | meaning |
//! |---|---|---|
//! | x | `[n, in]` | the input of a step |
//! | h | `[n, h]` | the hidden state, which is also the output |
//! | c | `[n, h]` | the cell of an LSTM |
//! | W_i, b_i | `[g h, in]`, `[g h]` | weight and bias of the input, for g gates side by side |
//! | W_h, b_h | `[g h, h]`, `[g h]` | weight and bias of the hidden state |

mod gru;
mod layers;
mod lstm;

pub use gru::GruCell;
pub use layers::{Gru, Lstm};
pub use lstm::{LstmCell, LstmState};

use super::Params;
use crate::autodiff::Var;
use crate::init::{self, Rng};
use crate::real::Real;
use crate::symmetry::{Law, Ports, Symmetry, Term};
use crate::tensor::Tensor;
use std::ops::Range;

/// weight_ih, weight_hh, bias_ih, bias_hh of a layer with `gates` gates, all from U(−1/√h, 1/√h) as in
/// PyTorch.
fn drawn<F: Real>(gates: usize, input: usize, hidden: usize, rng: &mut Rng) -> [Tensor<F>; 4] {
    let rows = gates * hidden;
    let bound = (hidden.max(1) as f64).sqrt().recip();
    let shapes: [&[usize]; 4] = [&[rows, input], &[rows, hidden], &[rows], &[rows]];
    shapes.map(|shape| init::uniform(shape, bound, rng))
}

/// Panics if x is not `[n, in]`, or a state not `[n, h]`.
#[track_caller]
fn check_step<F: Real>(
    layer: &str,
    input: usize,
    x: Var<'_, F>,
    hidden: usize,
    states: &[Var<'_, F>],
) {
    let x = x.shape();
    assert!(
        x.len() == 2 && x[1] == input,
        "{layer}: x has shape {x:?}, the weight reads {input} features: x must be [n, {input}]"
    );
    check_states(layer, [x[0], hidden], states);
}

/// Panics if x is not `[n, T, in]` with T > 0.
#[track_caller]
fn check_sequence<F: Real>(layer: &str, input: usize, x: Var<'_, F>) {
    let x = x.shape();
    assert!(
        x.len() == 3 && x[1] > 0 && x[2] == input,
        "{layer}: x has shape {x:?}, the weight reads {input} features: x must be [batch, time, {input}], \
         with one step of time or more"
    );
}

/// Panics if a state has another shape.
#[track_caller]
fn check_states<F: Real>(layer: &str, expected: [usize; 2], states: &[Var<'_, F>]) {
    for found in states.iter().map(|s| s.shape()) {
        assert!(
            found == expected,
            "{layer}: a state has shape {found:?}, it must be {expected:?}: one row per row of x"
        );
    }
}

/// The part of the gates that comes from the input, `[T, n, g h]`: one product for all steps of x
/// `[n, T, in]`, or `[n, in]` for one step.
#[track_caller]
fn gates_of<'t, F: Real>(x: Var<'t, F>, weight: Var<'t, F>) -> Var<'t, F> {
    let x = match x.ndim() {
        2 => x.unsqueeze(0),
        _ => x.transpose(0, 1),
    };
    let [steps, rows, input] = x.shape()[..] else {
        unreachable!("x has been checked")
    };
    let gates = weight.shape()[0];
    x.reshape(&[steps * rows, input])
        .linear(weight)
        .reshape(&[steps, rows, gates])
}

/// The ports of a recurrent layer whose call lists the hidden state first and x last among `inputs` inputs.
///
/// The columns of W_i read x. There are gates that saturate between all other parameters and the output, so
/// no law goes through the layer. If both biases of a gate are only added, their gradients are equal: this is
/// the law "biases", for the entries `added`.
fn gated<F: Real>(
    params: &Params<'_, F>,
    inputs: usize,
    weight_ih: &Tensor<F>,
    biases: [&Tensor<F>; 2],
    added: Range<usize>,
) -> Ports {
    let [b_i, b_h] = biases.map(|b| params.rows(b).narrow(added.clone()));
    let terms = vec![Term::incoming(b_i), Term::incoming(b_h).times(-1.0)];
    Ports {
        inside: vec![Law::new("biases", 0, Symmetry::Translation, terms)],
        ..Ports::opaque(inputs - 1).reads([params.columns(weight_ih)])
    }
}
