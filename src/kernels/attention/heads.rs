//! Sums over rows of the shape [H, D], one head after the other.

use crate::kernels::rows::part;
use crate::kernels::{LANES, fold};
use crate::real::Real;

/// out[h] ← Σ_c term(x[h, c]) for every head, where x[h, c] are the elements of N rows.
///
/// Sixteen lanes are summed in a fixed order; heads of up to eight columns have code of their own. Loops in place
/// of `map` and `fold`: a closure of the standard library may not be inlined, and is then compiled without vector
/// instructions.
#[inline(always)]
pub(super) fn sum_heads<F: Real, const N: usize>(
    d: usize,
    rows: [&[F]; N],
    out: &mut [F],
    term: impl Fn([F; N]) -> F,
) {
    match d {
        1 => {
            let (eights, rest) = out.as_chunks_mut::<8>();
            let done = 8 * eights.len();
            for (k, out) in eights.iter_mut().enumerate() {
                *out = lanes(&rows, 8 * k, [F::zero(); 8], &term);
            }
            for (h, out) in rest.iter_mut().enumerate() {
                *out = F::zero() + term(elements(&rows, done + h));
            }
        }
        ..8 => {
            for (h, out) in out.iter_mut().enumerate() {
                *out = F::zero();
                for at in h * d..(h + 1) * d {
                    *out += term(elements(&rows, at));
                }
            }
        }
        8 => {
            for (h, out) in out.iter_mut().enumerate() {
                *out = fold_eight(lanes::<F, 8, N>(&rows, h * 8, [F::zero(); 8], &term));
            }
        }
        _ => {
            for (h, out) in out.iter_mut().enumerate() {
                let (mut at, end) = (h * d, (h + 1) * d);
                let mut sums = [F::zero(); LANES];
                while at + LANES <= end {
                    sums = lanes(&rows, at, sums, &term);
                    at += LANES;
                }
                for (sum, at) in sums.iter_mut().zip(at..end) {
                    *sum += term(elements(&rows, at));
                }
                *out = fold(sums);
            }
        }
    }
}

/// Adds the terms of L elements from `at` on to the sums.
#[inline(always)]
fn lanes<F: Real, const L: usize, const N: usize>(
    rows: &[&[F]; N],
    at: usize,
    mut sums: [F; L],
    term: &impl Fn([F; N]) -> F,
) -> [F; L] {
    let mut x = [[F::zero(); L]; N];
    for n in 0..N {
        x[n] = *part(rows[n], at);
    }
    for l in 0..L {
        let mut own = [F::zero(); N];
        for n in 0..N {
            own[n] = x[n][l];
        }
        sums[l] += term(own);
    }
    sums
}

/// The element of each row at one place.
#[inline(always)]
fn elements<F: Real, const N: usize>(rows: &[&[F]; N], at: usize) -> [F; N] {
    let mut x = [F::zero(); N];
    for n in 0..N {
        x[n] = rows[n][at];
    }
    x
}

/// out[h] ← ⟨x[h, :], y[h, :]⟩ for every head.
#[inline(always)]
pub(super) fn dot_heads<F: Real>(d: usize, x: &[F], y: &[F], out: &mut [F]) {
    sum_heads(
        d,
        [x, y],
        out,
        #[inline(always)]
        |[x, y]| x * y,
    );
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

/// The sum of eight numbers: adds the two halves, then those of the result.
#[inline(always)]
fn fold_eight<F: Real>(x: [F; 8]) -> F {
    let four: [F; 4] = std::array::from_fn(|l| x[l] + x[l + 4]);
    (four[0] + four[2]) + (four[1] + four[3])
}
