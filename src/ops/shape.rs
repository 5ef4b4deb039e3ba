//! The same elements in another shape.

use crate::autodiff::Var;
use crate::real::Real;
use crate::tensor::{self, Tensor};
use ndarray::IxDyn;

impl<F: Real> Var<'_, F> {
    /// y = x with leading dimensions and sizes of 1 repeated to `shape`,   x̄ = ȳ summed back
    ///
    /// # Panics
    /// If the shape of x does not broadcast to `shape`.
    #[track_caller]
    pub fn broadcast_to(self, shape: &[usize]) -> Self {
        self.unary(
            "broadcast_to",
            |x| {
                let view = x.broadcast(IxDyn(shape)).unwrap_or_else(|| {
                    panic!(
                        "broadcast_to: {:?} does not broadcast to {shape:?}",
                        x.shape()
                    )
                });
                view.to_owned().into_shared()
            },
            |p| p.gy().sum_like(p.x()),
        )
    }

    /// y = x summed to a `shape` that broadcasts to that of x,   x̄ = ȳ broadcast
    ///
    /// # Panics
    /// If `shape` does not broadcast to the shape of x.
    #[track_caller]
    pub fn sum_to(self, shape: &[usize]) -> Self {
        if self.shape() == shape {
            return self;
        }
        self.unary(
            "sum_to",
            |x| tensor::sum_to(x, shape),
            |p| p.gy().broadcast_to(&p.x().shape()),
        )
    }

    /// [`sum_to`](Self::sum_to) the shape of `like`: the adjoint of broadcasting `like`.
    #[track_caller]
    pub(crate) fn sum_like(self, like: Self) -> Self {
        self.sum_to(&like.shape())
    }

    /// y = x in another shape, its elements in row-major order,   x̄ = ȳ in the shape of x
    ///
    /// # Panics
    /// If the number of elements differs.
    #[track_caller]
    pub fn reshape(self, shape: &[usize]) -> Self {
        self.unary(
            "reshape",
            |x| {
                assert!(
                    x.len() == shape.iter().product::<usize>(),
                    "reshape: {:?} has {} elements, {shape:?} has {}",
                    x.shape(),
                    x.len(),
                    shape.iter().product::<usize>()
                );
                let rows: Tensor<F> = tensor::contiguous(x);
                rows.into_shape_with_order(IxDyn(shape))
                    .expect("as many elements, without gaps")
            },
            |p| p.gy().reshape(&p.x().shape()),
        )
    }
}
