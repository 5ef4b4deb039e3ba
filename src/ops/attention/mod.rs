//! Attention: fused operations, and the compositions that define them.
//!
//! [`DenseAttention`] compares all queries with all keys, under a [`Mask`]; [`EdgeAttention`] computes the
//! scores of GAT and GATv2 over the edges of a graph, [`DotAttention`] those of queries and keys with terms
//! of the edges themselves.

mod dense;
mod edge_dot;
mod edges;
mod log_sum_exp;
mod symmetric;

pub use crate::kernels::attention::{DenseAttention, Mask};
pub use dense::Qkv;
pub use edge_dot::DotAttention;
pub use edges::EdgeAttention;

use crate::tensor::Tensor;

fn slice<F>(x: &Tensor<F>) -> &[F] {
    x.as_slice().expect("contiguous")
}
