//! Dense products. The one module with `unsafe` code: the gemm crate's entry point takes raw pointers. It
//! reaches two to three times the rate of ndarray's own product where there are 512-bit vectors, and takes
//! any strides, so that a transpose is free.
//!
//! | letter | shape |
//! |---|---|
//! | a | [m, k] or […, m, k] |
//! | b | [k, n] or […, k, n] |
//! | out | [m, n] or […, m, n] |
#![allow(unsafe_code)]

use super::par;
use crate::real::Real;
use crate::tensor::{Tensor, broadcast_shapes, memory};
use gemm_common::Parallelism;
use ndarray::{Array2, ArrayView2, ArrayViewD, ArrayViewMut2, Axis, Dimension, Slice};
use std::any::Any;
use std::ops::Range;

/// Multiply-adds below which a product is not cut.
const WHOLE: usize = 1 << 21;

/// Multiply-adds from which each thread gets two tiles, so that a slow thread is waited for less.
const LARGE: usize = 1 << 27;

/// Least columns of a tile, the height of a microkernel, which computes the transpose.
const NARROW: usize = 64;

/// Sides up to which the gemm crate takes a product for small.
const SMALL: usize = 64;

/// Length of a chunk of the inner dimension, when the output is too small to be cut into rows.
const INNER: usize = 512;

/// out = a b for two matrices, with any strides.
///
/// The product is cut into tiles of the output, one or two per thread, or, when it is tall in the inner
/// dimension (aᵀ b of two tall matrices), into chunks of the inner dimension that are added in order. The
/// chunks depend on the sizes alone. The tiles change no bit: but for small products, the gemm crate cuts the
/// inner dimension by its length alone, and adds the products of an element one after the other wherever the
/// element lies in a tile.
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
    let work = m.saturating_mul(n).saturating_mul(k);
    if m == 0 || n == 0 || work < WHOLE {
        let mut out = memory::scratch(m * n);
        block(a, b, matrix_mut(&mut out, m, n), Into::Set);
        return out.into_array((m, n));
    }
    if k >= 2 * INNER && m * n <= 128 * 128 {
        return inner_chunks(a, b, work);
    }
    let mut out = memory::scratch(m * n);
    matmul_into(a, b, &mut out);
    out.into_array((m, n))
}

/// out ← a b for two matrices, with any strides; the rows of `out` one behind the other.
///
/// As [`matmul`] in tiles of the output, for products that come one after another into the same memory.
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
    if out.is_empty() {
        return;
    }
    let work = m.saturating_mul(n).saturating_mul(k);
    par::map(tiles(out, [m, n], tile_count(work, 1)), work, |tile| {
        block(
            a.slice_axis(Axis(0), Slice::from(tile.rows)),
            b.slice_axis(Axis(1), Slice::from(tile.columns)),
            tile.out,
            Into::Set,
        )
    });
}

/// A part of a product: which rows of the left factor, which columns of the right one, and where it goes.
struct Tile<'a, F> {
    rows: Range<usize>,
    columns: Range<usize>,
    out: ArrayViewMut2<'a, F>,
}

/// A product [m, k] · [k, n] in about `count` tiles: strips of columns, or of rows where it is narrow. A tile
/// packs the part of the right factor that it reads, so strips of columns pack nothing twice.
fn tiles<F>(out: &mut [F], [m, n]: [usize; 2], count: usize) -> Vec<Tile<'_, F>> {
    let count = if m.max(n) <= SMALL { 1 } else { count };
    let by_columns = n >= count * (NARROW + 1);
    let (height, width) = match by_columns {
        true => (m, n.div_ceil(count).next_multiple_of(NARROW)),
        // The microkernels take six rows at a time.
        false => (m.div_ceil(count).next_multiple_of(6), n),
    };
    let mut below = matrix_mut(out, m, n);
    let mut tiles = Vec::new();
    for rows in strips(m, height, n) {
        let (mut right, rest) = below.split_at(Axis(0), rows.len());
        below = rest;
        for columns in strips(n, width, m) {
            let (out, rest) = right.split_at(Axis(1), columns.len());
            right = rest;
            let rows = rows.clone();
            tiles.push(Tile { rows, columns, out });
        }
    }
    tiles
}

/// 0..len in strips of about `size`, `across` wide. The gemm crate adds in another order where both sides are
/// small, or one is a few: so no strip is, and a rest belongs to the strip before it.
fn strips(len: usize, size: usize, across: usize) -> Vec<Range<usize>> {
    let least = if across > SMALL { 6 } else { SMALL + 1 };
    let mut strips = par::chunks(len, size.max(least));
    if let [.., before, last] = &mut strips[..]
        && last.len() < least
    {
        before.end = last.end;
        strips.pop();
    }
    strips
}

/// The number of tiles for one of several products alike, each of so many multiply-adds.
fn tile_count(work: usize, products: usize) -> usize {
    let each = match work {
        ..WHOLE => return 1,
        LARGE.. => 2,
        _ => 1,
    };
    let threads = rayon::current_num_threads();
    match threads {
        1 => 1,
        _ => (each * threads).div_ceil(products.max(1)),
    }
}

fn matrix_mut<F>(data: &mut [F], m: usize, n: usize) -> ArrayViewMut2<'_, F> {
    ArrayViewMut2::from_shape((m, n), data).expect("the output has m × n elements")
}

/// a b as a sum over chunks of the inner dimension, added in order.
fn inner_chunks<F: Real>(a: ArrayView2<F>, b: ArrayView2<F>, work: usize) -> Array2<F> {
    let (m, k, n) = (a.nrows(), a.ncols(), b.ncols());
    let parts = par::map(par::chunks(k, INNER), work, |inner| {
        let mut part = vec![F::zero(); m * n];
        block(
            a.slice_axis(Axis(1), Slice::from(inner.clone())),
            b.slice_axis(Axis(0), Slice::from(inner)),
            matrix_mut(&mut part, m, n),
            Into::Set,
        );
        part
    });
    let mut parts = parts.into_iter();
    let mut sum = parts.next().expect("the inner dimension is not empty");
    for part in parts {
        for (s, x) in sum.iter_mut().zip(part) {
            *s += x;
        }
    }
    Array2::from_shape_vec((m, n), sum).expect("the parts have m × n elements")
}

/// What a product does with the contents of its output.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Into {
    /// It takes their place.
    Set,
    /// It is added to them.
    Add,
}

/// out ← a b, or out ← out + a b, on this thread; the rows of `out` have no gaps.
pub(super) fn block<F: Real>(
    mut a: ArrayView2<F>,
    mut b: ArrayView2<F>,
    mut out: ArrayViewMut2<F>,
    into: Into,
) {
    let ((m, k), n) = (a.dim(), b.ncols());
    assert_eq!(k, b.nrows(), "block: inner dimensions");
    assert_eq!(out.dim(), (m, n), "block: size of the output");
    if out.is_empty() {
        return;
    }
    if k == 0 {
        if into == Into::Set {
            out.fill(F::zero());
        }
        return;
    }
    let [row, column] = [out.strides()[0], out.strides()[1]];
    assert!(column == 1 || n == 1, "block: the output has gaps");
    // The microkernels write columns, so outᵀ ← bᵀ aᵀ is what they compute; and they read the left factor
    // forwards.
    if n > 1 && b.strides()[0] < 0 || n == 1 && a.strides()[1] < 0 {
        a.invert_axis(Axis(1));
        b.invert_axis(Axis(0));
    }
    let (left, right) = match n {
        1 => (a, b),
        _ => (b.reversed_axes(), a.reversed_axes()),
    };
    let (rows, columns) = (left.nrows(), right.ncols());
    let [left_rs, left_cs] = [left.strides()[0], left.strides()[1]];
    let [right_rs, right_cs] = [right.strides()[0], right.strides()[1]];
    let product = kernel::<F>();
    // The strides of the output as the kernel sees it: transposed, unless it is a column.
    let (out_cs, out_rs) = if n == 1 { (1, row) } else { (row, 1) };
    // SAFETY: `left` and `right` are views, so every element (i, j) within their dimensions lies at
    // `as_ptr() + i rs + j cs` in memory that is initialised and borrowed for the duration of the call; the
    // dimensions passed are theirs, and are not 0. `out` is a view borrowed mutably, so it overlaps
    // neither; it is passed with its own dimensions and strides, transposed like the product. It is
    // initialised, so it may be read, which the kernel does where the product is added.
    unsafe {
        product(
            rows,
            columns,
            k,
            out.as_mut_ptr(),
            out_cs,
            out_rs,
            into == Into::Add,
            left.as_ptr(),
            left_cs,
            left_rs,
            right.as_ptr(),
            right_cs,
            right_rs,
            if into == Into::Add {
                F::one()
            } else {
                F::zero()
            },
            F::one(),
            false,
            false,
            false,
            Parallelism::None,
        );
    }
}

/// out ← α out + β left right of the gemm crate: sizes m, n, k; out with its column and row strides and
/// whether it is read; the factors with theirs; α and β; three switches for complex numbers; threads.
type Kernel<F> = unsafe fn(
    usize,
    usize,
    usize,
    *mut F,
    isize,
    isize,
    bool,
    *const F,
    isize,
    isize,
    *const F,
    isize,
    isize,
    F,
    F,
    bool,
    bool,
    bool,
    Parallelism,
);

/// The kernel for this type of numbers and this processor.
fn kernel<F: Real>() -> Kernel<F> {
    let single: Kernel<f32> = gemm_f32::gemm::f32::get_gemm_fn();
    let double: Kernel<f64> = gemm_f64::gemm::f64::get_gemm_fn();
    let both: [&dyn Any; 2] = [&single, &double];
    let found = both.into_iter().find_map(|kernel| kernel.downcast_ref());
    *found.expect("F is f32 or f64")
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
    let items = batch.iter().product();
    let count = tile_count(m.saturating_mul(n).saturating_mul(k), items);
    let products = ndarray::indices(&batch[..]).into_iter();
    let tasks = products
        .zip(out.chunks_exact_mut((m * n).max(1)))
        .flat_map(|(index, out)| {
            let tiles = tiles(out, [m, n], count).into_iter();
            tiles.map(move |tile| (index.clone(), tile))
        })
        .collect();
    par::map(tasks, work, |(index, tile)| {
        block(
            item(a.clone(), index.slice()).slice_axis(Axis(0), Slice::from(tile.rows)),
            item(b.clone(), index.slice()).slice_axis(Axis(1), Slice::from(tile.columns)),
            tile.out,
            Into::Set,
        )
    });
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

#[cfg(test)]
mod tests;
