//! The operations: value and derivative side by side, one file per family.
//!
//! Conventions: relu'(0) = 0; clamp' = 0 at both bounds; ties of a maximum share the derivative evenly; an
//! all-masked softmax row is zero, its logarithm −∞; gradients of norms at 0 are 0; the mean of nothing is
//! NaN, that of a row without entries (`segment_mean`) 0.
//!
//! # Adding an operation
//! A value and one derivative per argument, written in the operations that are already here, and its
//! [`Kind`](crate::autodiff::Kind); a name in its place says nothing to laws and bounds:
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

mod activation;
mod arithmetic;
pub mod attention;
mod choice;
mod define;
mod dropout;
mod forget;
mod functions;
mod gates;
mod index;
mod layer_norm;
mod loss;
mod matmul;
mod norm;
pub mod recurrent;
mod reduce;
mod rotary;
mod segment;
mod shape;
mod softmax;
pub mod sparse;

pub use activation::Activation;
pub use sparse::Sparse;
