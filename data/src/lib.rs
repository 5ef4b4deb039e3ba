//! Graphs and data sets of [`emmy`](https://docs.rs/emmy), which has both modules under the same names; use
//! this crate through it.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod data;
pub mod graph;

// The modules name them `crate::error` and so on, as those of emmy do.
use emmy_base::{error, files, kernels, real, sparse, tensor};
