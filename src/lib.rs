//! `emmy`: a deep-learning mini-framework in pure Rust, small enough to read and honest enough to trust.
//!
//! A tape-based reverse-mode autodiff over dense ([`Tensor`]) and sparse ([`sparse`]) CPU tensors, with
//! derivatives of any order, and on it graph networks trained on real data. Named after Emmy Noether: each
//! symmetry of a network is a conservation law.
//!
//! # The house
//! A room uses the floors below it and its own, never one above.
//!
//! | floor | room | what lives there |
//! |---|---|---|
//! | 0 | [`real`] [`error`] [`registry`] [`tensor`] [`sparse`] | scalars, errors, names for kinds of other crates, dense arrays and shape rules, sparse patterns |
//! | 1 | [`kernels`] [`linalg`] | arithmetic without derivatives; threads and vector units; QR, singular values, norms of matrices from above |
//! | 2 | [`autodiff`] | tape, handles, gradients, products with Jacobian and Hessian, checkpoints, fused operations |
//! | 3 | [`ops`] | the operations, value and derivative side by side |
//! | 4 | [`graph`] [`init`] [`symmetry`] [`lipschitz`] [`collapse`] | validated graphs and generators; initialisers; the vocabulary of laws, and the search for them; Lipschitz bounds read off a tape, and searches from below; measures of oversmoothing |
//! | 5 | [`nn`] | layers and models; the pass over a model, and the trace that laws are read off |
//! | 6 | [`data`] [`optim`] [`train`] [`store`] | loaders and synthetic sets; optimisers and schedules; tasks and the training loop; checkpoints and weights |
//!
//! `src/instances.rs` lists the generic code that the library compiles once for all programs.
//!
//! Start with [`Tape`] and [`Var`]; `docs/engine.md` explains how they work, `docs/conservation.md` what
//! [`symmetry`] is about.
//!
//! # Features
//! - `avx512` (default): 512-bit vectors where the processor has them, chosen at run time.
//! - `lapack`: QR, singular values and eigenvalues from LAPACK through `ndarray-linalg` and the system's
//!   OpenBLAS.

// `forbid` is more than the slices of ndarray's macro allow.
#![deny(unsafe_code)]
#![warn(missing_docs)]

pub mod autodiff;
pub mod collapse;
pub mod data;
pub mod error;
mod files;
pub mod graph;
pub mod init;
mod instances;
pub mod kernels;
pub mod linalg;
pub mod lipschitz;
pub mod nn;
pub mod ops;
pub mod optim;
pub mod real;
pub mod registry;
pub mod sparse;
pub mod store;
pub mod symmetry;
pub mod tensor;
pub mod train;

#[doc(hidden)]
pub use instances::instances;

// Tensors are ndarray's, generators of random numbers rand's: who uses them needs the same versions.
pub use ndarray;
pub use rand;

pub use autodiff::{Tape, Var};
pub use error::{Error, Result};
pub use graph::Graph;
pub use real::Real;
pub use tensor::Tensor;

/// The book and the README, so that their listings are compiled and run.
#[cfg(doctest)]
mod book {
    #[doc = include_str!("../README.md")]
    mod readme {}

    #[doc = include_str!("../docs/engine.md")]
    mod engine {}

    #[doc = include_str!("../docs/conservation.md")]
    mod conservation {}

    #[doc = include_str!("../docs/balance.md")]
    mod balance {}

    #[doc = include_str!("../docs/attention.md")]
    mod attention {}

    #[doc = include_str!("../docs/collapse.md")]
    mod collapse {}

    #[doc = include_str!("../docs/lipschitz.md")]
    mod lipschitz {}

    #[doc = include_str!("../docs/weights.md")]
    mod weights {}

    #[doc = include_str!("../docs/evidence/conservation.md")]
    mod evidence_conservation {}
}
