#![doc = include_str!("../README.md")]
// `forbid` is more than the slices of ndarray's macro allow.
#![deny(unsafe_code)]
#![warn(missing_docs)]

pub mod joint;
pub mod rescale;

// The modules name them `crate::error` and so on, as those of emmy do.
use emmy_base::{error, kernels, linalg};
