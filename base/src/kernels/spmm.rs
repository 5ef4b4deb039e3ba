//! Products with sparse matrices whose entries carry values: out = A X, out = Aᵀ Y, and the adjoint of the
//! values.
//!
//! | letter | shape |
//! |---|---|
//! | pattern | n × m, nnz entries; entry e stands at (row e, col e) |
//! | v | [nnz, H], one value per entry and head |
//! | x, b | [m, H, D] |
//! | y, a | [n, H, D] |

use super::par::{self, RowBlock};
use super::rows::{self, Out};
use super::{dot, simd};
use crate::real::Real;
use crate::sparse::Pattern;
use crate::tensor::memory::{self, Buffer};

/// out[i, h, :] = Σ over the entries e of row i of v[e, h] x[col e, h, :], shape [n, H, D].
///
/// # Panics
/// If the length of `v` is not nnz × H, or that of `x` not m × H × D.
#[track_caller]
#[inline(never)]
pub fn spmm<F: Real>(pattern: &Pattern, v: &[F], x: &[F], heads: usize, d: usize) -> Buffer<F> {
    check("spmm", "v", v, &[pattern.nnz(), heads]);
    check("spmm", "x", x, &[pattern.cols(), heads, d]);
    product(pattern, None, v, x, heads, d)
}

/// out[j, h, :] = Σ over the entries e of column j of v[e, h] y[row e, h, :], shape [m, H, D].
///
/// # Panics
/// If the length of `v` is not nnz × H, or that of `y` not n × H × D.
#[track_caller]
#[inline(never)]
pub fn spmm_t<F: Real>(pattern: &Pattern, v: &[F], y: &[F], heads: usize, d: usize) -> Buffer<F> {
    check("spmm_t", "v", v, &[pattern.nnz(), heads]);
    check("spmm_t", "y", y, &[pattern.rows(), heads, d]);
    let transposed = pattern.transposed();
    product(&transposed.pattern, Some(&transposed.entry), v, y, heads, d)
}

/// out[e, h] = ⟨a[row e, h, :], b[col e, h, :]⟩, shape [nnz, H].
///
/// # Panics
/// If the length of `a` is not n × H × D, or that of `b` not m × H × D.
#[track_caller]
#[inline(never)]
pub fn sddmm<F: Real>(pattern: &Pattern, a: &[F], b: &[F], heads: usize, d: usize) -> Buffer<F> {
    check("sddmm", "a", a, &[pattern.rows(), heads, d]);
    check("sddmm", "b", b, &[pattern.cols(), heads, d]);
    let width = heads * d;
    let mut out = memory::zeros(pattern.nnz() * heads);
    if d == 0 {
        return out;
    }
    let (rows_of, indices) = (pattern.rows_of(), pattern.indices());
    par::rows(&mut out, heads, width, |first, part| {
        simd(
            #[inline(always)]
            || {
                for (k, out) in part.chunks_exact_mut(heads).enumerate() {
                    let (i, j) = (rows_of[first + k] as usize, indices[first + k] as usize);
                    let (a, b) = (&a[i * width..][..width], &b[j * width..][..width]);
                    for (h, out) in out.iter_mut().enumerate() {
                        *out = dot(&a[h * d..][..d], &b[h * d..][..d]);
                    }
                }
            },
        )
    });
    out
}

/// out[i, h, :] = Σ over row i of v[e, h] x[col e, h, :]; where `entry` is given, with v[entry[e], h].
fn product<F: Real>(
    pattern: &Pattern,
    entry: Option<&[u32]>,
    v: &[F],
    x: &[F],
    heads: usize,
    d: usize,
) -> Buffer<F> {
    let width = heads * d;
    let mut out = memory::scratch(pattern.rows() * width);
    if width == 0 {
        return out;
    }
    let blocks = par::row_blocks(pattern, width, width);
    let parts = par::carve(&mut out, blocks.iter().map(|b| b.rows.len() * width));
    let work = (pattern.nnz() + pattern.rows()) * width;
    let tasks = blocks.into_iter().zip(parts).collect();
    par::map(tasks, work, |(block, part): (RowBlock, &mut [F])| {
        let (mut space, entries) = (Vec::new(), block.entries.clone());
        let v = match entry {
            None => &v[entries.start * heads..entries.end * heads],
            Some(entry) => rows::collect(&entry[entries], v, heads, &mut space),
        };
        weighted_sums(&block, heads, v, x, part, false);
    });
    out
}

/// out[i, h, :] ← Σ c[e, h] x[j, h, :] over the entries e = (i, j) of each row of a block, both of the shape
/// [.., H, D]; with `add` the sums are added to `out`. `c` has the factors of the block's entries.
#[inline(never)]
pub(super) fn weighted_sums<F: Real>(
    block: &RowBlock,
    heads: usize,
    c: &[F],
    x: &[F],
    out: &mut [F],
    add: bool,
) {
    let rows = block.rows.len();
    if rows == 0 || out.is_empty() {
        return;
    }
    let width = out.len() / rows;
    simd(
        #[inline(always)]
        || {
            for (k, out) in out.chunks_exact_mut(width).enumerate() {
                let (columns, own) = block.row(block.rows.start + k, heads);
                let out = match add {
                    true => Out::Add(out),
                    false => Out::Set(out),
                };
                rows::weighted_sum(columns, &c[own], x, heads, out);
            }
        },
    );
}

/// Asserts that a slice holds an array of the given shape.
#[track_caller]
pub(super) fn check<F>(op: &str, name: &str, x: &[F], shape: &[usize]) {
    assert_eq!(
        x.len(),
        shape.iter().product::<usize>(),
        "{op}: {name} must have shape {shape:?}, it has {} elements",
        x.len()
    );
}
