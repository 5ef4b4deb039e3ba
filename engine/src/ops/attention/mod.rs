//! Attention: fused operations, and the compositions that define them.
//!
//! [`DenseAttention`] compares all queries with all keys, under a [`Mask`]. [`EdgeAttention`] compares the
//! two ends of the edges of a graph, by any [`EdgeScore`], or by dot products with terms of the edges.

mod dense;
mod edge_dot;
mod edges;
mod fusion;
mod log_sum_exp;
mod operands;
mod score;
mod symmetric;

#[doc(inline)]
pub use crate::autodiff::DenseAttention;
pub use crate::kernels::attention::Mask;
pub use dense::Qkv;
pub use edges::EdgeAttention;
pub use operands::{EdgeOperands, Ends};
pub use score::{EdgeScore, LeakySum, ScaledProduct};

use crate::tensor::Tensor;

fn slice<F>(x: &Tensor<F>) -> &[F] {
    x.as_slice().expect("contiguous")
}
