//! The same elements in another shape or order, parts of them, and several tensors put together.

use crate::autodiff::{Kind, Map, Var};
use crate::kernels::{map, reduce};
use crate::real::Real;
use crate::tensor::{Sizes, Tensor, contiguous, elements, normalize_axis};
use ndarray::{Axis, IxDyn, Slice};
use std::ops::Range;

impl<'t, F: Real> Var<'t, F> {
    /// y = x with leading dimensions and sizes of 1 repeated to `shape`,   x̄ = ȳ summed back
    ///
    /// # Panics
    /// If the shape of x does not broadcast to `shape`.
    #[track_caller]
    pub fn broadcast_to(self, shape: &[usize]) -> Self {
        if self.shape() == shape {
            return self;
        }
        let x = self.value();
        assert!(
            x.broadcast(IxDyn(shape)).is_some(),
            "broadcast_to: {:?} does not broadcast to {shape:?}",
            x.shape()
        );
        self.unary(Map::Broadcast, map::broadcast(&x, shape), |p| {
            p.gy().sum_like(p.x())
        })
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
        let y = reduce::sum_to(&self.value(), shape);
        self.unary(Map::SumTo, y, |p| p.gy().broadcast_to(&p.x().shape()))
    }

    /// [`sum_to`](Self::sum_to) the shape of `like`: the adjoint of broadcasting `like`.
    #[track_caller]
    pub(crate) fn sum_like(self, like: Self) -> Self {
        self.sum_to(&like.shape())
    }

    /// y = x in another shape, its elements in row-major order,   x̄ = ȳ in the shape of x
    ///
    /// One size may be −1: it then follows from the number of elements.
    ///
    /// ```
    /// let tape = emmy::Tape::new();
    /// let x = tape.var(vec![1.0_f64, 2.0, 3.0, 4.0, 5.0, 6.0]);
    /// assert_eq!(x.reshape(&[2, -1]).shape(), [2, 3]);
    /// let like: Vec<usize> = vec![3, 1, 2];
    /// assert_eq!(x.reshape(&like).shape(), like);
    /// ```
    ///
    /// # Panics
    /// If the number of elements differs, or −1 stands for no possible size or occurs more than once.
    #[track_caller]
    pub fn reshape<S: Sizes + ?Sized>(self, shape: &S) -> Self {
        let (old, asked) = (self.shape(), shape.sizes());
        let shape = fill_in(&old, &asked);
        if old == shape {
            return self;
        }
        let (have, want) = (self.len(), elements("reshape", &shape));
        assert!(
            have == want,
            "reshape: {old:?} has {have} elements, {asked:?} has {want}"
        );
        let y = contiguous(&self.value())
            .into_shape_with_order(IxDyn(&shape))
            .expect("as many elements, without gaps");
        self.unary(Map::Reshape, y, |p| p.gy().reshape(&p.x().shape()))
    }

    /// y = x with a new axis of size 1 at `axis`,   x̄ = ȳ without it
    ///
    /// # Panics
    /// If `axis` is not within the dimensions of y.
    #[track_caller]
    pub fn unsqueeze(self, axis: isize) -> Self {
        let mut shape = self.shape();
        let axis = normalize_axis("unsqueeze", axis, shape.len() + 1);
        shape.insert(axis, 1);
        self.reshape(&shape)
    }

    /// y = x without `axis`, which must have size 1,   x̄ = ȳ with it
    ///
    /// # Panics
    /// If `axis` is not within the dimensions of x, or its size is not 1.
    #[track_caller]
    pub fn squeeze(self, axis: isize) -> Self {
        let mut shape = self.shape();
        let axis = normalize_axis("squeeze", axis, shape.len());
        assert!(
            shape[axis] == 1,
            "squeeze: axis {axis} of {shape:?} does not have size 1"
        );
        shape.remove(axis);
        self.reshape(&shape)
    }

    /// x with its axes in the order `axes`, which may count from the end: axis k of y is axis `axes[k]` of x.
    /// A view, nothing is copied.   x̄ = ȳ in the old order
    ///
    /// # Panics
    /// If `axes` is not a permutation of the dimensions of x.
    #[track_caller]
    pub fn permute(self, axes: &[isize]) -> Self {
        let n = self.ndim();
        let from_start = |&axis: &isize| if axis < 0 { axis + n as isize } else { axis } as usize;
        let order: Vec<usize> = axes.iter().map(from_start).collect();
        let mut inverse = vec![-1; axes.len()];
        for (k, &axis) in order.iter().enumerate() {
            if let Some(place) = inverse.get_mut(axis) {
                *place = k as isize;
            }
        }
        assert!(
            axes.len() == n && !inverse.contains(&-1),
            "permute: {axes:?} is not a permutation of the {n} dimensions"
        );
        let y = self.value().permuted_axes(IxDyn(&order));
        // Whether the last axis stays.
        let last = order.last() == Some(&(n.wrapping_sub(1)));
        self.unary(Map::Permute { last }, y, move |p| p.gy().permute(&inverse))
    }

    /// x with two axes exchanged; a view.   x̄ = ȳ with them exchanged back
    ///
    /// # Panics
    /// If an axis is out of range.
    #[track_caller]
    pub fn transpose(self, a: isize, b: isize) -> Self {
        let n = self.ndim();
        let (a, b) = (
            normalize_axis("transpose", a, n),
            normalize_axis("transpose", b, n),
        );
        let mut axes: Vec<isize> = (0..n as isize).collect();
        axes.swap(a, b);
        self.permute(&axes)
    }

    /// xᵀ: x with its last two axes exchanged; a view.   x̄ = ȳᵀ
    ///
    /// # Panics
    /// If x has fewer than two dimensions.
    #[track_caller]
    pub fn t(self) -> Self {
        assert!(
            self.ndim() >= 2,
            "t: shape {:?} has fewer than two dimensions",
            self.shape()
        );
        self.transpose(-2, -1)
    }

    /// y = the part `range` of x along `axis`; a view.   x̄ = ȳ with zeros around it
    ///
    /// # Panics
    /// If the axis or the range is out of range.
    #[track_caller]
    pub fn slice(self, axis: isize, range: Range<usize>) -> Self {
        let shape = self.shape();
        let axis = normalize_axis("slice", axis, shape.len());
        let size = shape[axis];
        assert!(
            range.start <= range.end && range.end <= size,
            "slice: {range:?} is not within axis {axis} of {shape:?}"
        );
        let (before, after) = (range.start, size - range.end);
        let mut y = self.value();
        y.slice_axis_inplace(Axis(axis), Slice::from(range));
        self.unary(Map::Slice { axis }, y, move |p| {
            p.gy().pad(axis as isize, before, after)
        })
    }

    /// y = x with `before` zeros in front and `after` zeros behind it along `axis`,   x̄ = that part of ȳ
    ///
    /// # Panics
    /// If the axis is out of range, or y would have more elements than memory has addresses.
    #[track_caller]
    pub fn pad(self, axis: isize, before: usize, after: usize) -> Self {
        let mut shape = self.shape();
        let axis = normalize_axis("pad", axis, shape.len());
        let size = (shape[axis].checked_add(before)).and_then(|size| size.checked_add(after));
        let Some(size) = size else {
            panic!(
                "pad: {before} zeros before and {after} after axis {axis} of {shape:?} are too many to count"
            )
        };
        let range = before..before + shape[axis];
        shape[axis] = size;
        elements("pad", &shape);
        let mut y = Tensor::zeros(shape);
        y.slice_axis_mut(Axis(axis), Slice::from(range.clone()))
            .assign(&self.value());
        self.unary(Map::Pad { axis }, y, move |p| {
            p.gy().slice(axis as isize, range.clone())
        })
    }

    /// y = the xs one behind the other along `axis`,   x̄ₖ = its part of ȳ
    ///
    /// Shapes are equal except along `axis`, where the sizes add up.
    ///
    /// ```
    /// use emmy::{Tape, Var};
    /// let tape = Tape::new();
    /// let (a, b) = (tape.var(vec![1.0_f64]), tape.var(vec![2.0, 3.0]));
    /// let y = Var::concat(&[a, b], 0);
    /// assert_eq!(y.value().as_slice(), Some(&[1.0, 2.0, 3.0][..]));
    /// assert_eq!(y.slice(0, 1..3).value().as_slice(), Some(&[2.0, 3.0][..]));
    /// ```
    ///
    /// # Panics
    /// If there is no x, the axis is out of range, shapes differ elsewhere than in `axis`, or the xs stand on
    /// different tapes.
    #[track_caller]
    pub fn concat(xs: &[Self], axis: isize) -> Self {
        let first = xs.first().expect("concat: it needs at least one tensor");
        let axis = normalize_axis("concat", axis, first.ndim());
        let values: Vec<_> = xs.iter().map(|x| x.value()).collect();
        let shapes: Vec<_> = values.iter().map(|x| x.shape()).collect();
        if let Some(other) = shapes.iter().find(|s| s.len() != shapes[0].len()) {
            panic!(
                "concat: ranks {} and {} do not go together: shapes {shapes:?}",
                shapes[0].len(),
                other.len()
            );
        }
        let views: Vec<_> = values.iter().map(|x| x.view()).collect();
        let Ok(y) = ndarray::concatenate(Axis(axis), &views) else {
            panic!("concat: shapes {shapes:?} differ elsewhere than in axis {axis}")
        };
        let mut ranges = Vec::with_capacity(xs.len());
        let mut start = 0;
        for x in &values {
            ranges.push(start..start + x.shape()[axis]);
            start += x.shape()[axis];
        }
        first
            .tape()
            .record(Kind::Concat { axis }, xs, y.into_shared(), move |p| {
                let part = |range: &Range<usize>| p.gy().slice(axis as isize, range.clone());
                let parts = ranges.iter().enumerate();
                parts.map(|(k, range)| p.term(k, |_| part(range))).collect()
            })
    }

    /// y = the xs side by side along a new axis at `axis`,   x̄ₖ = its part of ȳ
    ///
    /// # Panics
    /// If there is no x, the axis is out of range, shapes differ, or the xs stand on different tapes.
    #[track_caller]
    pub fn stack(xs: &[Self], axis: isize) -> Self {
        let first = xs.first().expect("stack: it needs at least one tensor");
        let axis = normalize_axis("stack", axis, first.ndim() + 1) as isize;
        first.tape().accept("stack", xs);
        let shape = first.shape();
        if let Some(x) = xs.iter().find(|x| x.shape() != shape) {
            panic!("stack: shapes {shape:?} and {:?} differ", x.shape());
        }
        let xs: Vec<_> = xs.iter().map(|x| x.unsqueeze(axis)).collect();
        Self::concat(&xs, axis)
    }
}

/// The requested sizes, with −1 replaced by the size that follows from the number of elements of `old`.
#[track_caller]
fn fill_in(old: &[usize], asked: &[isize]) -> Vec<usize> {
    let len: usize = old.iter().product();
    let open = asked.iter().filter(|&&size| size == -1).count();
    assert!(
        open <= 1 && asked.iter().all(|&size| size >= -1),
        "reshape: {asked:?} is not a shape: only one size may be -1, and none less"
    );
    let known = asked.iter().filter(|&&size| size >= 0);
    let known: Vec<usize> = known.map(|&size| size as usize).collect();
    let known = elements("reshape", &known);
    assert!(
        open == 0 || (known > 0 && len.is_multiple_of(known)),
        "reshape: {old:?} has {len} elements, and no size in place of -1 gives {asked:?} as many"
    );
    let size = |&size: &isize| usize::try_from(size).unwrap_or_else(|_| len / known);
    asked.iter().map(size).collect()
}
