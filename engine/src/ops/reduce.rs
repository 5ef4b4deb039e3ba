//! Sums and other reductions over axes.
//!
//! Axes may count from the end; an empty list stands for all axes. With `keepdims` the reduced axes stay with
//! size 1, otherwise they are removed.

use crate::autodiff::{Kind, Map, Var};
use crate::kernels::{map, reduce};
use crate::real::Real;
use crate::tensor::{Tensor, normalize_axes};

impl<F: Real> Var<'_, F> {
    /// y = Σ x over `axes`,   x̄ = ȳ broadcast. An empty list stands for all axes.
    ///
    /// ```
    /// use emmy::{Tape, autodiff::grad, tensor::tensor};
    /// let tape = Tape::new();
    /// let x = tape.var(tensor(&[2, 2], vec![1.0_f64, 2.0, 3.0, 4.0]));
    /// assert_eq!(x.sum(&[0], false).value(), tensor(&[2], vec![4.0, 6.0]));
    /// assert_eq!(x.sum(&[1], true).value(), tensor(&[2, 1], vec![3.0, 7.0]));
    /// assert_eq!(x.sum_all().item(), 10.0);
    /// assert_eq!(grad(x.sum_all(), &[x])[0], tensor(&[2, 2], vec![1.0; 4]));
    /// assert_eq!((x.mean_all().item(), x.slice(0, 0..1).var(&[], false).item()), (2.5, 0.25));
    /// ```
    ///
    /// # Panics
    /// If an axis is out of range or occurs twice.
    #[track_caller]
    pub fn sum(self, axes: &[isize], keepdims: bool) -> Self {
        self.sum_as("sum", axes, keepdims)
    }

    /// [`sum`](Self::sum) whose panics name the operation `op`.
    #[track_caller]
    pub(super) fn sum_as(self, op: &str, axes: &[isize], keepdims: bool) -> Self {
        let axes = normalize_axes(op, axes, self.ndim());
        let y = reduce::sum(&self.value(), &axes);
        self.unary(Map::Sum, y, |p| p.gy().broadcast_to(&p.x().shape()))
            .without(&axes, keepdims)
    }

    /// y = Σ x over all elements, of shape `[]`,   x̄ = ȳ everywhere
    pub fn sum_all(self) -> Self {
        self.sum(&[], false)
    }

    /// y = the mean of x over `axes`: the sum divided by the number of elements; NaN, 0 / 0, over none, as in
    /// NumPy. An empty list stands for all axes.
    ///
    /// # Panics
    /// If an axis is out of range or occurs twice.
    #[track_caller]
    pub fn mean(self, axes: &[isize], keepdims: bool) -> Self {
        self.mean_as("mean", axes, keepdims)
    }

    /// y = the mean of all elements, of shape `[]`; NaN over none
    pub fn mean_all(self) -> Self {
        self.mean(&[], false)
    }

    #[track_caller]
    fn mean_as(self, op: &str, axes: &[isize], keepdims: bool) -> Self {
        let shape = self.shape();
        let y = self.sum_as(op, axes, keepdims);
        let axes = normalize_axes(op, axes, shape.len());
        let count: usize = axes.iter().map(|&axis| shape[axis]).product();
        y.scale(F::of(count as f64).recip())
    }

    /// y = the variance of x over `axes`: the mean of (x − mean)², divided by the number of elements, not by
    /// that number less one; NaN over none. An empty list stands for all axes.
    ///
    /// # Panics
    /// If an axis is out of range or occurs twice.
    #[track_caller]
    pub fn var(self, axes: &[isize], keepdims: bool) -> Self {
        let centred = self - self.mean_as("var", axes, true);
        centred.square().mean_as("var", axes, keepdims)
    }

    /// y = max x over `axes`,   ȳ goes to the largest elements, in equal shares if there are several. An
    /// empty list stands for all axes; the maximum of nothing is −∞.
    ///
    /// ```
    /// use emmy::{Tape, autodiff::grad, tensor::tensor};
    /// let tape = Tape::new();
    /// let x = tape.var(vec![1.0_f64, 3.0, 3.0]);
    /// let y = x.max(&[0], false);
    /// assert_eq!(y.item(), 3.0);
    /// assert_eq!(grad(y, &[x])[0], tensor(&[3], vec![0.0, 0.5, 0.5]));
    /// ```
    ///
    /// # Panics
    /// If an axis is out of range or occurs twice.
    #[track_caller]
    pub fn max(self, axes: &[isize], keepdims: bool) -> Self {
        self.extremum(true, axes, keepdims, reduce::max)
    }

    /// y = the largest of all elements, of shape `[]`,   ȳ goes to it, in equal shares if there are several
    pub fn max_all(self) -> Self {
        self.max(&[], false)
    }

    /// y = min x over `axes`,   ȳ goes to the smallest elements, in equal shares if there are several. An
    /// empty list stands for all axes; the minimum of nothing is ∞.
    ///
    /// # Panics
    /// If an axis is out of range or occurs twice.
    #[track_caller]
    pub fn min(self, axes: &[isize], keepdims: bool) -> Self {
        self.extremum(false, axes, keepdims, reduce::min)
    }

    /// y = the smallest of all elements, of shape `[]`,   ȳ goes to it, in equal shares if there are several
    pub fn min_all(self) -> Self {
        self.min(&[], false)
    }

    #[track_caller]
    fn extremum(
        self,
        largest: bool,
        axes: &[isize],
        keepdims: bool,
        value: impl FnOnce(&Tensor<F>, &[usize]) -> Tensor<F>,
    ) -> Self {
        let kind = Kind::Extremum { largest };
        let op = kind.name();
        let axes = normalize_axes(op, axes, self.ndim());
        let reduced = axes.clone();
        let y = self.unary(kind, value(&self.value(), &axes), move |p| {
            let (x, y) = (p.x().value(), p.y().value());
            let hit = map::binary(op, &x, &y, |x, y| F::of(f64::from(x == y)));
            let count = reduce::sum(&hit, &reduced);
            let share = map::binary(op, &hit, &count, |hit, count| hit / count);
            p.gy() * p.tape.constant(share)
        });
        y.without(&axes, keepdims)
    }

    /// x without the given axes of size 1, unless they are to be kept.
    pub(super) fn without(self, axes: &[usize], keepdims: bool) -> Self {
        if keepdims {
            return self;
        }
        let shape = self.shape();
        let kept = (0..shape.len()).filter(|axis| !axes.contains(axis));
        self.reshape(&kept.map(|axis| shape[axis]).collect::<Vec<_>>())
    }
}
