//! Dense tensors: ndarray's shared arrays of any dimension, and the rules by which shapes combine.
//!
//! A [`Tensor`] is cheap to clone (the data is shared, copied only when written to), may be a view with strides (a transpose
//! costs nothing), and is `Send`.

pub mod memory;
mod shape;

pub use shape::{broadcast_shapes, contiguous, normalize_axes, normalize_axis};

use ndarray::{ArcArray, IxDyn};

/// A dense array of scalars `F`, of any number of dimensions; clones share their data.
pub type Tensor<F> = ArcArray<F, IxDyn>;

/// A tensor of shape `[]` that holds `x`.
pub fn scalar<F: Clone>(x: F) -> Tensor<F> {
    ArcArray::from_elem(IxDyn(&[]), x)
}

/// A tensor of the given shape from its elements in row-major order.
///
/// # Panics
/// If `data` has not exactly the product of `shape` elements.
#[track_caller]
pub fn tensor<F>(shape: &[usize], data: Vec<F>) -> Tensor<F> {
    let len = data.len();
    let Ok(tensor) = ArcArray::from_shape_vec(IxDyn(shape), data) else {
        panic!(
            "tensor: shape {shape:?} holds {} elements, {len} were given",
            shape.iter().product::<usize>()
        )
    };
    tensor
}
