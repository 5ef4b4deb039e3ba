//! Softmax and its relatives over one axis, with an optional mask that says which elements take part.

use crate::autodiff::{Kind, Var};
use crate::kernels::map;
use crate::kernels::softmax::{log_softmax_rows, logsumexp_rows, softmax_rows};
use crate::real::Real;
use crate::tensor::memory::{self, Buffer};
use crate::tensor::{Tensor, contiguous, normalize_axis, scalar, tensor};
use ndarray::{Axis, IxDyn};

impl<'t, F: Real> Var<'t, F> {
    /// y = e^x / Σ e^x along `axis`,   x̄ = y ⊙ (ȳ − Σ ȳ y)
    ///
    /// ```
    /// use emmy::Tape;
    /// let tape = Tape::new();
    /// let x = tape.var(vec![0.0, 3.0_f64.ln()]);
    /// // e⁰ = 1 and 3, divided by their sum; a number added to all x changes nothing.
    /// for y in [x.softmax(0), (x + 1000.0).softmax(0)] {
    ///     assert!(y.value().iter().zip([0.25, 0.75]).all(|(y, e)| (y - e).abs() < 1e-12));
    /// }
    /// assert!((x.logsumexp(0, false).item() - 4.0_f64.ln()).abs() < 1e-12);
    /// ```
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

    /// y = x − ln Σ e^x along `axis`,   x̄ = ȳ − e^y Σ ȳ
    ///
    /// Computed as (x − max x) − ln Σ e^(x − max x): large x do not cancel.
    ///
    /// ```
    /// use emmy::{Tape, tensor::tensor};
    /// let tape = Tape::new();
    /// let x = tape.var(vec![1000.0_f64, 0.0]);
    /// // The softmax is 1 and 0, whose logarithm would be −∞.
    /// assert_eq!(x.softmax(0).value(), tensor(&[2], vec![1.0, 0.0]));
    /// assert_eq!(x.log_softmax(0).value(), tensor(&[2], vec![0.0, -1000.0]));
    /// ```
    ///
    /// # Panics
    /// If the axis is out of range.
    #[track_caller]
    pub fn log_softmax(self, axis: isize) -> Self {
        self.along("log_softmax", axis, None, Self::log_softmax_last)
    }

    /// [`log_softmax`](Self::log_softmax) over the elements for which `mask` holds; −∞ elsewhere, where ȳ
    /// does not count.
    ///
    /// # Panics
    /// If the axis is out of range, or `mask` does not broadcast to x.
    #[track_caller]
    pub fn log_softmax_masked(self, axis: isize, mask: &Tensor<bool>) -> Self {
        let f = Self::log_softmax_last;
        self.along("log_softmax_masked", axis, Some(mask), f)
    }

    /// Runs `f`, which works on the last axis, along another one.
    #[track_caller]
    fn along(
        self,
        op: &str,
        axis: isize,
        mask: Option<&Tensor<bool>>,
        f: impl FnOnce(Self, Option<Tensor<bool>>) -> Self,
    ) -> Self {
        let shape = self.shape();
        let n = shape.len();
        let axis = normalize_axis(op, axis, n);
        let mut keep = None;
        if let Some(mask) = mask {
            assert!(
                mask.broadcast(IxDyn(&shape)).is_some(),
                "{op}: the mask {:?} does not broadcast to {shape:?}",
                mask.shape()
            );
            let mut mask = mask.clone();
            while mask.ndim() < n {
                mask.insert_axis_inplace(Axis(0));
            }
            mask.swap_axes(axis, n - 1);
            keep = Some(mask);
        }
        if axis + 1 == n {
            f(self, keep)
        } else {
            f(self.transpose(axis as isize, -1), keep).transpose(axis as isize, -1)
        }
    }

    fn softmax_last(self, keep: Option<Tensor<bool>>) -> Self {
        let y = over_rows(&self.value(), keep.as_ref(), softmax_rows);
        self.unary(Kind::Softmax, y, |p| {
            let weighted = p.gy() * p.y();
            weighted - p.y() * weighted.sum(&[-1], true)
        })
    }

    fn log_softmax_last(self, keep: Option<Tensor<bool>>) -> Self {
        let y = over_rows(&self.value(), keep.as_ref(), log_softmax_rows);
        self.unary(Kind::LogSoftmax, y, move |p| {
            let g = match &keep {
                Some(keep) => {
                    let zero = p.tape.constant(scalar(F::zero()));
                    p.gy().where_(keep, zero)
                }
                None => p.gy(),
            };
            g - p.y().exp() * g.sum(&[-1], true)
        })
    }

    fn logsumexp_last(self, keep: Option<Tensor<bool>>) -> Self {
        let x = hidden(&self.value(), keep.as_ref());
        let w = x.shape()[x.ndim() - 1];
        let mut shape = x.shape().to_vec();
        shape[x.ndim() - 1] = 1;
        let y = match w {
            0 => vec![F::neg_infinity(); shape.iter().product()],
            _ => logsumexp_rows(x.as_slice().expect("contiguous"), w),
        };
        memory::recycle(x);
        self.unary(Kind::LogSumExp, tensor(&shape, y), move |p| {
            p.gy() * p.x().softmax_last(keep.clone())
        })
    }
}

/// A kernel applied to the rows of x.
fn over_rows<F: Real>(
    x: &Tensor<F>,
    keep: Option<&Tensor<bool>>,
    kernel: fn(&[F], usize) -> Buffer<F>,
) -> Tensor<F> {
    let x = hidden(x, keep);
    let w = x.shape()[x.ndim() - 1];
    let y = kernel(x.as_slice().expect("contiguous"), w).into_tensor(x.shape());
    memory::recycle(x);
    y
}

/// x row by row, with −∞ where `keep` does not hold.
fn hidden<F: Real>(x: &Tensor<F>, keep: Option<&Tensor<bool>>) -> Tensor<F> {
    let x = contiguous(x);
    let Some(keep) = keep else { return x };
    let keep = contiguous(&keep.mapv(|k| F::of(f64::from(k))).into_shared());
    let nothing = F::neg_infinity();
    let pick = move |x: F, k: F| if k > F::zero() { x } else { nothing };
    map::binary("mask", &x, &keep, pick)
}
