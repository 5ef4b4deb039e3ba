//! Softmax and its relatives over one axis, with an optional mask that says which elements take part.

use crate::autodiff::Var;
use crate::kernels::softmax::{logsumexp_rows, softmax_rows};
use crate::real::Real;
use crate::tensor::{Tensor, contiguous, normalize_axis, tensor};
use ndarray::IxDyn;

impl<'t, F: Real> Var<'t, F> {
    /// y = e^x / Σ e^x along `axis`,   x̄ = y ⊙ (ȳ − Σ ȳ y)
    ///
    /// # Panics
    /// If the axis is out of range.
    #[track_caller]
    pub fn softmax(self, axis: isize) -> Self {
        self.along("softmax", axis, None, |x, keep| x.softmax_last(keep))
    }

    /// [`softmax`](Self::softmax) over the elements for which `mask` holds; 0 elsewhere, and 0 where nothing
    /// is left.
    ///
    /// # Panics
    /// If the axis is out of range, or `mask` does not broadcast to x.
    #[track_caller]
    pub fn softmax_masked(self, axis: isize, mask: &Tensor<bool>) -> Self {
        let f = |x: Self, keep| x.softmax_last(keep);
        self.along("softmax_masked", axis, Some(mask), f)
    }

    /// y = ln Σ e^x along `axis`, which is removed, or with `keepdims` stays with size 1,   x̄ = ȳ softmax(x)
    ///
    /// # Panics
    /// If the axis is out of range.
    #[track_caller]
    pub fn logsumexp(self, axis: isize, keepdims: bool) -> Self {
        self.logsumexp_as("logsumexp", axis, None, keepdims)
    }

    /// [`logsumexp`](Self::logsumexp) over the elements for which `mask` holds; −∞, with derivative 0, where
    /// nothing is left.
    ///
    /// # Panics
    /// If the axis is out of range, or `mask` does not broadcast to x.
    #[track_caller]
    pub fn logsumexp_masked(self, axis: isize, mask: &Tensor<bool>, keepdims: bool) -> Self {
        self.logsumexp_as("logsumexp_masked", axis, Some(mask), keepdims)
    }

    #[track_caller]
    fn logsumexp_as(
        self,
        op: &str,
        axis: isize,
        mask: Option<&Tensor<bool>>,
        keepdims: bool,
    ) -> Self {
        let y = self.along(op, axis, mask, |x, keep| x.logsumexp_last(keep));
        y.without(&[normalize_axis(op, axis, self.ndim())], keepdims)
    }

    /// y = x − ln Σ e^x along `axis`
    ///
    /// # Panics
    /// If the axis is out of range.
    #[track_caller]
    pub fn log_softmax(self, axis: isize) -> Self {
        self - self.logsumexp_as("log_softmax", axis, None, true)
    }

    /// [`log_softmax`](Self::log_softmax) over the elements for which `mask` holds; −∞ elsewhere.
    ///
    /// # Panics
    /// If the axis is out of range, or `mask` does not broadcast to x.
    #[track_caller]
    pub fn log_softmax_masked(self, axis: isize, mask: &Tensor<bool>) -> Self {
        let hidden = Tensor::from_elem(IxDyn(&[]), F::neg_infinity());
        // An all-masked row would subtract −∞; its elements are masked anyway, so a finite number in its
        // place changes nothing.
        let lse = self.logsumexp_as("log_softmax_masked", axis, Some(mask), true);
        let finite = lse.value().mapv(|x| x.is_finite()).into_shared();
        let zero = self.tape().constant(Tensor::zeros(IxDyn(&[])));
        let lse = lse.where_(&finite, zero);
        (self - lse).where_(mask, self.tape().constant(hidden))
    }

    /// Runs `f`, which works on the last axis, along another one.
    #[track_caller]
    fn along(
        self,
        op: &str,
        axis: isize,
        mask: Option<&Tensor<bool>>,
        f: impl FnOnce(Self, Vec<bool>) -> Self,
    ) -> Self {
        let shape = self.shape();
        let n = shape.len();
        let axis = normalize_axis(op, axis, n);
        let mut keep = Vec::new();
        if let Some(mask) = mask {
            let Some(mut mask) = mask.broadcast(IxDyn(&shape)) else {
                panic!(
                    "{op}: the mask {:?} does not broadcast to {shape:?}",
                    mask.shape()
                )
            };
            mask.swap_axes(axis, n - 1);
            keep.extend(mask.iter().copied());
        }
        if axis + 1 == n {
            f(self, keep)
        } else {
            f(self.transpose(axis as isize, -1), keep).transpose(axis as isize, -1)
        }
    }

    fn softmax_last(self, keep: Vec<bool>) -> Self {
        let x = contiguous(&self.value());
        let w = x.shape()[x.ndim() - 1];
        let y = softmax_rows(x.as_slice().expect("contiguous"), &keep, w);
        self.builtin_unary("softmax", tensor(x.shape(), y), |p| {
            let weighted = p.gy() * p.y();
            weighted - p.y() * weighted.sum(&[-1], true)
        })
    }

    fn logsumexp_last(self, keep: Vec<bool>) -> Self {
        let x = contiguous(&self.value());
        let mut shape = x.shape().to_vec();
        let w = shape.pop().expect("an axis");
        shape.push(1);
        let y = match w {
            0 => vec![F::neg_infinity(); shape.iter().product()],
            _ => logsumexp_rows(x.as_slice().expect("contiguous"), &keep, w),
        };
        self.builtin_unary("logsumexp", tensor(&shape, y), move |p| {
            p.gy() * p.x().softmax_last(keep.clone())
        })
    }
}
