//! emmy: a small deep-learning framework in pure Rust.
#![deny(unsafe_code)]
#![warn(missing_docs)]

pub mod autodiff;
pub mod error;
pub mod kernels;
pub mod nn;
pub mod ops;
pub mod real;
pub mod sparse;
pub mod tensor;

pub use autodiff::{Tape, Var};
pub use error::{Error, Result};
pub use real::Real;
pub use tensor::Tensor;
