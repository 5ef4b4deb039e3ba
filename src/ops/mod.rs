//! The operations: value and derivative side by side, one file a family.
//!
//! Conventions: relu'(0) = 0; ties of a maximum share the derivative evenly; an all-masked softmax row is zero; gradients of norms
//! at 0 are 0.
//!
//! # Adding an operation
//! A value and one derivative an argument, in the operations that are already here:
//!
//! ```ignore
//! /// y = exp x,   x̄ = ȳ · y
//! pub fn exp(self) -> Self {
//!     self.unary("exp", |x| map::unary(x, F::exp), |p| p.gy() * p.y())
//! }
//! ```
//!
//! then an entry in the registry, which every generic test walks.

mod activation;
mod arithmetic;
pub mod attention;
mod dropout;
mod elementwise;
mod index;
mod loss;
mod norm;
mod product;
mod reduce;
mod shape;
mod softmax;
pub mod sparse;

pub use sparse::Sparse;
