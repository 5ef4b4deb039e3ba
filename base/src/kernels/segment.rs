//! Operations over segments: a segment is the entries of one row (or column) of a pattern.
//!
//! | letter | shape |
//! |---|---|
//! | pattern | n × m, nnz entries |
//! | v, scores, p | [nnz, w], one row per entry |
//! | x | [n, w] or [m, w] |

use super::par::{self, RowBlock};
use super::spmm::check;
use super::{rows, simd};
use crate::real::Real;
use crate::sparse::Pattern;
use crate::tensor::memory::{self, Buffer};

/// out[i, :] = Σ over the entries e of row i of v[e, :], shape [n, w].
///
/// # Panics
/// If the length of `v` is not nnz × w.
#[track_caller]
#[inline(never)]
pub fn segment_sum<F: Real>(pattern: &Pattern, v: &[F], w: usize) -> Buffer<F> {
    check("segment_sum", "v", v, &[pattern.nnz(), w]);
    by_row(pattern, None, v, w, F::zero(), |sum, x| sum + x)
}

/// out[j, :] = Σ over the entries e of column j of v[e, :], shape [m, w].
///
/// # Panics
/// If the length of `v` is not nnz × w.
#[track_caller]
#[inline(never)]
pub fn segment_sum_t<F: Real>(pattern: &Pattern, v: &[F], w: usize) -> Buffer<F> {
    check("segment_sum_t", "v", v, &[pattern.nnz(), w]);
    let transposed = pattern.transposed();
    let (pattern, entry) = (&transposed.pattern, Some(&*transposed.entry));
    by_row(pattern, entry, v, w, F::zero(), |sum, x| sum + x)
}

/// out[i, :] = max over the entries e of row i of v[e, :], shape [n, w]; −∞ for an empty row, NaN if an entry
/// is NaN.
///
/// # Panics
/// If the length of `v` is not nnz × w.
#[track_caller]
#[inline(never)]
pub fn segment_max<F: Real>(pattern: &Pattern, v: &[F], w: usize) -> Buffer<F> {
    check("segment_max", "v", v, &[pattern.nnz(), w]);
    let larger = |max: F, x: F| if x > max || x.is_nan() { x } else { max };
    by_row(pattern, None, v, w, F::neg_infinity(), larger)
}

/// p[e, :] = exp(s[e, :] − max) / Σ exp(s − max) over the row of e, shape [nnz, w]; 0 where all of the row
/// are −∞.
///
/// # Panics
/// If the length of `scores` is not nnz × w.
#[track_caller]
#[inline(never)]
pub fn segment_softmax<F: Real>(pattern: &Pattern, scores: &[F], w: usize) -> Buffer<F> {
    check("segment_softmax", "scores", scores, &[pattern.nnz(), w]);
    let mut p = memory::copy(scores);
    let blocks = par::row_blocks(pattern, 1, w * EXP);
    let parts = par::carve(&mut p, blocks.iter().map(|b| b.entries.len() * w));
    let tasks: Vec<_> = blocks.into_iter().zip(parts).collect();
    par::map(tasks, pattern.nnz() * w * EXP, |(block, p)| {
        simd(
            #[inline(always)]
            || softmax_block(&block, p, w),
        )
    });
    p
}

/// out[e, :] = x[row e, :], shape [nnz, w].
///
/// # Panics
/// If the length of `x` is not n × w.
#[track_caller]
#[inline(never)]
pub fn gather_rows<F: Real>(pattern: &Pattern, x: &[F], w: usize) -> Buffer<F> {
    check("gather_rows", "x", x, &[pattern.rows(), w]);
    gather(pattern.rows_of(), x, w)
}

/// out[e, :] = x[col e, :], shape [nnz, w].
///
/// # Panics
/// If the length of `x` is not m × w.
#[track_caller]
#[inline(never)]
pub fn gather_cols<F: Real>(pattern: &Pattern, x: &[F], w: usize) -> Buffer<F> {
    check("gather_cols", "x", x, &[pattern.cols(), w]);
    gather(pattern.indices(), x, w)
}

/// out[e, :] = x[index e, :].
fn gather<F: Real>(index: &[u32], x: &[F], w: usize) -> Buffer<F> {
    if w == 1 {
        let chosen: Vec<F> = index.iter().map(|&k| x[k as usize]).collect();
        return chosen.into();
    }
    let mut out = memory::scratch(index.len() * w);
    par::rows(&mut out, w, w, |first, part| {
        for (e, out) in part.chunks_exact_mut(w).enumerate() {
            out.copy_from_slice(&x[index[first + e] as usize * w..][..w]);
        }
    });
    out
}

/// The cost of a softmax per element, in multiply-adds, for the decision to go parallel.
const EXP: usize = 20;

/// Softmax over each row of a block, column by column, in place: `p` holds its entries, w columns wide.
///
/// The rows of a graph are short, so one loop computes the exponentials, the most expensive part, of all
/// rows.
#[inline(always)]
pub(super) fn softmax_block<F: Real>(block: &RowBlock, p: &mut [F], w: usize) {
    for i in block.rows.clone() {
        by_columns(&mut p[block.row(i, w).1], w, Softmax::Shift);
    }
    for p in p.iter_mut() {
        *p = p.exp_v();
    }
    for i in block.rows.clone() {
        by_columns(&mut p[block.row(i, w).1], w, Softmax::Normalise);
    }
}

/// The step before the exponentials subtracts from a column its maximum; the step after them divides it by
/// its sum.
#[derive(Clone, Copy)]
enum Softmax {
    Shift,
    Normalise,
}

/// Applies a step to every column of rows of width w, up to eight at a time.
#[inline(always)]
fn by_columns<F: Real>(p: &mut [F], w: usize, what: Softmax) {
    let mut at = 0;
    while at < w {
        at += match w - at {
            8.. => columns::<F, 8>(p, w, at, what),
            4.. => columns::<F, 4>(p, w, at, what),
            2.. => columns::<F, 2>(p, w, at, what),
            _ => columns::<F, 1>(p, w, at, what),
        };
    }
}

/// Applies a step to C columns from `at` on. Returns C.
#[inline(always)]
fn columns<F: Real, const C: usize>(p: &mut [F], w: usize, at: usize, what: Softmax) -> usize {
    let mut by: [F; C] = match what {
        Softmax::Shift => fold(p, w, at, F::neg_infinity(), larger),
        Softmax::Normalise => fold(p, w, at, F::zero(), |sum, x| sum + x),
    };
    for by in &mut by {
        *by = match what {
            // A column of −∞ alone stays, and becomes 0.
            Softmax::Shift if *by == F::neg_infinity() => F::zero(),
            Softmax::Shift => *by,
            Softmax::Normalise if *by == F::zero() => *by,
            Softmax::Normalise => by.recip(),
        };
    }
    for row in p.chunks_exact_mut(w) {
        let row = rows::part_mut::<F, C>(row, at);
        for l in 0..C {
            match what {
                Softmax::Shift => row[l] -= by[l],
                Softmax::Normalise => row[l] *= by[l],
            }
        }
    }
    C
}

/// Folds each of C columns from `at` on.
#[inline(always)]
fn fold<F: Real, const C: usize>(
    p: &[F],
    w: usize,
    at: usize,
    init: F,
    f: impl Fn(F, F) -> F,
) -> [F; C] {
    let mut all = [init; C];
    for row in p.chunks_exact(w) {
        let row = rows::part::<F, C>(row, at);
        for l in 0..C {
            all[l] = f(all[l], row[l]);
        }
    }
    all
}

/// The larger number. A NaN may be lost here, but it makes its column NaN through the sum.
#[inline(always)]
fn larger<F: Real>(a: F, b: F) -> F {
    if b > a { b } else { a }
}

/// out[i, :] = the fold by f, from `init`, of v[e, :] over the entries of row i; where `entry` is given, of
/// v[entry[e], :].
fn by_row<F: Real>(
    pattern: &Pattern,
    entry: Option<&[u32]>,
    v: &[F],
    w: usize,
    init: F,
    f: impl Fn(F, F) -> F + Copy + Sync,
) -> Buffer<F> {
    let mut out = memory::scratch(pattern.rows() * w);
    if w == 0 {
        return out;
    }
    let blocks = par::row_blocks(pattern, w, w);
    let parts = par::carve(&mut out, blocks.iter().map(|b| b.rows.len() * w));
    let work = (pattern.nnz() + pattern.rows()) * w;
    let tasks = blocks.into_iter().zip(parts).collect();
    par::map(tasks, work, |(block, part): (RowBlock, &mut [F])| {
        let (mut space, entries) = (Vec::new(), block.entries.clone());
        let v = match entry {
            None => &v[entries.start * w..entries.end * w],
            Some(entry) => rows::collect(&entry[entries], v, w, &mut space),
        };
        simd(
            #[inline(always)]
            || {
                for (k, out) in part.chunks_exact_mut(w).enumerate() {
                    let (_, own) = block.row(block.rows.start + k, w);
                    let v = &v[own];
                    let mut at = 0;
                    while at < w {
                        at += match w - at {
                            8.. => write(out, at, fold::<F, 8>(v, w, at, init, f)),
                            4.. => write(out, at, fold::<F, 4>(v, w, at, init, f)),
                            2.. => write(out, at, fold::<F, 2>(v, w, at, init, f)),
                            _ => write(out, at, fold::<F, 1>(v, w, at, init, f)),
                        };
                    }
                }
            },
        )
    });
    out
}

/// out[at..] ← x. Returns the number of elements written.
#[inline(always)]
fn write<F: Real, const C: usize>(out: &mut [F], at: usize, x: [F; C]) -> usize {
    *rows::part_mut(out, at) = x;
    C
}
