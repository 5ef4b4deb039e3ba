//! What [`emmy`](https://docs.rs/emmy) computes with: numbers, arrays, sparse matrices, kernels without
//! derivatives, linear algebra, and errors. `emmy` has all of it under the same names; use this crate
//! through it.
//!
//! | module | what is in it |
//! |---|---|
//! | [`real`] | the number: `f32` or `f64`; elementary functions that vectorise |
//! | [`tensor`] | the array, rules of shapes, pools of buffers |
//! | [`sparse`] | patterns of sparse matrices, and their values |
//! | [`kernels`] | arithmetic on slices and arrays: the only place with threads and vector instructions |
//! | [`linalg`] | norms and factorisations, rounded where a proof needs it |
//! | [`error`](mod@error) | why a file or a value was refused |
//! | [`registry`] | names for kinds that other crates add |

// `forbid` is more than the slices of ndarray's macro allow.
#![deny(unsafe_code)]
#![warn(missing_docs)]

pub mod error;
#[doc(hidden)]
pub mod files;
pub mod kernels;
pub mod linalg;
pub mod real;
pub mod registry;
pub mod sparse;
pub mod tensor;

pub use error::{Error, Result};
pub use real::Real;
pub use tensor::Tensor;
