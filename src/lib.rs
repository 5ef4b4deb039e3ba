//! `emmy` is a deep-learning framework in pure Rust: an autodiff that can be read, graph networks and
//! transformers on CPUs, and what can be read off a network, its conservation laws and a proven Lipschitz
//! constant.
//!
//! ```
//! use emmy::nn::{Activation, Mlp, Trace};
//! use emmy::optim::{Algorithm, Optimizer};
//! use emmy::{init, lipschitz::Lp, train};
//!
//! // A perceptron learns y = x₁ x₂.
//! let x = init::normal::<f64>(&[50, 2], 1.0, &mut init::rng(0));
//! let mut net = Mlp::new(&[2, 16, 1], Activation::Relu, true, &mut init::rng(1));
//! let mut optimizer = Optimizer::new(Algorithm::ADAM);
//! let mut losses = Vec::new();
//! for step in 0..200 {
//!     losses.push(train::step(&mut net, &mut optimizer, 0.01, step, |net, pass| {
//!         let x = pass.tape().constant(x.clone());
//!         let product = x.slice(1, 0..1) * x.slice(1, 1..2);
//!         (net.forward(pass, x) - product).square().mean_all()
//!     })?);
//! }
//! assert!(losses[199] < 0.05 * losses[0]);
//!
//! // What holds for its gradients, and how far its output can move.
//! let trace = Trace::at(&net, &x, |pass, x| net.forward(pass, x));
//! assert_eq!(trace.laws().len(), 1);
//! assert!(trace.lipschitz(Lp::Two)?.upper.is_finite());
//! # Ok::<(), emmy::Error>(())
//! ```
//!
//! # The book
//! Each chapter is a page: [the engine](book::engine), [layers, passes, training](book::layers), [GCN and
//! GAT from scratch](book::graphs), [attention](book::attention), [conservation](book::conservation),
//! [balanced initialisation](book::balance), [Lipschitz constants](book::lipschitz),
//! [collapse](book::collapse), [hyper-gradients](book::hypergradients), [your own model](book::own_model),
//! [testing your own model](book::testing), and [weights in and out](book::weights).
//!
//! # What is where
//!
//! | you want | look at |
//! |---|---|
//! | a computation and its derivatives | [`Tape`], [`Var`], [`autodiff`]; the operations: [`ops`] |
//! | a layer, a model | [`nn`], which begins with a table of all layers |
//! | a graph, a data set | [`Graph`], [`data`] |
//! | to train | [`train::step()`], [`train::Trainer`], [`optim`], [`init`] |
//! | to save, to load PyTorch's weights | [`store`], [`store::weights`] |
//! | conservation laws | [`nn::Trace`], [`symmetry`] |
//! | Lipschitz constants | [`nn::Trace`], [`lipschitz`] |
//! | how alike rows become | [`collapse`] |
//! | to test your own model against all this | [`testing`] |
//! | numbers, arrays, sparse matrices, decompositions | [`real`], [`tensor`], [`sparse`], [`linalg`] |
//!
//! # Features
//! - `lapack`: QR, singular values and eigenvalues from LAPACK through `ndarray-linalg` and the system's
//!   OpenBLAS.
//! - `scalar`: on x86-64, also compiles kernels without vectors, for processors without AVX2 (Intel before
//!   2013, AMD before 2015, many later Pentium, Celeron and Atom, some virtual machines). Without this feature
//!   the first kernel panics there. Kernels for vectors of 256 and of 512 bits are always compiled, and those
//!   of the wider vectors that the processor has are chosen at run time.

// `forbid` is more than the slices of ndarray's macro allow.
#![deny(unsafe_code)]
#![warn(missing_docs)]

#[cfg(any(doc, doctest))]
pub mod book;
pub mod collapse;
pub mod init;
mod instances;
pub mod lipschitz;
pub mod nn;
pub mod optim;
pub mod store;
pub mod symmetry;
pub mod testing;
pub mod train;

#[doc(hidden)]
pub use instances::instances;

// The floors below, which are crates of their own: what is computed with, and graphs and data sets.
use emmy_base::files;
#[doc(inline)]
pub use emmy_base::{error, kernels, linalg, real, registry, sparse, tensor};
#[doc(inline)]
pub use emmy_data::{data, graph};
#[doc(inline)]
pub use emmy_engine::{autodiff, ops};

// Tensors are ndarray's, generators of random numbers rand's: who uses them needs the same versions.
pub use ndarray;
pub use rand;

pub use autodiff::{Tape, Var};
pub use error::{Error, Result};
pub use graph::Graph;
pub use real::Real;
pub use tensor::Tensor;
