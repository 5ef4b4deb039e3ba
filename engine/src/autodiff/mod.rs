//! The engine: a tape, handles, reverse-mode differentiation to any order.
//!
//! - [`Tape`]: an arena of operations, opened fresh for each step; [`Var`]: a `Copy` handle to one of its
//!   nodes.
//! - [`grad`], [`vjp`], [`jvp`], [`hvp`], [`jacobian`]: derivatives as plain values; with `_graph` in the
//!   name, as variables that can be differentiated again.
//! - [`fused`] and [`checkpoint`]: hand-written kernels, and recomputation, without losing higher
//!   derivatives.
//! - [`Kind`]: what an operation is, for laws and bounds; [`Function`]: the facts of a function of one
//!   number.
//! - [`check_grads`]: derivatives held against differences.

mod attention;
mod check;
mod check_kind;
mod function;
mod fused;
mod grad;
mod kind;
mod path;
mod tape;
mod var;

#[doc(hidden)]
pub use attention::DenseAttention;
pub use check::check_grads;
#[doc(hidden)]
pub use check::{Derivative, Order, compare_derivatives};
pub use check_kind::check_kind;
pub use function::Function;
pub(crate) use function::{about, kink};
pub use fused::{Fused, checkpoint, fused};
pub use grad::{grad, grad_and_free, grad_graph, hvp, jacobian, jvp, jvp_graph, vjp, vjp_graph};
pub use kind::{Choice, Declaration, Kind, Map};
pub(crate) use tape::Reference;
pub use tape::{Tape, Vjp};
pub use var::Var;
