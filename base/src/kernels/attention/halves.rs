//! The two halves of the scores of GAT: one inner product per node, head and end of an edge. Letters: see the
//! table of [the parent module](super).

use super::add;
use super::heads::dot_heads;
use crate::kernels::rows::{self, Out};
use crate::kernels::spmm::check;
use crate::kernels::{par, simd};
use crate::real::Real;
use crate::tensor::memory::{self, Buffer};

/// s[i, h] = ⟨a[h, :], z[i, h, :]⟩ for each of two vectors a: the two halves of the scores, each of shape
/// [n, H]. z has shape [n, H, D], a has [H, D].
///
/// # Panics
/// If the length of `z` is not n times that of each `a`, or that of `a` not a multiple of `heads`.
#[track_caller]
#[inline(never)]
pub fn half_scores<F: Real>(n: usize, z: &[F], a: [&[F]; 2], heads: usize) -> [Buffer<F>; 2] {
    let (w, d) = row_of(z, a, heads);
    check("half_scores", "z", z, &[n, w]);
    if z.is_empty() {
        return [memory::zeros(n * heads), memory::zeros(n * heads)];
    }
    let mut s = [memory::scratch(n * heads), memory::scratch(n * heads)];
    let [first, second] = &mut s;
    let rows = par::chunks(n, ROWS);
    let parts = par::carve(first, rows.iter().map(|r| r.len() * heads))
        .into_iter()
        .zip(par::carve(second, rows.iter().map(|r| r.len() * heads)));
    let tasks: Vec<_> = rows.into_iter().zip(parts).collect();
    par::map(tasks, 2 * z.len(), |(rows, (first, second))| {
        simd(
            #[inline(always)]
            || {
                for (k, i) in rows.enumerate() {
                    let z = &z[i * w..][..w];
                    dot_heads(d, z, a[0], &mut first[k * heads..][..heads]);
                    dot_heads(d, z, a[1], &mut second[k * heads..][..heads]);
                }
            },
        )
    });
    s
}

/// The adjoints of [`half_scores`] from gs, the adjoints of the two halves: adds Σ gs[i, h] a[h, :], the sum
/// over both halves, to gz, and returns the adjoint Σᵢ gs[i, h] z[i, h, :] of each a.
///
/// # Panics
/// If the lengths do not fit.
#[track_caller]
#[inline(never)]
pub fn half_scores_backward<F: Real>(
    z: &[F],
    a: [&[F]; 2],
    heads: usize,
    gs: [&[F]; 2],
    gz: &mut [F],
) -> [Buffer<F>; 2] {
    let (w, _) = row_of(z, a, heads);
    check("half_scores_backward", "gz", gz, &[z.len()]);
    if z.is_empty() {
        return [memory::zeros(w), memory::zeros(w)];
    }
    let n = z.len() / w;
    for gs in gs {
        check("half_scores_backward", "gs", gs, &[n, heads]);
    }
    let rows = par::chunks(n, ROWS);
    let parts = par::carve(gz, rows.iter().map(|r| r.len() * w));
    let tasks: Vec<_> = rows.into_iter().zip(parts).collect();
    let parts = par::map(tasks, 4 * z.len(), |(rows, gz)| {
        simd(
            #[inline(always)]
            || {
                for (row, gz) in gz.chunks_exact_mut(w).enumerate() {
                    let i = rows.start + row;
                    for k in 0..2 {
                        let gs = &gs[k][i * heads..][..heads];
                        rows::weighted_sum(&[0], gs, a[k], heads, Out::Add(gz));
                    }
                }
                let numbers: Vec<u32> = rows.clone().map(|i| i as u32).collect();
                let mut sums = [vec![F::zero(); w], vec![F::zero(); w]];
                for k in 0..2 {
                    let gs = &gs[k][rows.start * heads..rows.end * heads];
                    rows::weighted_sum(&numbers, gs, z, heads, Out::Set(&mut sums[k]));
                }
                sums
            },
        )
    });
    let sum = parts
        .into_iter()
        .reduce(|[first, second], [f, s]| [add(first, f), add(second, s)]);
    sum.expect("there is a row").map(Buffer::from)
}

/// The number of rows per task in the loops over nodes.
const ROWS: usize = 512;

/// The number of elements per node, H D, and per head, D.
#[track_caller]
fn row_of<F>(z: &[F], a: [&[F]; 2], heads: usize) -> (usize, usize) {
    let w = a[0].len();
    let fits = (w.is_multiple_of(heads) && a[1].len() == w)
        && (w > 0 && z.len().is_multiple_of(w) || z.is_empty());
    assert!(
        fits,
        "half_scores: {} elements of z, {w} and {} of a, {heads} heads",
        z.len(),
        a[1].len()
    );
    (w, w.checked_div(heads).unwrap_or(0))
}
