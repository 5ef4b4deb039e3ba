//! The engine of [`emmy`](https://docs.rs/emmy): a tape, reverse-mode differentiation to any order, and the
//! operations that it records. `emmy` has all of it under the same names; use this crate through it.
//!
//! | module | what is in it |
//! |---|---|
//! | [`autodiff`] | the tape, its variables, derivatives of any order, what an operation is |
//! | [`ops`] | the operations, each with its derivative |

// `forbid` is more than the slices of ndarray's macro allow.
#![deny(unsafe_code)]
#![warn(missing_docs)]

pub mod autodiff;
mod instances;
pub mod ops;

use emmy_base::{error, kernels, linalg, real, sparse, tensor};

#[doc(hidden)]
pub use instances::instances;

pub use autodiff::{Tape, Var};
