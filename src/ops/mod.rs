//! The operations: value and derivative side by side, one file per family.
//!
//! Conventions: relu'(0) = 0; clamp' = 0 at both bounds; ties of a maximum share the derivative evenly; an
//! all-masked softmax row is zero, its logarithm −∞; gradients of norms at 0 are 0; the mean of nothing is
//! NaN, that of a row without entries (`segment_mean`) 0.
//!
//! # Adding an operation
//! A value and one derivative per argument, written in the operations that are already here. In this crate
//! the method is called `builtin_unary`, outside [`Var::unary`](crate::Var::unary):
//!
//! ```
//! # use emmy::{Real, Var, kernels::map};
//! # trait Example { fn exp_(self) -> Self; }
//! # impl<F: Real> Example for Var<'_, F> {
//! /// y = eˣ,   x̄ = ȳ y
//! fn exp_(self) -> Self {
//!     self.unary("exp_", map::unary(&self.value(), F::exp), |p| p.gy() * p.y())
//! }
//! # }
//! # let x = emmy::Tape::new();
//! # let x = x.scalar(1.0_f64);
//! # assert_eq!(emmy::autodiff::grad(x.exp_(), &[x])[0].first(), Some(&1.0_f64.exp()));
//! ```
//!
//! The value is computed first, so operands that do not fit panic at the caller's line (`#[track_caller]`). A
//! composition checks its operands under its own name; otherwise the message would name one of its parts.
//!
//! The operation also needs an entry in the registry (`tests/operations/registry`), which every generic test
//! walks: how to draw operands, and the value by a plain loop.

pub(crate) mod activation;
mod arithmetic;
pub mod attention;
mod define;
mod dropout;
pub(crate) mod elementwise;
pub(crate) mod index;
pub(crate) mod layer_norm;
mod loss;
mod matrix;
mod norm;
mod product;
pub mod recurrent;
mod reduce;
mod rotary;
mod segment;
mod shape;
mod softmax;
pub mod sparse;

pub use sparse::Sparse;

#[cfg(test)]
mod tests {
    use crate::{Tape, Var, tensor::tensor};

    /// A node records the number or axis of its operation, so that a reader of the tape can tell x² from x³,
    /// and a slice of rows from one of columns.
    #[test]
    fn numbers_and_axes_are_noted() {
        let tape = Tape::new();
        let x = tape.var(tensor(&[2, 2], vec![1.0_f64, 2.0, 3.0, 4.0]));
        let noted: [(Var<'_, f64>, &str, f64); 13] = [
            (x.leaky_relu(0.2), "leaky_relu", 0.2),
            (x.powf(3.0), "powf", 3.0),
            (x.scale(-2.5), "scale", -2.5),
            (x.add_scalar(1.5), "add_scalar", 1.5),
            (x.index_select(-1, [0]), "index_select", 1.0),
            (x.index_add(-1, [0, 1], 3), "index_add", 1.0),
            (x.slice(-1, 0..1), "slice", 1.0),
            (x.pad(-1, 0, 1), "pad", 1.0),
            (Var::concat(&[x, x], -1), "concat", 1.0),
            (x.elu(2.0), "elu", 2.0),
            // The factor of the entries that survive, rounded up; whether the last axis stays.
            (x.dropout(0.5, 1), "dropout", 2f64.next_up()),
            (x.permute(&[1, 0]), "permute", 0.0),
            (x.unsqueeze(0).permute(&[1, 0, 2]), "permute", 1.0),
        ];
        for (y, op, constant) in noted {
            let node = tape.node(y.id);
            assert_eq!((node.op, node.constant), (op, constant));
        }
        let unmarked: [(Var<'_, f64>, &str); 4] = [
            (x.sum(&[0], true), "sum"),
            (x.sum_to(&[1, 2]), "sum_to"),
            (x.broadcast_to(&[3, 2, 2]), "broadcast_to"),
            (x.reshape(&[4]), "reshape"),
        ];
        for (y, op) in unmarked {
            let node = tape.node(y.id);
            assert_eq!(node.op, op);
            assert!(node.constant.is_nan());
        }
    }
}
