//! Plain loops over indices. Nothing here uses a kernel.

use emmy::tensor::{Tensor, tensor};
use ndarray::{Dimension, IxDyn, indices};

/// The tensor of a shape whose element at an index is `f(index)`.
pub(super) fn build(shape: &[usize], mut f: impl FnMut(&[usize]) -> f64) -> Tensor<f64> {
    let all = indices(IxDyn(shape)).into_iter();
    tensor(shape, all.map(|index| f(index.slice())).collect())
}

/// The element of x that broadcasting puts at `index` of a larger shape.
pub(super) fn at(x: &Tensor<f64>, index: &[usize]) -> f64 {
    let own = &index[index.len() - x.ndim()..];
    let place: Vec<usize> = (own.iter().zip(x.shape()))
        .map(|(&i, &size)| if size == 1 { 0 } else { i })
        .collect();
    x[IxDyn(&place)]
}

/// NumPy's rule, written out.
pub(super) fn common_shape(shapes: &[&[usize]]) -> Vec<usize> {
    let ndim = shapes.iter().map(|s| s.len()).max().unwrap_or(0);
    (0..ndim)
        .map(|axis| {
            let sizes = shapes
                .iter()
                .filter_map(|s| (axis + s.len()).checked_sub(ndim).map(|k| s[k]));
            sizes.fold(1, |size, other| if other == 1 { size } else { other })
        })
        .collect()
}

/// f element by element, with broadcasting.
pub(super) fn zip(args: &[Tensor<f64>], f: impl Fn(&[f64]) -> f64) -> Tensor<f64> {
    let shapes: Vec<&[usize]> = args.iter().map(|x| x.shape()).collect();
    build(&common_shape(&shapes), |index| {
        f(&args.iter().map(|x| at(x, index)).collect::<Vec<_>>())
    })
}

/// The axes meant, as numbers; an empty list means all.
pub(super) fn numbered(axes: &[isize], ndim: usize) -> Vec<usize> {
    if axes.is_empty() {
        return (0..ndim).collect();
    }
    axes.iter()
        .map(|&a| {
            if a < 0 {
                (a + ndim as isize) as usize
            } else {
                a as usize
            }
        })
        .collect()
}

/// f of all elements that agree in the axes that are not reduced.
pub(super) fn reduce(
    x: &Tensor<f64>,
    axes: &[isize],
    keepdims: bool,
    f: impl Fn(&[f64]) -> f64,
) -> Tensor<f64> {
    let axes = numbered(axes, x.ndim());
    let shape: Vec<usize> = (x.shape().iter().enumerate())
        .map(|(k, &size)| if axes.contains(&k) { 1 } else { size })
        .collect();
    let kept = build(&shape, |out| {
        let same =
            |index: &[usize]| (0..index.len()).all(|k| axes.contains(&k) || index[k] == out[k]);
        let group: Vec<f64> = (x.indexed_iter())
            .filter(|(index, _)| same(index.slice()))
            .map(|(_, &x)| x)
            .collect();
        f(&group)
    });
    if keepdims {
        return kept;
    }
    let rest = (0..x.ndim())
        .filter(|k| !axes.contains(k))
        .map(|k| x.shape()[k]);
    tensor(&rest.collect::<Vec<_>>(), kept.iter().copied().collect())
}

/// f of each line along an axis, element by element of the line: `f(line, k)`.
pub(super) fn along(x: &Tensor<f64>, axis: isize, f: impl Fn(&[f64], usize) -> f64) -> Tensor<f64> {
    let axis = numbered(&[axis], x.ndim())[0];
    build(x.shape(), |index| {
        let line: Vec<f64> = (0..x.shape()[axis])
            .map(|k| {
                let mut place = index.to_vec();
                place[axis] = k;
                x[IxDyn(&place)]
            })
            .collect();
        f(&line, index[axis])
    })
}

/// ln Σ eˣ.
pub(super) fn logsumexp(x: &[f64]) -> f64 {
    x.iter().map(|x| x.exp()).sum::<f64>().ln()
}
