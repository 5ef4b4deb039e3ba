//! Arithmetic on slices and arrays; no tape records it. Fused operations have their forward and backward
//! loops here. Only this module uses threads and vector instructions.
//!
//! An operation of your own computes its value with [`map`]; [`par`] sets the number of threads. The other
//! kernels have no page: users meet them as operations (`emmy::ops`), rules of optimisers and
//! measures of laws.
//!
//! A vectorised loop runs over indices: `zip`, and `map` and `from_fn` of arrays, stay calls in release
//! builds.
//!
//! Two rules hold in every kernel, and together make results independent of the number of threads and of the
//! width of the vectors:
//!
//! - parallel loops write disjoint parts of their output, or reduce over chunks whose size does not depend on
//!   the number of threads, combined in order ([`par`]);
//! - a sum that is vectorised runs in a fixed number of lanes, written out as an array, and products are not
//!   fused with sums. Dense products ([`gemm`]) are the exception: they use fused multiply-adds on every
//!   processor that has them, among them all with vectors of 256 bits or more.
// Lanes and operands are numbered; an index says more than an iterator there.
#![allow(clippy::needless_range_loop)]

#[doc(hidden)]
pub mod attention;
#[doc(hidden)]
pub mod draw;
#[doc(hidden)]
pub mod gemm;
#[doc(hidden)]
pub mod index;
pub mod map;
#[doc(hidden)]
pub mod neurons;
#[doc(hidden)]
pub mod norm;
pub mod par;
#[doc(hidden)]
pub mod random;
#[doc(hidden)]
pub mod recurrent;
#[doc(hidden)]
pub mod reduce;
#[doc(hidden)]
pub mod rotary;
mod rows;
#[doc(hidden)]
pub mod segment;
#[doc(hidden)]
pub mod softmax;
#[doc(hidden)]
pub mod spmm;
#[doc(hidden)]
pub mod update;

use std::env::VarError;
use std::sync::OnceLock;

/// Runs `f` compiled for the widest vector unit of this processor.
///
/// `f` and what it calls in loops must be inlined for this to have an effect: mark the closure and its
/// helpers `#[inline(always)]`. The choice is made once; a call costs a few nanoseconds. For tests and
/// comparisons, `EMMY_VECTORS=256` chooses AVX2 on x86-64 also where there is AVX-512, and
/// `EMMY_VECTORS=none` no vectors, which on x86-64 needs the feature `scalar`. Both vector units give the
/// same bits. Without vectors a product is rounded before it is added, so results differ in their last digits.
///
/// # Panics
/// If `EMMY_VECTORS` has another value; on x86-64 without the feature `scalar`, also if the processor has no
/// AVX2 with fused multiply-add, or `EMMY_VECTORS` is `none`.
#[inline(always)]
pub fn simd<R>(f: impl FnOnce() -> R) -> R {
    dispatch(f)
}

/// Runs `op` with the vector unit that all kernels use. The compiler makes a copy of `op` per unit.
#[doc(hidden)]
#[inline(always)]
pub fn dispatch<O: pulp::WithSimd>(op: O) -> O::Output {
    match arch() {
        #[cfg(target_arch = "x86_64")]
        pulp::Arch::V4(simd) => pulp::Simd::vectorize(simd, op),
        #[cfg(target_arch = "x86_64")]
        pulp::Arch::V3(simd) => pulp::Simd::vectorize(simd, op),
        #[cfg(any(not(target_arch = "x86_64"), feature = "scalar"))]
        arch => arch.dispatch(op),
        #[cfg(all(target_arch = "x86_64", not(feature = "scalar")))]
        _ => panic!(
            "emmy has kernels for AVX2 with FMA and for AVX-512. For a processor that has neither, or to run \
             without vectors (EMMY_VECTORS=none), build with the feature `scalar`"
        ),
    }
}

#[inline(always)]
fn arch() -> pulp::Arch {
    static CHOSEN: OnceLock<pulp::Arch> = OnceLock::new();
    *CHOSEN.get_or_init(chosen)
}

#[cold]
fn chosen() -> pulp::Arch {
    let name = std::env::var("EMMY_VECTORS");
    match name.as_deref() {
        Err(VarError::NotPresent) => pulp::Arch::new(),
        Ok("none") => pulp::Arch::Scalar,
        #[cfg(target_arch = "x86_64")]
        Ok("256") => {
            let avx2 = pulp::x86::V3::try_new();
            pulp::Arch::V3(avx2.expect("EMMY_VECTORS=256: this processor has no AVX2 with FMA"))
        }
        Ok(other) => panic!("EMMY_VECTORS={other}: expected 256 (on x86-64) or none"),
        Err(VarError::NotUnicode(other)) => {
            panic!("EMMY_VECTORS={other:?}: expected 256 (on x86-64) or none")
        }
    }
}

/// Σₖ aₖ bₖ over slices of equal length, in sixteen lanes that are then added in a fixed order.
#[inline(always)]
pub(crate) fn dot<F: crate::Real>(a: &[F], b: &[F]) -> F {
    let (a, a_rest) = a.as_chunks::<LANES>();
    let (b, b_rest) = b.as_chunks::<LANES>();
    let mut lanes = [F::zero(); LANES];
    for k in 0..a.len().min(b.len()) {
        for l in 0..LANES {
            lanes[l] += a[k][l] * b[k][l];
        }
    }
    if !a_rest.is_empty() {
        let (a, b) = (padded(a_rest), padded(b_rest));
        for l in 0..LANES {
            lanes[l] += a[l] * b[l];
        }
    }
    fold(lanes)
}

/// Fewer than sixteen numbers, and zeros behind them.
///
/// A loop over these numbers alone would index the lanes of a sum by a variable, which keeps the lanes out of
/// registers.
#[inline(always)]
pub(crate) fn padded<F: crate::Real>(x: &[F]) -> [F; LANES] {
    let mut all = [F::zero(); LANES];
    copy_few(x, &mut all[..x.len()]);
    all
}

/// out ← x, of equal length. For a few elements a call of `memcpy`, as `copy_from_slice` makes, takes longer
/// than this loop.
#[allow(clippy::manual_memcpy)]
#[inline(always)]
pub(crate) fn copy_few<F: Copy>(x: &[F], out: &mut [F]) {
    let (pieces, rest) = x.as_chunks::<8>();
    let (out, end) = out.as_chunks_mut::<8>();
    for i in 0..pieces.len() {
        out[i] = pieces[i];
    }
    for i in 0..rest.len() {
        end[i] = rest[i];
    }
}

/// The number of lanes of a vectorised sum: one 512-bit register of `f32`.
#[doc(hidden)]
pub const LANES: usize = 16;

/// The sum of sixteen lanes, by halves.
#[inline(always)]
#[doc(hidden)]
pub fn fold<F: crate::Real>(lanes: [F; LANES]) -> F {
    fold_by(lanes, F::add)
}

/// Sixteen lanes combined by `f`: the two halves, then those of the result.
#[inline(always)]
pub(crate) fn fold_by<F: crate::Real>(lanes: [F; LANES], f: impl Fn(F, F) -> F) -> F {
    // Each half an array of its own, so that it stays in a register.
    let mut eight = [F::zero(); 8];
    for l in 0..8 {
        eight[l] = f(lanes[l], lanes[l + 8]);
    }
    fold_eight(eight, f)
}

/// The same for eight lanes.
#[inline(always)]
pub(crate) fn fold_eight<F: crate::Real>(x: [F; 8], f: impl Fn(F, F) -> F) -> F {
    let mut four = [F::zero(); 4];
    for l in 0..4 {
        four[l] = f(x[l], x[l + 4]);
    }
    f(f(four[0], four[2]), f(four[1], four[3]))
}

/// The elements of two iterators in pairs, for loops around a vectorised loop.
///
/// The standard library's `zip` is a call. Only optimisation across the parts of a crate (`lto`) inlines it,
/// and release builds here have none; behind a call nothing has vectors.
#[inline(always)]
pub(crate) fn pairs<A: Iterator, B: Iterator>(
    mut a: A,
    mut b: B,
) -> impl Iterator<Item = (A::Item, B::Item)> {
    std::iter::from_fn(
        #[inline(always)]
        move || Some((a.next()?, b.next()?)),
    )
}

/// y ← x ⊙ y; x has at least as many elements.
#[inline(always)]
pub(crate) fn scale_by<F: crate::Real>(y: &mut [F], x: &[F]) {
    for i in 0..x.len().min(y.len()) {
        y[i] *= x[i];
    }
}

/// y ← y + x; the shorter slice ends it.
#[inline(always)]
pub(crate) fn accumulate<F: crate::Real>(y: &mut [F], x: &[F]) {
    for i in 0..y.len().min(x.len()) {
        y[i] += x[i];
    }
}

/// Each row of y ← the row + x.
#[inline(never)]
pub(crate) fn accumulate_rows<F: crate::Real>(y: &mut [F], x: &[F]) {
    simd(
        #[inline(always)]
        || {
            for row in y.chunks_exact_mut(x.len()) {
                accumulate(row, x);
            }
        },
    )
}

/// y ← y + a x for slices of equal length.
#[inline(always)]
pub(crate) fn axpy<F: crate::Real>(a: F, x: &[F], y: &mut [F]) {
    for i in 0..x.len().min(y.len()) {
        y[i] += a * x[i];
    }
}
