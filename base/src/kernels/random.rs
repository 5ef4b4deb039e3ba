//! Random numbers by counter: number `i` of stream `seed` is a hash of both, so that a mask can be made in
//! any order, on any number of threads, and made again in a backward pass instead of being stored.

use super::{par, simd};
use crate::real::Real;
use crate::tensor::{Tensor, contiguous, memory};

/// The mask of a dropout: each element is kept with probability 1 − p and then scaled by 1 / (1 − p).
/// Element `i` is kept if the hash of the seed and `i` is not below p 2³².
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DropMask {
    p: f64,
    seed: u64,
}

impl DropMask {
    /// The mask with probability `p`; the same `seed` always drops the same elements.
    ///
    /// # Panics
    /// If `p` is not within 0 ≤ p ≤ 1.
    #[track_caller]
    pub fn new(p: f64, seed: u64) -> Self {
        assert!(
            (0.0..=1.0).contains(&p),
            "dropout: the probability {p} is not within 0 ≤ p ≤ 1"
        );
        Self { p, seed }
    }

    /// No dropout.
    pub const NONE: Self = Self { p: 0.0, seed: 0 };

    /// Whether every element is kept.
    #[inline(always)]
    pub fn is_none(self) -> bool {
        self.p == 0.0
    }

    /// The factor of element `i`: 0 or 1 / (1 − p).
    #[inline(always)]
    pub fn factor<F: Real>(self, i: usize) -> F {
        if self.p < 1.0 && bits(self.seed, i as u64) >= self.threshold() {
            F::of(1.0 / (1.0 - self.p))
        } else {
            F::zero()
        }
    }

    /// p 2³², for p < 1.
    #[inline(always)]
    fn threshold(self) -> u32 {
        (self.p * 4_294_967_296.0) as u32
    }

    /// outₖ = xₖ · factor(first + k).
    ///
    /// # Panics
    /// If the slices differ in length.
    #[inline(never)]
    pub fn apply<F: Real>(self, x: &[F], first: usize, out: &mut [F]) {
        assert_eq!(x.len(), out.len(), "dropout: input and output differ");
        if self.p >= 1.0 {
            return out.fill(F::zero());
        }
        let (threshold, scale) = (self.threshold(), F::of(1.0 / (1.0 - self.p)));
        let mut at = 0;
        // The upper half of the index is part of the keys: the loop makes one run per value of it.
        while at < x.len() {
            let index = (first + at) as u64;
            let keys = Keys::new(self.seed, (index >> 32) as u32);
            let low = index as u32;
            let run = (x.len() - at).min((u32::MAX - low) as usize + 1);
            let (x, out) = (&x[at..at + run], &mut out[at..at + run]);
            simd(
                #[inline(always)]
                // By value, and the product before the choice: where a number is read only if an element is
                // kept, there are no vectors for the loop on AVX2, which has no masks.
                move || {
                    for k in 0..x.len().min(out.len()) {
                        let kept = word(keys, low.wrapping_add(k as u32)) >= threshold;
                        let scaled = x[k] * scale;
                        out[k] = if kept { scaled } else { F::zero() };
                    }
                },
            );
            at += run;
        }
    }
}

/// x with dropout: each element is 0 with probability p, else scaled by 1 / (1 − p). Element numbers run in
/// row-major order.
///
/// The adjoint of x is the same function of the adjoint of the output, with the same p and seed.
///
/// # Panics
/// If `p` is not within 0 ≤ p ≤ 1.
#[track_caller]
#[inline(never)]
pub fn dropout<F: Real>(x: &Tensor<F>, p: f64, seed: u64) -> Tensor<F> {
    let dropout = DropMask::new(p, seed);
    if dropout.is_none() {
        return x.clone();
    }
    let x = contiguous(x);
    let x_data = x.as_slice().expect("contiguous");
    let mut out = memory::scratch(x.len());
    par::rows(&mut out, 1, 2, |first, part| {
        dropout.apply(&x_data[first..first + part.len()], first, part)
    });
    out.into_tensor(x.shape())
}

/// One well-mixed number from a seed and a counter: number `k` of SplitMix64 (Steele, Lea, Flood 2014).
#[inline(always)]
pub fn mix(seed: u64, k: u64) -> u64 {
    let x = seed.wrapping_add(k.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The constants of one stream of 2³² numbers.
#[derive(Clone, Copy)]
struct Keys {
    enter: u32,
    middle: u32,
}

impl Keys {
    /// By [`mix`], applied to the seed and then to the block.
    #[inline(always)]
    fn new(seed: u64, block: u32) -> Self {
        let key = mix(mix(seed, 0) ^ u64::from(block), 0);
        Self {
            enter: key as u32,
            middle: (key >> 32) as u32,
        }
    }
}

/// Thirty-two uniform bits: number `i` of stream `seed`, the same on every machine.
///
/// ```
/// use emmy::kernels::random::bits;
/// assert_eq!(bits(1, 5), bits(1, 5));
/// assert_ne!(bits(1, 5), bits(2, 5));
/// ```
#[inline(always)]
pub fn bits(seed: u64, i: u64) -> u32 {
    word(Keys::new(seed, (i >> 32) as u32), i as u32)
}

/// Number `i` of a stream. Three rounds of multiply and xor-shift with the constants of `triple32` (Wellons,
/// hash-prospector, <https://github.com/skeeto/hash-prospector>), with a key before the first and before the
/// second; 32-bit operations alone, which vectors of every width have. Two rounds do not pass
/// `tests/kernels/random_words.rs`.
#[inline(always)]
fn word(keys: Keys, i: u32) -> u32 {
    let mut x = i ^ keys.enter;
    x = (x ^ (x >> 17)).wrapping_mul(0xed5a_d4bb);
    x = (x ^ (x >> 11))
        .wrapping_add(keys.middle)
        .wrapping_mul(0xac4c_1b51);
    x = (x ^ (x >> 15)).wrapping_mul(0x3184_8bab);
    x ^ (x >> 14)
}
