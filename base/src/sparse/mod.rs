//! Sparse structure: which entries of a matrix exist ([`Pattern`]), and constant sparse matrices ([`Csr`]).
//!
//! On the tape a sparse matrix is a constant pattern with differentiable values, a dense variable with one
//! row per entry (see `emmy::ops`). Patterns are made from [`sprs::CsMat`], checked once, and shared by
//! `Arc`.

mod csr;
mod pattern;

pub use csr::Csr;
pub use pattern::{Pattern, Transposed};
