//! Selecting and scattering by index.

use crate::autodiff::{Map, Var};
use crate::kernels::index;
use crate::real::Real;
use crate::tensor::{contiguous, elements, normalize_axis};
use ndarray::Axis;
use std::sync::Arc;

impl<F: Real> Var<'_, F> {
    /// y = the slices `indices` of x along `axis`, in that order, repeats allowed,   x̄ = ȳ added up at those
    /// places
    ///
    /// ```
    /// use emmy::{Tape, autodiff::grad, tensor::tensor};
    /// let tape = Tape::new();
    /// let x = tape.var(vec![10.0_f64, 20.0, 30.0]);
    /// let y = x.index_select(0, vec![2, 0, 2]);
    /// assert_eq!(y.value(), tensor(&[3], vec![30.0, 10.0, 30.0]));
    /// assert_eq!(grad(y.sum_all(), &[x])[0], tensor(&[3], vec![1.0, 0.0, 2.0]));
    /// // The adjoint: 10 and 30 are both added to place 0.
    /// assert_eq!(x.index_add(0, vec![0, 1, 0], 2).value(), tensor(&[2], vec![40.0, 20.0]));
    /// ```
    ///
    /// # Panics
    /// If the axis or an index is out of range.
    #[track_caller]
    pub fn index_select(self, axis: isize, indices: impl Into<Arc<[usize]>>) -> Self {
        let (shape, indices) = (self.shape(), indices.into());
        let axis = normalize_axis("index_select", axis, shape.len());
        let size = shape[axis];
        check("index_select", &indices, axis, size);
        let x = self.value();
        let y = match x.as_slice() {
            Some(data) => {
                let y = index::select(data, around(&shape, axis), &indices);
                let mut to = shape;
                to[axis] = indices.len();
                y.into_tensor(&to)
            }
            // Of a view the chosen slices alone are copied.
            None => x.select(Axis(axis), &indices).into_shared(),
        };
        let chosen = Arc::clone(&indices);
        self.unary(
            Map::Select {
                axis,
                indices: chosen,
            },
            y,
            move |p| p.gy().index_add(axis as isize, Arc::clone(&indices), size),
        )
    }

    /// y of `size` along `axis`, zero but for `y[indices[k]] += x[k]`,   x̄ = the slices `indices` of ȳ
    ///
    /// # Panics
    /// If the axis is out of range, an index is not below `size`, there is not one index per slice, or y would
    /// have more elements than memory has addresses.
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
        let x = contiguous(&self.value());
        let data = x.as_slice().expect("contiguous");
        let from = around(&shape, axis);
        shape[axis] = size;
        elements("index_add", &shape);
        let y = index::add(data, from, &indices, size);
        let chosen = Arc::clone(&indices);
        self.unary(
            Map::Scatter {
                axis,
                indices: chosen,
            },
            y.into_tensor(&shape),
            move |p| p.gy().index_select(axis as isize, Arc::clone(&indices)),
        )
    }
}

/// The elements before an axis, along it, and after it.
fn around(shape: &[usize], axis: usize) -> [usize; 3] {
    let before = shape[..axis].iter().product();
    [before, shape[axis], shape[axis + 1..].iter().product()]
}

#[track_caller]
fn check(op: &str, indices: &[usize], axis: usize, size: usize) {
    if let Some(i) = indices.iter().find(|&&i| i >= size) {
        panic!("{op}: index {i} is not below the size {size} of axis {axis}");
    }
}
