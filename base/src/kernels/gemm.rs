//! Dense products, in safe Rust: the loops of `gemm/micro.rs` work on vectors of the width that the
//! processor has. A transpose is free, or copied into the order in which it is read.
//!
//! | letter | shape |
//! |---|---|
//! | a | [m, k] or […, m, k] |
//! | b | [k, n] or […, k, n] |
//! | out | [m, n] or […, m, n] |
//!
//! How a product is cut changes no bit of it; `gemm/micro.rs` says why. Products with one to four rows have
//! sums of their own where the right factor lies in columns of 64 elements or more, and small ones have loops
//! of their own where it lies in rows (`gemm/few.rs`).

mod factors;
mod few;
mod micro;
mod panels;

use factors::Order;
pub(super) use factors::{Left, Right};
pub(super) use panels::CUT;

use super::{accumulate, dispatch, par};
use crate::real::Real;
use crate::tensor::{Tensor, broadcast_shapes, memory};
use memory::Buffer;
use micro::{INNER, Product};
use ndarray::{Array2, ArrayView2, ArrayViewD, Axis, Dimension};
use std::ops::Range;

/// Multiply-adds below which a product is not cut.
const WHOLE: usize = 2 * PART;

/// The least number of multiply-adds of a task, chosen as [`par::FORK`] is.
const PART: usize = 1 << 19;

/// The most bytes of a right factor that is read in place and of which each thread reads all, so that threads
/// share rows of an output with more columns than rows. The second-level cache of a core holds it.
const NEAR: usize = 1 << 20;

/// out = a b for two matrices, with any strides.
///
/// The threads share the rows or the columns of the output. If the output is small and the inner dimension long
/// (aᵀ b of two tall matrices), they share the parts of the inner dimension, whose products are then added.
/// In x Wᵀ with one to four rows x and 64 terms or more, an element is an inner product of rows that are read
/// in place.
///
/// # Panics
/// If the inner dimensions differ.
#[track_caller]
#[inline(never)]
pub fn matmul<F: Real>(a: ArrayView2<F>, b: ArrayView2<F>) -> Array2<F> {
    let ((m, k), (k2, n)) = (a.dim(), b.dim());
    assert_eq!(
        k, k2,
        "matmul: [{m}, {k}] · [{k2}, {n}]: inner dimensions {k} ≠ {k2}"
    );
    let mut out = memory::scratch(m * n);
    matmul_into(a, b, &mut out);
    out.into_array((m, n))
}

/// out ← a b for two matrices, with any strides. The rows of `out` follow one another without gaps.
///
/// As [`matmul`], for products that come one after another into the same memory.
///
/// # Panics
/// If the inner dimensions differ, or `out` has not as many elements as the product.
#[track_caller]
#[inline(never)]
pub fn matmul_into<F: Real>(a: ArrayView2<F>, b: ArrayView2<F>, out: &mut [F]) {
    let ((m, k), (k2, n)) = (a.dim(), b.dim());
    assert!(
        k == k2 && out.len() == m * n,
        "matmul_into: [{m}, {k}] · [{k2}, {n}] into {} elements",
        out.len()
    );
    if few::product(a, b, out) {
        return;
    }
    let [mut space, mut other] = [Buffer::default(), Buffer::default()];
    let left = Left::of(a, &mut space);
    let [panel, .., vector] = panels::widths::<F>();
    if n < vector && m >= panel && left.order == Order::Columns {
        // A row of the output would fill a part of a vector. The transpose of the product, aᵀ to the right,
        // fills whole panels, and has the same sums.
        let mut turned = memory::scratch(m * n);
        let left = Left::of(b.reversed_axes(), &mut other);
        multiply(left, &Right::of(a.reversed_axes(), n), k, m, &mut turned);
        for (j, row) in turned.chunks_exact(m).enumerate() {
            out.iter_mut()
                .skip(j)
                .step_by(n)
                .zip(row)
                .for_each(|(out, &x)| *out = x);
        }
        return;
    }
    multiply(left, &Right::of(b, m), k, n, out);
}

/// out ← a b for factors of k columns and rows, and n columns of the output, whose rows have no gaps.
pub(super) fn multiply<F: Real>(
    left: Left<'_, F>,
    right: &Right<'_, F>,
    k: usize,
    n: usize,
    out: &mut [F],
) {
    let m = left.rows;
    if out.is_empty() {
        return;
    }
    // A microkernel works on whole vectors, also where there are fewer columns.
    let [.., vector] = panels::widths::<F>();
    let work = m.saturating_mul(n.max(vector)).saturating_mul(k);
    let threads = rayon::current_num_threads();
    let whole = work < WHOLE || threads == 1;
    if !whole && k >= 2 * INNER && m * n <= 128 * 128 {
        return inner_parts(left, right, k, n, out);
    }
    // There are twice as many tasks as threads, so that the others wait less for a slow thread.
    let count = if whole {
        1
    } else {
        (2 * threads).min(work / PART)
    };
    let near = right.in_place() && size_of::<F>() * k * n <= NEAR;
    let by_rows = m >= n || (near && m.div_ceil(panels::ROWS) >= threads);
    if by_rows || count == 1 {
        let height = m.div_ceil(count).next_multiple_of(panels::ROWS);
        let strips = out.chunks_mut(height * n).enumerate().collect();
        par::map(strips, work, |(number, out)| {
            let rows = number * height..m.min((number + 1) * height);
            product(left.part(rows), right, 0..k, 0..n, out, n, false);
        });
        return;
    }
    let width = n.div_ceil(count).next_multiple_of(CUT);
    let parts = par::map(par::chunks(n, width), work, |columns| {
        let (mut part, width) = (memory::scratch(m * columns.len()), columns.len());
        product(left, right, 0..k, columns.clone(), &mut part, width, false);
        (columns, part)
    });
    for (columns, part) in parts {
        for (out, part) in out
            .chunks_exact_mut(n)
            .zip(part.chunks_exact(columns.len()))
        {
            out[columns.clone()].copy_from_slice(part);
        }
    }
}

/// The product as the sum of the parts of its inner dimension, added in order.
fn inner_parts<F: Real>(
    left: Left<'_, F>,
    right: &Right<'_, F>,
    k: usize,
    n: usize,
    out: &mut [F],
) {
    let work = out.len().saturating_mul(k);
    let parts = par::map(par::chunks(k, INNER), work, |inner| {
        let mut part = memory::scratch(left.rows * n);
        let left = left.beyond(inner.start);
        product(left, right, inner, 0..n, &mut part, n, false);
        part
    });
    let (first, rest) = parts
        .split_first()
        .expect("the inner dimension is not empty");
    out.copy_from_slice(first);
    for part in rest {
        accumulate(out, part);
    }
}

/// Multiplies the rows of `left` by a part of `right`, on this thread. The part has the rows `inner` and the
/// columns `columns`, which begin at a multiple of [`CUT`]. The rows of `out` begin `stride` elements apart; the
/// product is set there, or added.
#[inline(never)]
pub(super) fn product<F: Real>(
    left: Left<'_, F>,
    right: &Right<'_, F>,
    inner: Range<usize>,
    columns: Range<usize>,
    out: &mut [F],
    stride: usize,
    add: bool,
) {
    debug_assert!(columns.start.is_multiple_of(CUT), "product: a panel is cut");
    if inner.is_empty() && !add {
        for row in out.chunks_mut(stride.max(1)).take(left.rows) {
            row[..columns.len()].fill(F::zero());
        }
    }
    dispatch(Product {
        left,
        right,
        inner,
        columns,
        out,
        stride,
        add,
    });
}

/// out[…] = a[…] b[…] over the last two axes; the axes before them broadcast.
///
/// # Panics
/// If an operand has fewer than two dimensions, the inner dimensions differ, or the batch axes do not
/// broadcast.
#[track_caller]
#[inline(never)]
pub fn matmul_batched<F: Real>(a: &Tensor<F>, b: &Tensor<F>) -> Tensor<F> {
    let (sa, sb) = (a.shape(), b.shape());
    assert!(
        sa.len() >= 2 && sb.len() >= 2,
        "matmul: {sa:?} · {sb:?}: a factor has fewer than two dimensions"
    );
    let (batch_a, &[m, k]) = sa.split_last_chunk().expect("two dimensions or more");
    let (batch_b, &[k2, n]) = sb.split_last_chunk().expect("two dimensions or more");
    assert_eq!(
        k, k2,
        "matmul: {sa:?} · {sb:?}: inner dimensions {k} ≠ {k2}"
    );
    if batch_a.is_empty() && batch_b.is_empty() {
        return matmul(two(a.view()), two(b.view()))
            .into_dyn()
            .into_shared();
    }
    // One right factor for all rows: one product, whose right factor is packed once.
    if batch_b.is_empty() && a.is_standard_layout() {
        let rows = batch_a.iter().product::<usize>() * m;
        let all = a.view().into_shape_with_order((rows, k)).expect("no gaps");
        let out = matmul(all, two(b.view())).into_dyn().into_shared();
        let shape = [batch_a, &[m, n]].concat();
        return out.into_shape_with_order(shape).expect("as many elements");
    }
    let batch = broadcast_shapes("matmul", batch_a, batch_b);
    let shape = |end: [usize; 2]| [&batch[..], &end].concat();
    let a = a.broadcast(shape([m, k])).expect("the shapes broadcast");
    let b = b.broadcast(shape([k, n])).expect("the shapes broadcast");
    let shape = shape([m, n]);
    let mut out = memory::scratch(shape.iter().product());
    let work = out.len().saturating_mul(k);
    let items = batch.iter().product::<usize>();
    let products = ndarray::indices(&batch[..]).into_iter();
    let products = products.zip(out.chunks_exact_mut((m * n).max(1)));
    let one = |(index, out): (ndarray::IxDyn, &mut [F])| {
        let (a, b) = (item(a.view(), index.slice()), item(b.view(), index.slice()));
        matmul_into(a, b, out);
    };
    // Many products are the tasks of the threads; of few products, each is cut.
    if items < 2 * rayon::current_num_threads() {
        products.for_each(one);
    } else {
        par::map(products.collect(), work, one);
    }
    out.into_tensor(&shape)
}

/// The matrix of a batch at the given indices.
fn item<'a, F>(mut x: ArrayViewD<'a, F>, index: &[usize]) -> ArrayView2<'a, F> {
    for &i in index {
        x = x.index_axis_move(Axis(0), i);
    }
    two(x)
}

/// A view of two dimensions as such.
fn two<F>(x: ArrayViewD<'_, F>) -> ArrayView2<'_, F> {
    x.into_dimensionality().expect("two dimensions")
}
