//! Operations over the segments that the rows of a pattern make of its entries.
//!
//! | letter | shape |
//! |---|---|
//! | pattern | n × m, nnz entries |
//! | v, scores, p | [nnz, w], one row an entry |
//! | x | [n, w] or [m, w] |

use super::spmm::check;
use super::{axpy, par, simd};
use crate::real::Real;
use crate::sparse::Pattern;
use crate::tensor::memory;

/// out[i, :] = Σ over the entries e of row i of v[e, :], shape [n, w].
///
/// # Panics
/// If the length of `v` is not nnz × w.
#[track_caller]
pub fn segment_sum<F: Real>(pattern: &Pattern, v: &[F], w: usize) -> Vec<F> {
    check("segment_sum", "v", v, &[pattern.nnz(), w]);
    by_row(pattern, w, F::zero(), |out, e| {
        axpy(F::one(), &v[e * w..][..w], out)
    })
}

/// out[j, :] = Σ over the entries e of column j of v[e, :], shape [m, w].
///
/// # Panics
/// If the length of `v` is not nnz × w.
#[track_caller]
pub fn segment_sum_t<F: Real>(pattern: &Pattern, v: &[F], w: usize) -> Vec<F> {
    check("segment_sum_t", "v", v, &[pattern.nnz(), w]);
    let transposed = pattern.transposed();
    by_row(&transposed.pattern, w, F::zero(), |out, e| {
        axpy(F::one(), &v[transposed.entry[e] as usize * w..][..w], out)
    })
}

/// out[i, :] = max over the entries e of row i of v[e, :], shape [n, w]; −∞ for an empty row, NaN where one is met.
///
/// # Panics
/// If the length of `v` is not nnz × w.
#[track_caller]
pub fn segment_max<F: Real>(pattern: &Pattern, v: &[F], w: usize) -> Vec<F> {
    check("segment_max", "v", v, &[pattern.nnz(), w]);
    by_row(pattern, w, F::neg_infinity(), |out, e| {
        max_assign(out, &v[e * w..][..w])
    })
}

/// p[e, :] = exp(s[e, :] − max) / Σ exp(s − max) over the row of e, shape [nnz, w].
///
/// # Panics
/// If the length of `scores` is not nnz × w.
#[track_caller]
pub fn segment_softmax<F: Real>(pattern: &Pattern, scores: &[F], w: usize) -> Vec<F> {
    check("segment_softmax", "scores", scores, &[pattern.nnz(), w]);
    let mut p = memory::copy(scores);
    by_segment(pattern, &mut p, w, 20, softmax_row);
    p
}

/// out[e, :] = x[row e, :], shape [nnz, w].
///
/// # Panics
/// If the length of `x` is not n × w.
#[track_caller]
pub fn gather_rows<F: Real>(pattern: &Pattern, x: &[F], w: usize) -> Vec<F> {
    check("gather_rows", "x", x, &[pattern.rows(), w]);
    gather(pattern.rows_of(), x, w)
}

/// out[e, :] = x[col e, :], shape [nnz, w].
///
/// # Panics
/// If the length of `x` is not m × w.
#[track_caller]
pub fn gather_cols<F: Real>(pattern: &Pattern, x: &[F], w: usize) -> Vec<F> {
    check("gather_cols", "x", x, &[pattern.cols(), w]);
    gather(pattern.indices(), x, w)
}

/// out[e, :] = x[index e, :].
fn gather<F: Real>(index: &[u32], x: &[F], w: usize) -> Vec<F> {
    if w == 1 {
        return index.iter().map(|&k| x[k as usize]).collect();
    }
    let mut out = memory::scratch(index.len() * w);
    par::rows(&mut out, w, w, |first, part| {
        for (out, &k) in part.chunks_exact_mut(w).zip(&index[first..]) {
            out.copy_from_slice(&x[k as usize * w..][..w]);
        }
    });
    out
}

/// Softmax over the rows of `p`, column by column, in place; `row` is working space, one element a column.
#[inline(always)]
pub(super) fn softmax_row<F: Real>(p: &mut [F], row: &mut [F]) {
    let w = row.len();
    if w == 0 {
        return;
    }
    match w {
        1 => return softmax_column(p),
        // A common number of heads as a constant: a row is then one vector.
        8 => return softmax_columns::<F, 8>(p),
        _ => {}
    }
    row.fill(F::neg_infinity());
    for p in p.chunks_exact(w) {
        max_assign(row, p);
    }
    for p in p.chunks_exact_mut(w) {
        for (p, &max) in p.iter_mut().zip(&*row) {
            *p = (*p - max).exp_v();
        }
    }
    row.fill(F::zero());
    for p in p.chunks_exact(w) {
        axpy(F::one(), p, row);
    }
    for sum in row.iter_mut() {
        *sum = sum.recip();
    }
    for p in p.chunks_exact_mut(w) {
        for (p, &share) in p.iter_mut().zip(&*row) {
            *p *= share;
        }
    }
}

/// The same for a number of columns known beforehand.
#[inline(always)]
fn softmax_columns<F: Real, const W: usize>(p: &mut [F]) {
    let rows = p.as_chunks_mut::<W>().0;
    let mut max = [F::neg_infinity(); W];
    for row in &*rows {
        for l in 0..W {
            let larger = row[l] > max[l] || row[l].is_nan();
            max[l] = if larger { row[l] } else { max[l] };
        }
    }
    let mut sum = [F::zero(); W];
    for row in &mut *rows {
        for l in 0..W {
            row[l] = (row[l] - max[l]).exp_v();
        }
        for l in 0..W {
            sum[l] += row[l];
        }
    }
    let share = sum.map(F::recip);
    for row in rows {
        for l in 0..W {
            row[l] *= share[l];
        }
    }
}

/// The same for one column, whose numbers lie together.
#[inline(always)]
fn softmax_column<F: Real>(p: &mut [F]) {
    let mut max = F::neg_infinity();
    for &p in &*p {
        if p > max || p.is_nan() {
            max = p;
        }
    }
    for p in p.iter_mut() {
        *p = (*p - max).exp_v();
    }
    let mut sum = F::zero();
    for &p in &*p {
        sum += p;
    }
    let share = sum.recip();
    for p in p {
        *p *= share;
    }
}

#[inline(always)]
fn max_assign<F: Real>(max: &mut [F], x: &[F]) {
    for (max, &x) in max.iter_mut().zip(x) {
        if x > *max || x.is_nan() {
            *max = x;
        }
    }
}

/// Folds the entries of every row into a row of width `w` that begins as `init`.
fn by_row<F: Real>(
    pattern: &Pattern,
    w: usize,
    init: F,
    f: impl Fn(&mut [F], usize) + Sync,
) -> Vec<F> {
    let mut out = vec![init; pattern.rows() * w];
    if w == 0 {
        return out;
    }
    let blocks = par::row_blocks(pattern, w, w);
    let parts = par::carve(&mut out, blocks.iter().map(|b| b.len() * w));
    let work = (pattern.nnz() + pattern.rows()) * w;
    let tasks = blocks.into_iter().zip(parts).collect();
    par::map(tasks, work, |(rows, part)| {
        simd(
            #[inline(always)]
            || {
                for (i, out) in rows.zip(part.chunks_exact_mut(w)) {
                    for e in pattern.row(i) {
                        f(out, e);
                    }
                }
            },
        )
    });
    out
}

/// Calls `f(values of the row's entries, working row)` for every row that has entries.
fn by_segment<F: Real>(
    pattern: &Pattern,
    values: &mut [F],
    w: usize,
    cost: usize,
    f: impl Fn(&mut [F], &mut [F]) + Sync,
) {
    if w == 0 {
        return;
    }
    let indptr = pattern.indptr();
    let blocks = par::row_blocks(pattern, 1, w * cost);
    let sizes = blocks.iter().map(|b| (indptr[b.end] - indptr[b.start]) * w);
    let parts = par::carve(values, sizes);
    let work = pattern.nnz() * w * cost;
    let tasks = blocks.into_iter().zip(parts).collect();
    par::map(
        tasks,
        work,
        |(rows, part): (std::ops::Range<usize>, &mut [F])| {
            let start = indptr[rows.start];
            let mut row = vec![F::zero(); w];
            simd(
                #[inline(always)]
                || {
                    for i in rows {
                        let entries = pattern.row(i);
                        let values =
                            &mut part[(entries.start - start) * w..(entries.end - start) * w];
                        if !values.is_empty() {
                            f(values, &mut row);
                        }
                    }
                },
            )
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::testing::{bits, close, data, pattern};

    #[test]
    fn equal_the_naive_loops() {
        for (n, m, nnz) in [(40, 30, 200), (1, 1, 1), (0, 5, 0), (5, 0, 0), (7, 9, 0)] {
            let p = pattern(n, m, nnz, 1);
            for w in [0, 1, 2, 8, 17] {
                let v: Vec<f64> = data(p.nnz() * w, 2);
                let (x, y): (Vec<f64>, Vec<f64>) = (data(n * w, 3), data(m * w, 4));
                let (mut by_row, mut by_col) = (vec![0.0; n * w], vec![0.0; m * w]);
                let mut largest = vec![f64::NEG_INFINITY; n * w];
                let (mut from_row, mut from_col) = (vec![0.0; v.len()], vec![0.0; v.len()]);
                let mut exps = vec![0.0; n * w];
                for (k, &value) in v.iter().enumerate() {
                    let (e, c) = (k / w, k % w);
                    let (i, j) = (p.rows_of()[e] as usize, p.indices()[e] as usize);
                    by_row[i * w + c] += value;
                    by_col[j * w + c] += value;
                    largest[i * w + c] = value.max(largest[i * w + c]);
                    exps[i * w + c] += value.exp();
                    from_row[k] = x[i * w + c];
                    from_col[k] = y[j * w + c];
                }
                let softmax: Vec<f64> = (0..v.len())
                    .map(|k| v[k].exp() / exps[p.rows_of()[k / w] as usize * w + k % w])
                    .collect();
                close(&segment_sum(&p, &v, w), &by_row, 1e-13);
                close(&segment_sum_t(&p, &v, w), &by_col, 1e-13);
                assert_eq!(segment_max(&p, &v, w), largest);
                assert_eq!(gather_rows(&p, &x, w), from_row);
                assert_eq!(gather_cols(&p, &y, w), from_col);
                close(&segment_softmax(&p, &v, w), &softmax, 1e-15);
            }
        }
    }

    #[test]
    fn softmax_survives_large_scores_and_ignores_a_shift() {
        let p = pattern(20, 20, 150, 3);
        let scores: Vec<f64> = data(p.nnz() * 2, 4);
        let shifted: Vec<f64> = scores.iter().map(|s| s + 1e6).collect();
        let (a, b) = (
            segment_softmax(&p, &scores, 2),
            segment_softmax(&p, &shifted, 2),
        );
        close(&a, &b, 1e-9);
        let far: Vec<f64> = scores.iter().map(|s| s * 1e300).collect();
        assert!(
            segment_softmax(&p, &far, 2)
                .iter()
                .all(|p| (0.0..=1.0).contains(p))
        );
    }

    #[test]
    fn bits_do_not_depend_on_threads() {
        let p = pattern(2000, 1500, 30_000, 8);
        for w in [1, 8] {
            let v: Vec<f32> = data(p.nnz() * w, 9);
            let x: Vec<f32> = data(2000 * w, 9);
            let run = |t| {
                par::with_threads(t, || {
                    [
                        bits(&segment_sum(&p, &v, w)),
                        bits(&segment_sum_t(&p, &v, w)),
                        bits(&segment_max(&p, &v, w)),
                        bits(&segment_softmax(&p, &v, w)),
                        bits(&gather_rows(&p, &x, w)),
                    ]
                })
            };
            let one = run(1);
            for t in 2..=4 {
                assert_eq!(run(t), one);
            }
        }
    }

    #[test]
    #[should_panic(expected = "segment_sum: v must have shape [0, 2]")]
    fn sizes_must_agree() {
        segment_sum(&pattern(2, 3, 0, 1), &[1.0], 2);
    }
}
