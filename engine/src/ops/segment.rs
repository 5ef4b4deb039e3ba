//! Between rows and entries of a pattern: gathering, and sums, means, maxima and softmax over the entries of
//! each row.

use crate::autodiff::{Kind, Map, Var};
use crate::kernels::{map, segment};
use crate::real::Real;
use crate::sparse::Pattern;
use crate::tensor::memory::Buffer;
use crate::tensor::{Tensor, contiguous, tensor};
use std::sync::Arc;

/// y_e = x_i(e): x `[n, ..]` at the row of every entry, `[nnz, ..]`,   x̄ = ȳ summed over each row
///
/// ```
/// use emmy::{Tape, ops::sparse::gather_rows, sparse::Pattern, tensor::tensor};
/// // Node 0 hears nodes 0 and 1, node 1 hears node 0.
/// let edges = Pattern::from_pairs(2, 2, &[(0, 0), (0, 1), (1, 0)])?;
/// let tape = Tape::new();
/// let x = tape.var(vec![10.0_f64, 20.0]);
/// assert_eq!(gather_rows(&edges, x).value(), tensor(&[3], vec![10.0, 10.0, 20.0]));
/// # Ok::<(), emmy::Error>(())
/// ```
///
/// # Panics
/// If x does not have one row per row of the pattern.
#[track_caller]
pub fn gather_rows<'t, F: Real>(pattern: &Arc<Pattern>, x: Var<'t, F>) -> Var<'t, F> {
    let kernel = segment::gather_rows;
    per_row(
        Map::GatherRows(Arc::clone(pattern)),
        pattern,
        x,
        pattern.rows(),
        pattern.nnz(),
        kernel,
        segment_sum,
    )
}

/// y_e = x_j(e): x `[m, ..]` at the column of every entry, `[nnz, ..]`,   x̄ = ȳ summed over each column
///
/// ```
/// use emmy::{Tape, ops::sparse::gather_columns, sparse::Pattern, tensor::tensor};
/// // Node 0 hears nodes 0 and 1, node 1 hears node 0.
/// let edges = Pattern::from_pairs(2, 2, &[(0, 0), (0, 1), (1, 0)])?;
/// let tape = Tape::new();
/// let x = tape.var(vec![10.0_f64, 20.0]);
/// assert_eq!(gather_columns(&edges, x).value(), tensor(&[3], vec![10.0, 20.0, 10.0]));
/// # Ok::<(), emmy::Error>(())
/// ```
///
/// # Panics
/// If x does not have one row per column of the pattern.
#[track_caller]
pub fn gather_columns<'t, F: Real>(pattern: &Arc<Pattern>, x: Var<'t, F>) -> Var<'t, F> {
    let kernel = segment::gather_cols;
    per_row(
        Map::GatherColumns(Arc::clone(pattern)),
        pattern,
        x,
        pattern.cols(),
        pattern.nnz(),
        kernel,
        segment_sum_columns,
    )
}

/// y_i = Σ v_e over the entries e of row i: v `[nnz, ..]` → `[n, ..]`,   v̄_e = ȳ_i(e)
///
/// ```
/// use emmy::{Tape, ops::sparse::segment_sum, sparse::Pattern, tensor::tensor};
/// // Row 0 has two entries, row 1 one, row 2 none.
/// let pattern = Pattern::from_pairs(3, 2, &[(0, 0), (0, 1), (1, 0)])?;
/// let tape = Tape::new();
/// let v = tape.var(vec![1.0_f64, 2.0, 5.0]);
/// assert_eq!(segment_sum(&pattern, v).value(), tensor(&[3], vec![3.0, 5.0, 0.0]));
/// # Ok::<(), emmy::Error>(())
/// ```
///
/// # Panics
/// If v does not have one row per entry.
#[track_caller]
pub fn segment_sum<'t, F: Real>(pattern: &Arc<Pattern>, v: Var<'t, F>) -> Var<'t, F> {
    let kernel = segment::segment_sum;
    per_row(
        Map::SegmentSum(Arc::clone(pattern)),
        pattern,
        v,
        pattern.nnz(),
        pattern.rows(),
        kernel,
        gather_rows,
    )
}

/// y_j = Σ v_e over the entries e of column j: v `[nnz, ..]` → `[m, ..]`,   v̄_e = ȳ_j(e)
///
/// ```
/// use emmy::{Tape, ops::sparse::segment_sum_columns, sparse::Pattern, tensor::tensor};
/// // Column 0 has the first and the third entry, column 1 the second.
/// let pattern = Pattern::from_pairs(3, 2, &[(0, 0), (0, 1), (1, 0)])?;
/// let tape = Tape::new();
/// let v = tape.var(vec![1.0_f64, 2.0, 5.0]);
/// assert_eq!(segment_sum_columns(&pattern, v).value(), tensor(&[2], vec![6.0, 2.0]));
/// # Ok::<(), emmy::Error>(())
/// ```
///
/// # Panics
/// If v does not have one row per entry.
#[track_caller]
pub fn segment_sum_columns<'t, F: Real>(pattern: &Arc<Pattern>, v: Var<'t, F>) -> Var<'t, F> {
    let kernel = segment::segment_sum_t;
    per_row(
        Map::SegmentSumColumns(Arc::clone(pattern)),
        pattern,
        v,
        pattern.nnz(),
        pattern.cols(),
        kernel,
        gather_columns,
    )
}

/// y_i = the mean of v_e over the entries of row i, 0 for a row without entries: v `[nnz, ..]` → `[n, ..]`
///
/// ```
/// use emmy::{Tape, ops::sparse::segment_mean, sparse::Pattern, tensor::tensor};
/// // Row 0 has two entries, row 1 one, row 2 none.
/// let pattern = Pattern::from_pairs(3, 2, &[(0, 0), (0, 1), (1, 0)])?;
/// let tape = Tape::new();
/// let v = tape.var(vec![1.0_f64, 2.0, 5.0]);
/// assert_eq!(segment_mean(&pattern, v).value(), tensor(&[3], vec![1.5, 5.0, 0.0]));
/// # Ok::<(), emmy::Error>(())
/// ```
///
/// # Panics
/// If v does not have one row per entry.
#[track_caller]
pub fn segment_mean<'t, F: Real>(pattern: &Arc<Pattern>, v: Var<'t, F>) -> Var<'t, F> {
    trailing("segment_mean", v, pattern.nnz(), pattern.rows());
    let total = segment_sum(pattern, v);
    let starts = pattern.indptr().windows(2);
    let weights = starts.map(|w| F::of((w[1] - w[0]).max(1) as f64).recip());
    let mut shape = vec![1; total.ndim()];
    shape[0] = pattern.rows();
    total * v.tape().constant(tensor(&shape, weights.collect()))
}

/// y_i = max v_e over the entries of row i, 0 for a row without entries: v `[nnz, ..]` → `[n, ..]`;   ȳ goes
/// to the largest entries, in equal shares if there are several
///
/// ```
/// use emmy::autodiff::grad;
/// use emmy::{Tape, ops::sparse::segment_max, sparse::Pattern, tensor::tensor};
/// // Row 0 has three entries, row 1 none.
/// let pattern = Pattern::from_pairs(2, 3, &[(0, 0), (0, 1), (0, 2)])?;
/// let tape = Tape::new();
/// let v = tape.var(vec![5.0_f64, 2.0, 5.0]);
/// let y = segment_max(&pattern, v);
/// assert_eq!(y.value(), tensor(&[2], vec![5.0, 0.0]));
/// assert_eq!(grad(y.sum_all(), &[v])[0], tensor(&[3], vec![0.5, 0.0, 0.5]));
/// # Ok::<(), emmy::Error>(())
/// ```
///
/// # Panics
/// If v does not have one row per entry.
#[track_caller]
pub fn segment_max<'t, F: Real>(pattern: &Arc<Pattern>, v: Var<'t, F>) -> Var<'t, F> {
    let (shape, width) = trailing("segment_max", v, pattern.nnz(), pattern.rows());
    let y = apply(v, &shape, |v| {
        let mut y = segment::segment_max(pattern, v, width);
        for i in (0..pattern.rows()).filter(|&i| pattern.row(i).is_empty()) {
            y[i * width..(i + 1) * width].fill(F::zero());
        }
        y
    });
    let again = Arc::clone(pattern);
    v.unary(Kind::SegmentMax, y, move |p| {
        let (v, y) = (p.x().detach(), p.y().detach());
        let at_entries = gather_rows(&again, y).value();
        let hit = map::binary("segment_max", &v.value(), &at_entries, |v, y| {
            F::of(f64::from(v == y))
        });
        let hit = p.tape.constant(hit);
        let share = hit / gather_rows(&again, segment_sum(&again, hit));
        gather_rows(&again, p.gy()) * share
    })
}

/// y_e = e^(v_e) / Σ e^(v_e') over the entries of the same row: v `[nnz, ..]`,   v̄ = y ⊙ (ȳ − Σ_row ȳ y)
///
/// ```
/// use emmy::{Tape, ops::sparse::segment_softmax, sparse::Pattern};
/// // Two edges into node 0, one into node 1.
/// let edges = Pattern::from_pairs(2, 2, &[(0, 0), (0, 1), (1, 0)])?;
/// let tape = Tape::new();
/// let scores = tape.var(vec![0.0, 3.0_f64.ln(), 7.0]);
/// let alpha = segment_softmax(&edges, scores).value();
/// assert!(alpha.iter().zip([0.25, 0.75, 1.0]).all(|(a, e)| (a - e).abs() < 1e-12));
/// # Ok::<(), emmy::Error>(())
/// ```
///
/// # Panics
/// If v does not have one row per entry.
#[track_caller]
pub fn segment_softmax<'t, F: Real>(pattern: &Arc<Pattern>, v: Var<'t, F>) -> Var<'t, F> {
    let (shape, width) = trailing("segment_softmax", v, pattern.nnz(), pattern.nnz());
    let y = apply(v, &shape, |v| segment::segment_softmax(pattern, v, width));
    let again = Arc::clone(pattern);
    v.unary(Kind::SegmentSoftmax, y, move |p| {
        let weighted = p.gy() * p.y();
        weighted - p.y() * gather_rows(&again, segment_sum(&again, weighted))
    })
}

/// Records one of the linear maps between rows (or columns) and entries; `adjoint` is its adjoint.
#[track_caller]
fn per_row<'t, F: Real>(
    map: Map,
    pattern: &Arc<Pattern>,
    x: Var<'t, F>,
    from: usize,
    to: usize,
    kernel: fn(&Pattern, &[F], usize) -> Buffer<F>,
    adjoint: for<'a> fn(&Arc<Pattern>, Var<'a, F>) -> Var<'a, F>,
) -> Var<'t, F> {
    let (shape, width) = trailing(map.name(), x, from, to);
    let y = apply(x, &shape, |x| kernel(pattern, x, width));
    let again = Arc::clone(pattern);
    x.unary(map, y, move |p| adjoint(&again, p.gy()))
}

/// The shape of x with `to` in place of `from` in front, and the number of elements behind the first axis.
#[track_caller]
fn trailing<F: Real>(op: &str, x: Var<'_, F>, from: usize, to: usize) -> (Vec<usize>, usize) {
    let mut shape = x.shape();
    assert!(
        shape.first() == Some(&from),
        "{op}: the first axis of {shape:?} must have size {from}"
    );
    shape[0] = to;
    let width = shape[1..].iter().product();
    (shape, width)
}

fn apply<F: Real>(
    x: Var<'_, F>,
    shape: &[usize],
    kernel: impl FnOnce(&[F]) -> Buffer<F>,
) -> Tensor<F> {
    let x = contiguous(&x.value());
    kernel(x.as_slice().expect("contiguous")).into_tensor(shape)
}
