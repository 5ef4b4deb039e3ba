//! Selecting and scattering by index.

use crate::autodiff::Var;
use crate::real::Real;
use crate::tensor::{Tensor, normalize_axis};
use ndarray::Axis;
use std::sync::Arc;

impl<F: Real> Var<'_, F> {
    /// y = the slices `indices` of x along `axis`, in that order, repeats allowed,   x̄ = ȳ added up at those
    /// places
    ///
    /// # Panics
    /// If the axis or an index is out of range.
    #[track_caller]
    pub fn index_select(self, axis: isize, indices: impl Into<Arc<[usize]>>) -> Self {
        let (shape, indices) = (self.shape(), indices.into());
        let axis = normalize_axis("index_select", axis, shape.len());
        let size = shape[axis];
        check("index_select", &indices, axis, size);
        let y = self.value().select(Axis(axis), &indices).into_shared();
        self.builtin_unary("index_select", y, move |p| {
            p.gy().index_add(axis as isize, Arc::clone(&indices), size)
        })
        .noting(axis as f64)
    }

    /// y of `size` along `axis`, zero but for `y[indices[k]] += x[k]`,   x̄ = the slices `indices` of ȳ
    ///
    /// # Panics
    /// If the axis is out of range, an index is not below `size`, or there is not one index per slice.
    #[track_caller]
    pub fn index_add(self, axis: isize, indices: impl Into<Arc<[usize]>>, size: usize) -> Self {
        let (mut shape, indices) = (self.shape(), indices.into());
        let axis = normalize_axis("index_add", axis, shape.len());
        assert!(
            indices.len() == shape[axis],
            "index_add: {} indices for axis {axis} of {shape:?}",
            indices.len()
        );
        check("index_add", &indices, axis, size);
        shape[axis] = size;
        let mut y = Tensor::zeros(shape);
        for (&i, x) in indices.iter().zip(self.value().axis_iter(Axis(axis))) {
            let mut y = y.index_axis_mut(Axis(axis), i);
            y += &x;
        }
        self.builtin_unary("index_add", y, move |p| {
            p.gy().index_select(axis as isize, Arc::clone(&indices))
        })
        .noting(axis as f64)
    }
}

#[track_caller]
fn check(op: &str, indices: &[usize], axis: usize, size: usize) {
    if let Some(i) = indices.iter().find(|&&i| i >= size) {
        panic!("{op}: index {i} is not below the size {size} of axis {axis}");
    }
}
