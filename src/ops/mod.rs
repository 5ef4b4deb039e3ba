//! The operations: value and derivative side by side, one file a family.
//!
//! Conventions: relu'(0) = 0; ties of a maximum share the derivative evenly; an all-masked softmax row is zero; gradients of norms
//! at 0 are 0; the mean of nothing is NaN, that of a row without entries (`segment_mean`) 0.
//!
//! # Adding an operation
//! A value and one derivative an argument, in the operations that are already here:
//!
//! ```
//! # use emmy::{Real, Var, kernels::map};
//! # trait Example { fn exp_(self) -> Self; }
//! # impl<F: Real> Example for Var<'_, F> {
//! /// y = eˣ,   x̄ = ȳ y
//! fn exp_(self) -> Self {
//!     self.unary("exp_", |x| map::unary(x, F::exp), |p| p.gy() * p.y())
//! }
//! # }
//! # let x = emmy::Tape::new();
//! # let x = x.scalar(1.0_f64);
//! # assert_eq!(emmy::autodiff::grad(x.exp_(), &[x])[0].first(), Some(&1.0_f64.exp()));
//! ```
//!
//! What can be refused is refused before `unary` or `binary` is called, or its value is computed there: the caller's line does not
//! reach into a closure (`#[track_caller]`). A composition checks under its own name what its parts would refuse under theirs.
//!
//! Then an entry in the [`registry`], which every generic test walks: how to draw operands, and the value by a plain loop.

mod activation;
mod arithmetic;
pub mod attention;
mod dropout;
mod elementwise;
mod index;
mod loss;
mod matrix;
mod norm;
mod product;
mod reduce;
pub mod registry;
mod segment;
mod shape;
mod softmax;
pub mod sparse;

pub use sparse::Sparse;
