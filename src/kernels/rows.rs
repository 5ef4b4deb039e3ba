//! Sums over the entries of one row of a pattern, in blocks of columns whose sums stay in a register while the entries go by.
//!
//! | letter | shape | meaning |
//! |---|---|---|
//! | (e, j) | | an entry of the row and its column |
//! | x, zs | [.., H, D] | rows to choose from, by j |
//! | out, zt | [H, D] | what belongs to the row itself |
//!
//! One walk ([`over_entries`]) serves them all. A block is 16 or 8 columns wide and lies within a head; widths that neither divides take a plain loop. Which one is taken, and with it
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
    over_entries(
        entries,
        weight,
        x,
        d,
        [out],
        #[inline(always)]
        |c, _, x, [out]| axpy(c, x, out),
    );
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
    over_entries(
        entries,
        g,
        zs,
        d,
        [gzt, ga],
        #[inline(always)]
        |g, at, zs, [gzt, ga]| {
            let sums = gzt.iter_mut().zip(ga.iter_mut());
            for ((&zs, &zt), (gzt, ga)) in zs.iter().zip(&zt[at..]).zip(sums) {
                // The value of a LeakyReLU is its derivative times its argument.
                let t = zs + zt;
                let step = if t > F::zero() { g } else { g * slope };
                *gzt += step;
                *ga += step * t;
            }
        },
    );
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
    over_entries(
        entries,
        g,
        zt,
        d,
        [through],
        #[inline(always)]
        |g, at, zt, [through]| {
            for ((&zt, &zs), through) in zt.iter().zip(&zs[at..]).zip(through.iter_mut()) {
                *through += if zs + zt > F::zero() { g } else { g * slope };
            }
        },
    );
}

/// Calls `f(factor(e, h), at, part of row j of x, parts of out)` for every entry and every part of a row, in the order of the entries for
/// each part; `at` is the column where the part begins.
#[inline(always)]
fn over_entries<F: Real, const N: usize>(
    entries: impl Iterator<Item = (usize, usize)> + Clone,
    factor: impl Fn(usize, usize) -> F,
    x: &[F],
    d: usize,
    mut out: [&mut [F]; N],
    f: impl Fn(F, usize, &[F], [&mut [F]; N]),
) {
    if d.is_multiple_of(16) {
        in_blocks::<F, N, 16>(entries, factor, x, d, out, f);
    } else if d.is_multiple_of(8) {
        in_blocks::<F, N, 8>(entries, factor, x, d, out, f);
    } else {
        let w = out[0].len();
        for (e, j) in entries {
            for (h, x) in x[j * w..][..w].chunks_exact(d).enumerate() {
                let own = out.each_mut().map(|out| &mut out[h * d..(h + 1) * d]);
                f(factor(e, h), h * d, x, own);
            }
        }
    }
}

/// [`over_entries`] in blocks of B columns, the sums of each in an array of its own until the entries are through.
#[inline(always)]
fn in_blocks<F: Real, const N: usize, const B: usize>(
    entries: impl Iterator<Item = (usize, usize)> + Clone,
    factor: impl Fn(usize, usize) -> F,
    x: &[F],
    d: usize,
    mut out: [&mut [F]; N],
    f: impl Fn(F, usize, &[F], [&mut [F]; N]),
) {
    let w = out[0].len();
    for at in (0..w).step_by(B) {
        let mut sums = out.each_ref().map(|out| *block::<F, B>(out, at));
        for (e, j) in entries.clone() {
            let parts = sums.each_mut().map(|sum| &mut sum[..]);
            f(factor(e, at / d), at, block::<F, B>(x, j * w + at), parts);
        }
        for (out, sum) in out.iter_mut().zip(sums) {
            out[at..at + B].copy_from_slice(&sum);
        }
    }
}

#[inline(always)]
fn block<F, const B: usize>(x: &[F], start: usize) -> &[F; B] {
    x[start..].first_chunk().expect("a whole row")
}
