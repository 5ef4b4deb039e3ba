//! Products with sparse matrices whose entries carry values: out = A X, out = Aᵀ Y, and the adjoint of the
//! values.
//!
//! | letter | shape |
//! |---|---|
//! | pattern | n × m, nnz entries; entry e stands at (row e, col e) |
//! | v | [nnz, H], one value per entry and head |
//! | x, b | [m, H, D] |
//! | y, a | [n, H, D] |

use super::rows::{self, Out};
use super::{dot, par, simd};
use crate::real::Real;
use crate::sparse::Pattern;
use crate::tensor::memory::{self, Buffer};
use std::ops::Range;

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
                    let a = a[i * width..][..width].chunks_exact(d);
                    let b = b[j * width..][..width].chunks_exact(d);
                    for (out, (a, b)) in out.iter_mut().zip(a.zip(b)) {
                        *out = dot(a, b);
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
    let parts = par::carve(&mut out, blocks.iter().map(|b| b.len() * width));
    let work = (pattern.nnz() + pattern.rows()) * width;
    let tasks = blocks.into_iter().zip(parts).collect();
    par::map(tasks, work, |(range, part): (Range<usize>, &mut [F])| {
        simd(
            #[inline(always)]
            || {
                let mut moved = Vec::new();
                for (i, out) in range.zip(part.chunks_exact_mut(width)) {
                    let row = pattern.row(i);
                    let v = match entry {
                        None => &v[row.start * heads..row.end * heads],
                        Some(entry) => rows::collect(&entry[row.clone()], v, heads, &mut moved),
                    };
                    rows::weighted_sum(&pattern.indices()[row], v, x, heads, Out::Set(out));
                }
            },
        )
    });
    out
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::testing::{bits, close, data, pattern};

    /// Every size that a loop treats specially, and some other sizes.
    const SIZES: [(usize, usize); 9] = [
        (1, 1),
        (1, 8),
        (1, 16),
        (1, 64),
        (8, 8),
        (3, 5),
        (2, 33),
        (2, 0),
        (0, 4),
    ];

    #[test]
    fn equal_the_naive_loops() {
        for (n, m, nnz) in [(40, 30, 200), (1, 1, 1), (0, 5, 0), (5, 0, 0), (7, 9, 0)] {
            let p = pattern(n, m, nnz, 1);
            for (heads, d) in SIZES {
                let w = heads * d;
                let v: Vec<f64> = data(p.nnz() * heads, 2);
                let (x, y): (Vec<f64>, Vec<f64>) = (data(m * w, 3), data(n * w, 4));
                let (mut ax, mut aty) = (vec![0.0; n * w], vec![0.0; m * w]);
                let mut dots = vec![0.0; p.nnz() * heads];
                for e in 0..p.nnz() {
                    let (i, j) = (p.rows_of()[e] as usize, p.indices()[e] as usize);
                    for h in 0..heads {
                        for c in 0..d {
                            let (at_i, at_j) = (i * w + h * d + c, j * w + h * d + c);
                            ax[at_i] += v[e * heads + h] * x[at_j];
                            aty[at_j] += v[e * heads + h] * y[at_i];
                            dots[e * heads + h] += y[at_i] * x[at_j];
                        }
                    }
                }
                close(&spmm(&p, &v, &x, heads, d), &ax, 1e-13);
                close(&spmm_t(&p, &v, &y, heads, d), &aty, 1e-13);
                close(&sddmm(&p, &y, &x, heads, d), &dots, 1e-13);
            }
        }
    }

    #[test]
    fn bits_do_not_depend_on_threads() {
        let p = pattern(900, 800, 9000, 5);
        for (heads, d) in [(1, 64), (8, 8), (3, 7)] {
            let v: Vec<f32> = data(p.nnz() * heads, 1);
            let x: Vec<f32> = data(800 * heads * d, 2);
            let y: Vec<f32> = data(900 * heads * d, 3);
            let run = |t| {
                par::with_threads(t, || {
                    [
                        bits(&spmm(&p, &v, &x, heads, d)),
                        bits(&spmm_t(&p, &v, &y, heads, d)),
                        bits(&sddmm(&p, &y, &x, heads, d)),
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
    #[should_panic(expected = "spmm: x must have shape [3, 1, 2], it has 5 elements")]
    fn sizes_must_agree() {
        spmm(&pattern(2, 3, 0, 1), &[], &[0.0; 5], 1, 2);
    }
}
