//! Rounding errors of a recorded pass: how far the program that runs is from the function that it stands for.
//!
//! A bound L holds for a function f of real numbers. The program computes f̂, in `f32` or `f64`, and
//! ‖f̂(x) − f̂(x′)‖ may be larger than L ‖x − x′‖: if the inputs are close, the difference of the outputs is
//! mostly rounding. What holds is
//!
//! ‖f̂(x) − f̂(x′)‖ ≤ L ‖x − x′‖ + e(x) + e(x′), with ‖f̂(x) − f(x)‖ ≤ e(x).
//!
//! [`rounding`] computes e by a running error analysis (Higham, "Accuracy and Stability of Numerical
//! Algorithms", 2002, Section 3.3), from the values of the pass, entry by entry. With E the errors of the
//! operands, an operation has the error that E becomes in exact arithmetic, and that of its own roundings:
//! γ_n Σ |w| |x| for a sum of n products, in any order, with or without fused multiply-adds.
//!
//! All errors are computed in `f64` and raised by the rounding errors of this computation itself. Numbers too
//! small to be normal count with the least normal number per rounding. It is assumed that overflow gives
//! infinity, and that subnormal operands are read as they are: so Rust computes by default.

mod numbers;
mod operations;
mod rules;
mod state;

use super::known::check_radius;
use super::walk::{Unbounded, recorded};
use crate::autodiff::{Tape, Var};
use crate::error::Result;
use crate::linalg::{Lp, Upper};
use crate::real::Real;
use crate::tensor::Tensor;
use ndarray::{Array1, Axis};
use state::Walk;
use std::collections::HashMap;

/// An upper bound of |f̂(x′) − f(x′)| for each entry of the output, for all x′ around a recorded input.
#[derive(Debug, Clone)]
pub struct Rounding {
    entries: Tensor<f64>,
}

impl Rounding {
    /// The bound of each entry, of the shape of the output.
    pub fn entries(&self) -> &Tensor<f64> {
        &self.entries
    }

    /// e = ‖·‖_p of all entries, rounded up.
    pub fn norm(&self, p: Lp) -> Upper {
        let entries: Array1<f64> = self.entries.iter().copied().collect();
        p.matrix(entries.view().insert_axis(Axis(1)))
    }
}

/// How far the computed output y is from its exact value, for each x′ whose rows are within `radius`, in the
/// 2-norm, of those of the recorded x; 0 for the recorded x alone.
///
/// f is the function of x on the tape in exact arithmetic, with the weights as stored; what does not depend
/// on x is held fixed at its recorded value. x and x′ are numbers of the model's type.
///
/// ```
/// use emmy::lipschitz::{Domain, Lp, bound, rounding};
/// use emmy::{Tape, tensor::tensor};
/// // f(x) = (x + 2²⁵) − 2²⁵ has the constant 1. In f32 the first sum is a multiple of 4.
/// let f = |x: f32| {
///     let tape = Tape::new();
///     let x = tape.var(tensor(&[1, 1], vec![x]));
///     let y = x + 2.0_f64.powi(25) - 2.0_f64.powi(25);
///     let l = bound(y, x, Lp::Two, Domain::Everywhere).unwrap().upper().get();
///     let e = rounding(y, x, 0.0).unwrap().norm(Lp::Two).get();
///     (f64::from(*y.value().first().unwrap()), l, e)
/// };
/// let ((a, l, e), (b, _, e_b)) = (f(1.75), f(2.25));
/// // The inputs differ by ½, the outputs by 4.
/// assert_eq!((a, b, l), (0.0, 4.0, 1.0));
/// assert!(b - a <= l * 0.5 + e + e_b && e < 3.0);
/// ```
///
/// # Errors
/// If the rounding error of an operation between x and y is not known, as of exponentials; the message names
/// it. If a value is not finite or may overflow. If the radius is not a finite number of at least 0.
///
/// # Panics
/// If the variables are on different tapes.
#[track_caller]
#[inline(never)]
pub fn rounding<F: Real>(y: Var<'_, F>, x: Var<'_, F>, radius: f64) -> Result<Rounding> {
    y.tape().accept("lipschitz::rounding", &[x]);
    let tape = y.tape();
    recorded(x)?;
    check_radius(radius)?;
    of_nodes(tape, y.id(), x.id(), radius).map_err(|unbounded| unbounded.into_error(tape))
}

/// The same between two nodes.
pub(crate) fn of_nodes<F: Real>(
    tape: &Tape<F>,
    y: usize,
    x: usize,
    radius: f64,
) -> Result<Rounding, Unbounded> {
    let mut walk = Walk {
        tape,
        x,
        radius,
        known: HashMap::new(),
    };
    let input = walk.input();
    walk.known.insert(x, input);
    let on_the_way = needed(tape, y, x);
    for id in x + 1..=y {
        if on_the_way[id - x] && tape.node(id).args.iter().any(|&a| walk.moves(a)) {
            let found = walk.derive(id);
            let found = found.map_err(|reason| Unbounded { node: id, reason })?;
            walk.known.insert(id, found);
        }
    }
    let entries = match walk.known.remove(&y) {
        Some(found) => found.error,
        // y does not depend on x.
        None => tape.value(y).mapv(|_| 0.0).into_shared(),
    };
    Ok(Rounding { entries })
}

/// Which of the nodes from x to y are made into y.
fn needed<F: Real>(tape: &Tape<F>, y: usize, x: usize) -> Vec<bool> {
    let mut needed = vec![false; (y + 1).saturating_sub(x)];
    if let Some(last) = needed.last_mut() {
        *last = true;
    }
    for id in (x + 1..=y).rev().filter(|_| y > x) {
        if needed[id - x] {
            for &a in tape.node(id).args.iter().filter(|&&a| a >= x) {
                needed[a - x] = true;
            }
        }
    }
    needed
}
