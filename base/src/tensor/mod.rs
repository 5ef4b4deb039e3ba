//! Dense tensors: ndarray's shared arrays of any dimension, and the rules by which shapes combine.
//!
//! A [`Tensor`] is cheap to clone (the data is shared, copied only when written to), may be a view with
//! strides (a transpose costs nothing), and is `Send`.

pub mod memory;
mod shape;

pub use shape::elements;
pub(crate) use shape::transpose;
pub use shape::{Sizes, broadcast_shapes, contiguous, normalize_axes, normalize_axis};

use ndarray::{ArcArray, Array, ArrayView, Dimension, IxDyn};

/// A dense array of scalars `F`, of any number of dimensions; clones share their data. It is an array of
/// ndarray, with its indices and its arithmetic.
///
/// ```
/// use emmy::{Tensor, tensor::tensor};
/// let x: Tensor<f32> = tensor(&[2, 3], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
/// assert_eq!((x.shape(), x[[1, 0]]), (&[2, 3][..], 4.0));
/// let y: Tensor<f32> = (&x + &x).into_shared();
/// assert_eq!(y.sum(), 42.0);
/// ```
pub type Tensor<F> = ArcArray<F, IxDyn>;

/// A tensor of shape `[]` that holds `x`.
pub fn scalar<F: Clone>(x: F) -> Tensor<F> {
    ArcArray::from_elem(IxDyn(&[]), x)
}

/// A tensor of the given shape from its elements in row-major order.
///
/// # Panics
/// If the number of elements of `data` is not the product of `shape`, or that product is larger than memory
/// can address.
#[track_caller]
pub fn tensor<F>(shape: &[usize], data: Vec<F>) -> Tensor<F> {
    let (want, have) = (shape::elements("tensor", shape), data.len());
    assert!(
        want == have,
        "tensor: shape {shape:?} holds {want} elements, {have} were given"
    );
    ArcArray::from_shape_vec(IxDyn(shape), data).expect("as many elements as the shape holds")
}

/// A value that converts to a tensor: a tensor, an array or view of ndarray of any dimension, and a `Vec`,
/// slice or array of numbers as a vector.
pub trait IntoTensor<F> {
    /// The tensor. Owned data and data that are shared already are not copied.
    fn into_tensor(self) -> Tensor<F>;
}

impl<F, D: Dimension> IntoTensor<F> for ArcArray<F, D> {
    fn into_tensor(self) -> Tensor<F> {
        self.into_dyn()
    }
}

impl<F, D: Dimension> IntoTensor<F> for &ArcArray<F, D> {
    fn into_tensor(self) -> Tensor<F> {
        self.clone().into_dyn()
    }
}

impl<F: Clone, D: Dimension> IntoTensor<F> for Array<F, D> {
    fn into_tensor(self) -> Tensor<F> {
        self.into_dyn().into_shared()
    }
}

impl<F: Clone, D: Dimension> IntoTensor<F> for ArrayView<'_, F, D> {
    fn into_tensor(self) -> Tensor<F> {
        self.to_owned().into_tensor()
    }
}

impl<F> IntoTensor<F> for Vec<F> {
    fn into_tensor(self) -> Tensor<F> {
        tensor(&[self.len()], self)
    }
}

impl<F: Clone> IntoTensor<F> for &[F] {
    fn into_tensor(self) -> Tensor<F> {
        self.to_vec().into_tensor()
    }
}

impl<F, const N: usize> IntoTensor<F> for [F; N] {
    fn into_tensor(self) -> Tensor<F> {
        Vec::from(self).into_tensor()
    }
}

impl<F: Clone, const N: usize> IntoTensor<F> for &[F; N] {
    fn into_tensor(self) -> Tensor<F> {
        self.to_vec().into_tensor()
    }
}
