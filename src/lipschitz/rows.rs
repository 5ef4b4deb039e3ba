//! The Jacobian at the recorded input, row by row: maps that act on each row (along the last axis) are
//! multiplied out, with the slopes that activations have there.
//!
//! For x of n rows of k entries and y of n rows of d entries, where row r of y depends on row r of x only, the
//! Jacobian has n blocks J_r `[d, k]`, and its norm is the largest of theirs:
//!
//! - y = x Wᵀ: J_r = W; y = σ(z): diag σ′(z_r) J_r(z); y = a + b: J_r(a) + J_r(b);
//! - y = a ⊙ b: diag(b_r) J_r(a) + diag(a_r) J_r(b).
//!
//! A block is known as a matrix C and a radius e, ‖J_r − C‖_p ≤ e. The radius holds the rounding errors, and at
//! a kink, such as 0 for ReLU, half of the interval of the two one-sided slopes.

use super::blocks::Rows;
use super::known::Known;
use crate::autodiff::Kind;
use crate::real::Real;
use ndarray::{Array2, ArrayD, Ix2};

/// The blocks of node `id`, from those of its arguments.
pub(super) fn of<F: Real>(known: &Known<'_, F>, id: usize) -> Option<Rows> {
    let node = known.tape.node(id);
    let arg = |k: usize| at(known, node.args[k]);
    let moves = |k: usize| known.moves(node.args[k]);
    let same = |k: usize| known.tape.node(node.args[k]).shape == node.shape;
    let spread = |k: usize| {
        let value = known.tape.value(node.args[k]).mapv(Real::as_f64);
        Some(table(value.broadcast(&node.shape[..])?.to_owned()))
    };
    let found = match &node.kind {
        Kind::Alias | Kind::Declared(_) | Kind::AddScalar(_) => arg(0)?,
        &Kind::Scale(c) => arg(0)?.scaled(c),
        Kind::Add | Kind::Subtract => {
            let second = |rows: Rows| match node.kind {
                Kind::Subtract => rows.scaled(-1.0),
                _ => rows,
            };
            match [0, 1].map(|k| moves(k) && same(k)) {
                [true, true] => arg(0)?.plus(second(arg(1)?))?,
                [true, false] if !moves(1) => arg(0)?,
                [false, true] if !moves(0) => second(arg(1)?),
                _ => return None,
            }
        }
        Kind::Multiply => match [0, 1].map(|k| moves(k) && same(k)) {
            [true, true] => {
                let (a, b) = (arg(0)?.times(&spread(1)?)?, arg(1)?.times(&spread(0)?)?);
                a.plus(b)?
            }
            [true, false] if !moves(1) => arg(0)?.times(&spread(1)?)?,
            [false, true] if !moves(0) => arg(1)?.times(&spread(0)?)?,
            _ => return None,
        },
        Kind::MatMul { transposed } if moves(0) && !moves(1) => {
            let w = known.tape.value(node.args[1]).mapv(Real::as_f64);
            let w = w.into_dimensionality::<Ix2>().ok()?;
            arg(0)?.mapped(&if *transposed { w } else { w.reversed_axes() })?
        }
        Kind::Entrywise(function) => {
            let x = known.tape.value(node.args[0]).mapv(Real::as_f64);
            let ends = [0, 1].map(|k| table(x.mapv(|x| function.slope_at(x)[k])));
            arg(0)?.bent(&ends)?
        }
        // These mix rows, or have no slope.
        Kind::Variable
        | Kind::Constant
        | Kind::Dropout { .. }
        | Kind::Linear(_)
        | Kind::Divide
        | Kind::Choice(_)
        | Kind::Concat { .. }
        | Kind::MatMul { .. }
        | Kind::SparseProduct { .. }
        | Kind::SampledProduct(_)
        | Kind::Extremum { .. }
        | Kind::SegmentMax
        | Kind::Softmax
        | Kind::LogSoftmax
        | Kind::LogSumExp
        | Kind::SegmentSoftmax
        | Kind::RowNorm { .. }
        | Kind::Attention { .. }
        | Kind::EdgeAttention { .. }
        | Kind::Opaque(_) => return None,
    };
    found.is_finite().then_some(found)
}

/// The blocks of an argument that moves; the identity if none are known.
fn at<F: Real>(known: &Known<'_, F>, id: usize) -> Option<Rows> {
    if let Some(rows) = known.rows(id) {
        return Some(rows.clone());
    }
    let d = known.tape.node(id).shape.last().copied();
    match known.moves(id) {
        true => Rows::identity(id, known.p, d.unwrap_or(1)),
        false => None,
    }
}

/// The rows of a tensor.
fn table(x: ArrayD<f64>) -> Array2<f64> {
    let d = x.shape().last().copied().unwrap_or(1);
    let n = x.len().checked_div(d).unwrap_or(0);
    let x = x.as_standard_layout().into_owned();
    x.into_shape_with_order((n, d)).expect("as many entries")
}
