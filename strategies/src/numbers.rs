//! Numbers, tensors, losses, and problems of them.

use super::graphs::arbitrary_graphs;
use emmy::real::Real;
use emmy::tensor::{Tensor, tensor};
use emmy::testing::{Loss, Problem};
use proptest::collection::vec;
use proptest::prelude::*;
use std::ops::Range;

/// Seeds; they shrink to 0.
pub fn seeds() -> impl Strategy<Value = u64> {
    0..1_u64 << 40
}

/// Numbers between −3 and 3, a third of them one of 0, ±½, ±1, so that there are zeros and ties.
fn numbers<F: Real>() -> impl Strategy<Value = F> {
    prop_oneof![
        1 => prop::sample::select(vec![0.0, 1.0, -1.0, 0.5, -0.5]),
        2 => -3.0..3.0_f64,
    ]
    .prop_map(F::of)
}

/// Tensors of a shape; entries shrink to 0.
pub fn tensors<F: Real>(shape: &[usize]) -> impl Strategy<Value = Tensor<F>> + use<F> {
    let shape = shape.to_vec();
    let entries: usize = shape.iter().product();
    vec(numbers::<F>(), entries).prop_map(move |entries| tensor(&shape, entries))
}

/// Tensors of a drawn shape.
pub fn tensors_of<F: Real>(
    shapes: impl Strategy<Value = Vec<usize>>,
) -> impl Strategy<Value = Tensor<F>> {
    shapes.prop_flat_map(|shape| tensors(&shape))
}

/// Shapes with so many axes of such sizes.
pub fn shapes(axes: Range<usize>, size: Range<usize>) -> impl Strategy<Value = Vec<usize>> {
    vec(size, axes)
}

/// Features `[rows, columns]`: dense, or nine in ten of them zeros.
pub fn features<F: Real>(rows: usize, columns: usize) -> impl Strategy<Value = Tensor<F>> {
    let sparse = vec(prop::bool::weighted(0.1), rows * columns);
    prop_oneof![
        1 => (tensors::<F>(&[rows, columns]), sparse).prop_map(|(x, keep)| {
            let kept = x.iter().zip(keep).map(|(&x, keep)| if keep { x } else { F::zero() });
            tensor(x.shape(), kept.collect())
        }),
        2 => tensors(&[rows, columns]),
    ]
}

/// Masks of n entries.
pub fn masks(n: usize) -> impl Strategy<Value = Vec<bool>> {
    vec(any::<bool>(), n)
}

/// The widths of so many layers: its length is the depth.
pub fn widths(depth: Range<usize>, width: Range<usize>) -> impl Strategy<Value = Vec<usize>> {
    vec(width, depth)
}

/// Any of the losses; their labels, targets and weights follow from the seed of a subject.
pub fn losses() -> impl Strategy<Value = Loss> {
    prop::sample::select(&Loss::ALL[..])
}

/// Any of the losses on any graph with any features.
pub fn problems() -> impl Strategy<Value = Problem> {
    (
        arbitrary_graphs(),
        1_usize..6,
        any::<bool>(),
        losses(),
        seeds(),
    )
        .prop_map(|(graph, inputs, sparse, loss, seed)| Problem {
            graph,
            inputs,
            sparse,
            loss,
            seed,
        })
}
