//! Sums over the entries of one row of a pattern, in blocks of columns whose sums stay in a register while the entries go by.
//!
//! | letter | shape | meaning |
//! |---|---|---|
//! | (e, j) | | an entry of the row and its column |
//! | x, zs | [.., H, D] | rows to choose from, by j |
//! | out, zt | [H, D] | what belongs to the row itself |
//!
//! A block is 16 or 8 columns wide and lies within a head; widths that neither divides take a plain loop. Which one is taken, and with it
//! the order of every sum, depends on D alone.

use super::axpy;
use crate::real::Real;

/// out[h, :] ← out[h, :] + Σ weight(e, h) x[j, h, :].
#[inline(always)]
pub(super) fn weighted_sum<F: Real>(
    entries: impl Iterator<Item = (usize, usize)> + Clone,
    weight: impl Fn(usize, usize) -> F,
    x: &[F],
    d: usize,
    out: &mut [F],
) {
    if d.is_multiple_of(16) {
        weighted_blocks::<F, 16>(entries, weight, x, d, out);
    } else if d.is_multiple_of(8) {
        weighted_blocks::<F, 8>(entries, weight, x, d, out);
    } else {
        let w = out.len();
        for (e, j) in entries {
            let heads = x[j * w..][..w].chunks_exact(d).zip(out.chunks_exact_mut(d));
            for (h, (x, out)) in heads.enumerate() {
                axpy(weight(e, h), x, out);
            }
        }
    }
}

#[inline(always)]
fn weighted_blocks<F: Real, const B: usize>(
    entries: impl Iterator<Item = (usize, usize)> + Clone,
    weight: impl Fn(usize, usize) -> F,
    x: &[F],
    d: usize,
    out: &mut [F],
) {
    let w = out.len();
    for (k, out) in out.as_chunks_mut::<B>().0.iter_mut().enumerate() {
        let h = k * B / d;
        let mut sum = *out;
        for (e, j) in entries.clone() {
            let (c, x) = (weight(e, h), block::<F, B>(x, j * w + k * B));
            for l in 0..B {
                sum[l] += c * x[l];
            }
        }
        *out = sum;
    }
}

/// gzt ← gzt + Σ g(e, h) LeakyReLU'(t) and ga ← ga + Σ g(e, h) LeakyReLU(t), with t = zs[j] + zt: what the adjoints g of GATv2's scores
/// mean for the target and for the attention vector.
#[inline(always)]
pub(super) fn score_adjoints<F: Real>(
    entries: impl Iterator<Item = (usize, usize)> + Clone,
    g: impl Fn(usize, usize) -> F,
    zs: &[F],
    zt: &[F],
    (d, slope): (usize, F),
    gzt: &mut [F],
    ga: &mut [F],
) {
    if d.is_multiple_of(16) {
        score_blocks::<F, 16>(entries, g, zs, zt, (d, slope), gzt, ga);
    } else if d.is_multiple_of(8) {
        score_blocks::<F, 8>(entries, g, zs, zt, (d, slope), gzt, ga);
    } else {
        let w = zt.len();
        for (e, j) in entries {
            for (h, zs) in zs[j * w..][..w].chunks_exact(d).enumerate() {
                let (g, own) = (g(e, h), h * d..(h + 1) * d);
                let sums = gzt[own.clone()].iter_mut().zip(&mut ga[own.clone()]);
                for ((&zs, &zt), (gzt, ga)) in zs.iter().zip(&zt[own]).zip(sums) {
                    let (step, t) = step(g, zs, zt, slope);
                    *gzt += step;
                    *ga += step * t;
                }
            }
        }
    }
}

#[inline(always)]
fn score_blocks<F: Real, const B: usize>(
    entries: impl Iterator<Item = (usize, usize)> + Clone,
    g: impl Fn(usize, usize) -> F,
    zs: &[F],
    zt: &[F],
    (d, slope): (usize, F),
    gzt: &mut [F],
    ga: &mut [F],
) {
    let w = zt.len();
    let sums = gzt
        .as_chunks_mut::<B>()
        .0
        .iter_mut()
        .zip(ga.as_chunks_mut::<B>().0);
    for (k, ((gzt, ga), zt)) in sums.zip(zt.as_chunks::<B>().0).enumerate() {
        let h = k * B / d;
        let (mut sum, mut sum_a) = (*gzt, *ga);
        for (e, j) in entries.clone() {
            let (g, zs) = (g(e, h), block::<F, B>(zs, j * w + k * B));
            for l in 0..B {
                let (step, t) = step(g, zs[l], zt[l], slope);
                sum[l] += step;
                sum_a[l] += step * t;
            }
        }
        (*gzt, *ga) = (sum, sum_a);
    }
}

/// through ← through + Σ g(e, h) LeakyReLU'(zs + zt[i]) over the entries (e, i) of the column of a source: the same for the source.
#[inline(always)]
pub(super) fn source_adjoints<F: Real>(
    entries: impl Iterator<Item = (usize, usize)> + Clone,
    g: impl Fn(usize, usize) -> F,
    zs: &[F],
    zt: &[F],
    (d, slope): (usize, F),
    through: &mut [F],
) {
    if d.is_multiple_of(16) {
        source_blocks::<F, 16>(entries, g, zs, zt, (d, slope), through);
    } else if d.is_multiple_of(8) {
        source_blocks::<F, 8>(entries, g, zs, zt, (d, slope), through);
    } else {
        let w = zs.len();
        for (e, i) in entries {
            for (h, zt) in zt[i * w..][..w].chunks_exact(d).enumerate() {
                let (g, own) = (g(e, h), h * d..(h + 1) * d);
                for ((&zs, &zt), through) in zs[own.clone()].iter().zip(zt).zip(&mut through[own]) {
                    *through += step(g, zs, zt, slope).0;
                }
            }
        }
    }
}

#[inline(always)]
fn source_blocks<F: Real, const B: usize>(
    entries: impl Iterator<Item = (usize, usize)> + Clone,
    g: impl Fn(usize, usize) -> F,
    zs: &[F],
    zt: &[F],
    (d, slope): (usize, F),
    through: &mut [F],
) {
    let w = zs.len();
    let blocks = through
        .as_chunks_mut::<B>()
        .0
        .iter_mut()
        .zip(zs.as_chunks::<B>().0);
    for (k, (through, zs)) in blocks.enumerate() {
        let h = k * B / d;
        let mut sum = *through;
        for (e, i) in entries.clone() {
            let (g, zt) = (g(e, h), block::<F, B>(zt, i * w + k * B));
            for l in 0..B {
                sum[l] += step(g, zs[l], zt[l], slope).0;
            }
        }
        *through = sum;
    }
}

/// g LeakyReLU'(t) and t, for t = zs + zt; their product is g LeakyReLU(t).
#[inline(always)]
fn step<F: Real>(g: F, zs: F, zt: F, slope: F) -> (F, F) {
    let t = zs + zt;
    (if t > F::zero() { g } else { g * slope }, t)
}

#[inline(always)]
fn block<F, const B: usize>(x: &[F], start: usize) -> &[F; B] {
    x[start..].first_chunk().expect("a whole row of x")
}
