//! Certified Lipschitz constants of whole networks. A network is given as matrices and slopes, whatever
//! made it; [`emmy`](https://docs.rs/emmy) reads it off a recorded pass, and shows this module as
//! `emmy::lipschitz::joint`.

// `forbid` is more than the slices of ndarray's macro allow.
#![deny(unsafe_code)]
#![warn(missing_docs)]

pub mod joint;

// The modules name them `crate::error` and so on, as those of emmy do.
use emmy_base::{error, kernels, linalg};
