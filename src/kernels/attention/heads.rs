//! Operations on rows of the shape [H, D], one head after the other.

use crate::kernels::{LANES, dot, fold};
use crate::real::Real;

/// out[h] ← ⟨x[h, :], y[h, :]⟩ for every head.
#[inline(always)]
pub(super) fn dot_heads<F: Real>(d: usize, x: &[F], y: &[F], out: &mut [F]) {
    if d < 8 {
        for (h, out) in out.iter_mut().enumerate() {
            let terms = x[h * d..(h + 1) * d].iter().zip(&y[h * d..(h + 1) * d]);
            *out = terms.fold(F::zero(), |s, (&x, &y)| s + x * y);
        }
        return;
    }
    if d == 8 {
        let (x, y) = (x.as_chunks::<8>().0, y.as_chunks::<8>().0);
        for ((out, x), y) in out.iter_mut().zip(x).zip(y) {
            *out = fold_eight(std::array::from_fn(|l| x[l] * y[l]));
        }
        return;
    }
    for (h, out) in out.iter_mut().enumerate() {
        let own = h * d..(h + 1) * d;
        *out = dot(&x[own.clone()], &y[own]);
    }
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

/// x[k, h] ← t[h] x[k, h] for every entry k and head, x of the shape [entries, H].
#[inline(always)]
pub(super) fn scale_entries<F: Real>(x: &mut [F], t: &[F]) {
    for x in x.chunks_exact_mut(t.len()) {
        for (x, &t) in x.iter_mut().zip(t) {
            *x *= t;
        }
    }
}

/// out[h] ← ⟨a[h, :], LeakyReLU(zs[h, :] + zt[h, :])⟩ for every head.
#[inline(always)]
pub(super) fn score_heads<F: Real>(d: usize, zs: &[F], zt: &[F], a: &[F], slope: F, out: &mut [F]) {
    if d < 8 {
        for (h, out) in out.iter_mut().enumerate() {
            let own = h * d..(h + 1) * d;
            let terms = zs[own.clone()].iter().zip(&zt[own.clone()]).zip(&a[own]);
            *out = terms.fold(F::zero(), |s, ((&zs, &zt), &a)| {
                s + a * leaky(zs + zt, slope)
            });
        }
        return;
    }
    if d == 8 {
        let (zs, zt, a) = (
            zs.as_chunks::<8>().0,
            zt.as_chunks::<8>().0,
            a.as_chunks::<8>().0,
        );
        for (((out, zs), zt), a) in out.iter_mut().zip(zs).zip(zt).zip(a) {
            *out = fold_eight(std::array::from_fn(|l| a[l] * leaky(zs[l] + zt[l], slope)));
        }
        return;
    }
    for (h, out) in out.iter_mut().enumerate() {
        let own = h * d..(h + 1) * d;
        *out = score(&zs[own.clone()], &zt[own.clone()], &a[own], slope);
    }
}

/// ⟨a, LeakyReLU(zs + zt)⟩ for slices of equal length, summed in sixteen lanes, then over the lanes in a
/// fixed order.
#[inline(always)]
fn score<F: Real>(zs: &[F], zt: &[F], a: &[F], slope: F) -> F {
    let (zs, zs_rest) = zs.as_chunks::<LANES>();
    let (zt, zt_rest) = zt.as_chunks::<LANES>();
    let (a, a_rest) = a.as_chunks::<LANES>();
    let mut lanes = [F::zero(); LANES];
    for ((zs, zt), a) in zs.iter().zip(zt).zip(a) {
        for l in 0..LANES {
            lanes[l] += a[l] * leaky(zs[l] + zt[l], slope);
        }
    }
    for (lane, ((&zs, &zt), &a)) in lanes
        .iter_mut()
        .zip(zs_rest.iter().zip(zt_rest).zip(a_rest))
    {
        *lane += a * leaky(zs + zt, slope);
    }
    fold(lanes)
}

/// The sum of eight numbers: adds the two halves, then those of the result.
#[inline(always)]
fn fold_eight<F: Real>(x: [F; 8]) -> F {
    let four: [F; 4] = std::array::from_fn(|l| x[l] + x[l + 4]);
    (four[0] + four[2]) + (four[1] + four[3])
}

/// LeakyReLU: x if x > 0, otherwise slope · x.
#[inline(always)]
pub(super) fn leaky<F: Real>(x: F, slope: F) -> F {
    if x > F::zero() { x } else { slope * x }
}

/// The derivative of LeakyReLU: 1 if x > 0, otherwise the slope.
#[inline(always)]
pub(super) fn leaky_gate<F: Real>(x: F, slope: F) -> F {
    if x > F::zero() { F::one() } else { slope }
}
