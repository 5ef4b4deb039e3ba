//! The engine: a tape, handles, reverse-mode differentiation to any order.
//!
//! - [`Tape`]: an arena of operations, opened fresh for each step; [`Var`]: a `Copy` handle to one of its
//!   nodes.
//! - [`grad`], [`vjp`], [`jvp`], [`hvp`], [`jacobian`]: derivatives as plain values; with `_graph` in the
//!   name, as variables that can be differentiated again.
//! - [`fused`] and [`checkpoint`]: hand-written kernels, and recomputation, without losing higher
//!   derivatives.
//! - [`check_grads`]: derivatives held against differences.

mod check;
mod fused;
mod grad;
mod path;
mod tape;
mod var;

pub use check::check_grads;
pub(crate) use fused::{Composition, alias, fused_builtin};
pub use fused::{Fused, checkpoint, fused};
pub use grad::{grad, grad_graph, hvp, jacobian, jvp, jvp_graph, vjp, vjp_graph};
pub use tape::{Tape, Vjp};
pub use var::Var;
