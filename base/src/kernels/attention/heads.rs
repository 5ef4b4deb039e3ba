//! Sums over rows of the shape [H, D], one head after the other.

use crate::kernels::rows::{part, part_mut};
use crate::kernels::{LANES, dot, fold, fold_eight, pairs, scale_by};
use crate::real::Real;
use crate::sparse::Pattern;
use std::ops::Range;

/// out[h] ← ⟨x[h, :], y[h, :]⟩ for every head.
#[inline(always)]
pub(super) fn dot_heads<F: Real>(d: usize, x: &[F], y: &[F], out: &mut [F]) {
    if d < 8 {
        for (h, out) in out.iter_mut().enumerate() {
            let (x, y) = (&x[h * d..][..d], &y[h * d..][..d]);
            *out = F::zero();
            for c in 0..d {
                *out += x[c] * y[c];
            }
        }
        return;
    }
    if d == 8 {
        let (x, y) = (x.as_chunks::<8>().0, y.as_chunks::<8>().0);
        for h in 0..out.len().min(x.len()).min(y.len()) {
            let mut terms = [F::zero(); 8];
            for c in 0..8 {
                terms[c] = x[h][c] * y[h][c];
            }
            out[h] = fold_eight(terms, F::add);
        }
        return;
    }
    for (h, out) in out.iter_mut().enumerate() {
        let own = h * d..(h + 1) * d;
        *out = dot(&x[own.clone()], &y[own]);
    }
}

/// out[e, h] ← Σ_c f(a[h, c], k[j, h, c], q[i, h, c]) for every entry e from a source j to a target i in
/// `rows`, and every head.
///
/// One loop over the entries of all rows is faster than a loop per row, perhaps because rows are short and the
/// processor mispredicts where each ends. With heads of at most 8 columns a loop per row is faster: it loads q
/// once per row.
#[inline(always)]
pub(super) fn scores<F: Real>(
    (heads, d): (usize, usize),
    (pattern, rows): (&Pattern, Range<usize>),
    [a, k, q]: [&[F]; 3],
    out: &mut [F],
    f: &impl Fn(F, F, F) -> F,
) {
    let w = heads * d;
    if d > 8 {
        let entries = pattern.indptr()[rows.start]..pattern.indptr()[rows.end];
        let targets = pattern.rows_of()[entries.clone()].iter();
        let ends = pairs(targets, pattern.indices()[entries].iter());
        for ((&i, &j), out) in pairs(ends, out.chunks_exact_mut(heads)) {
            let own = [a, &k[j as usize * w..][..w], &q[i as usize * w..][..w]];
            score_heads(d, own, out, f);
        }
        return;
    }
    let mut rest = out;
    for i in rows {
        let sources = &pattern.indices()[pattern.row(i)];
        let (own, others) = rest.split_at_mut(sources.len() * heads);
        rest = others;
        scores_of_row((heads, d), sources, [a, k, &q[i * w..][..w]], own, f);
    }
}

/// The same for one target, whose row is q.
#[inline(always)]
fn scores_of_row<F: Real>(
    (heads, d): (usize, usize),
    sources: &[u32],
    [a, k, q]: [&[F]; 3],
    out: &mut [F],
    f: &impl Fn(F, F, F) -> F,
) {
    if d != 1 {
        let w = heads * d;
        for (&j, out) in pairs(sources.iter(), out.chunks_exact_mut(heads)) {
            score_heads(d, [a, &k[j as usize * w..][..w], q], out, f);
        }
        return;
    }
    let mut at = 0;
    while at < heads {
        let all = [a, k, q];
        at += match heads - at {
            8.. => scores_of_heads::<F, 8>((heads, at), sources, all, out, f),
            4.. => scores_of_heads::<F, 4>((heads, at), sources, all, out, f),
            2.. => scores_of_heads::<F, 2>((heads, at), sources, all, out, f),
            _ => scores_of_heads::<F, 1>((heads, at), sources, all, out, f),
        };
    }
}

/// The same with d = 1, for C heads from `at` on. Returns C.
#[inline(always)]
fn scores_of_heads<F: Real, const C: usize>(
    (heads, at): (usize, usize),
    sources: &[u32],
    [a, k, q]: [&[F]; 3],
    out: &mut [F],
    f: &impl Fn(F, F, F) -> F,
) -> usize {
    let (a, q) = (*part::<F, C>(a, at), *part::<F, C>(q, at));
    for (&j, out) in pairs(sources.iter(), out.chunks_exact_mut(heads)) {
        let k = *part::<F, C>(k, j as usize * heads + at);
        let out = part_mut::<F, C>(out, at);
        for l in 0..C {
            out[l] = f(a[l], k[l], q[l]);
        }
    }
    C
}

/// out[h] ← Σ_c f(a[h, c], k[h, c], q[h, c]) for every head.
#[inline(always)]
fn score_heads<F: Real>(d: usize, [a, k, q]: [&[F]; 3], out: &mut [F], f: &impl Fn(F, F, F) -> F) {
    if d < 8 {
        for (h, out) in out.iter_mut().enumerate() {
            let (a, k, q) = (&a[h * d..][..d], &k[h * d..][..d], &q[h * d..][..d]);
            *out = F::zero();
            for c in 0..d {
                *out += f(a[c], k[c], q[c]);
            }
        }
        return;
    }
    if d == 8 {
        let (a, k, q) = (
            a.as_chunks::<8>().0,
            k.as_chunks::<8>().0,
            q.as_chunks::<8>().0,
        );
        let heads = a.len().min(k.len()).min(q.len());
        for h in 0..out.len().min(heads) {
            let mut terms = [F::zero(); 8];
            for c in 0..8 {
                terms[c] = f(a[h][c], k[h][c], q[h][c]);
            }
            out[h] = fold_eight(terms, F::add);
        }
        return;
    }
    for (h, out) in out.iter_mut().enumerate() {
        let own = h * d..(h + 1) * d;
        *out = score(&a[own.clone()], &k[own.clone()], &q[own], f);
    }
}

/// Σ_c f(a[c], k[c], q[c]) over slices of equal length, summed in sixteen lanes, then over the lanes in a
/// fixed order.
#[inline(always)]
fn score<F: Real>(a: &[F], k: &[F], q: &[F], f: &impl Fn(F, F, F) -> F) -> F {
    let (a, a_rest) = a.as_chunks::<LANES>();
    let (k, k_rest) = k.as_chunks::<LANES>();
    let (q, q_rest) = q.as_chunks::<LANES>();
    let mut lanes = [F::zero(); LANES];
    for n in 0..a.len().min(k.len()).min(q.len()) {
        for l in 0..LANES {
            lanes[l] += f(a[n][l], k[n][l], q[n][l]);
        }
    }
    if !a_rest.is_empty() {
        // An array of its own: with an index that varies, the lanes would not stay in registers.
        let mut terms = [F::zero(); LANES];
        for l in 0..a_rest.len().min(k_rest.len()).min(q_rest.len()) {
            terms[l] = f(a_rest[l], k_rest[l], q_rest[l]);
        }
        for l in 0..LANES {
            lanes[l] += terms[l];
        }
    }
    fold(lanes)
}

/// x[h, :] ← t[h] x[h, :] for every head, x of the shape [H, D].
#[inline(always)]
pub(super) fn scale_heads<F: Real>(d: usize, x: &mut [F], t: &[F]) {
    for (h, &t) in t.iter().enumerate() {
        for x in &mut x[h * d..(h + 1) * d] {
            *x *= t;
        }
    }
}

/// x[e, h] ← t[i, h] x[e, h] for every entry e to a target i, and every head.
#[inline(always)]
pub(super) fn scale_entries<F: Real>(heads: usize, targets: &[u32], t: &[F], x: &mut [F]) {
    for (&i, x) in pairs(targets.iter(), x.chunks_exact_mut(heads)) {
        scale_by(x, &t[i as usize * heads..]);
    }
}
