//! Random numbers by counter: number `i` of stream `seed` is a hash of both, so that a mask can be made in
//! any order, on any number of threads, and made again in a backward pass instead of being stored.

use super::{par, simd};
use crate::real::Real;
use crate::tensor::{Tensor, contiguous, memory};

/// Dropout: each element is kept with probability 1 − p and then scaled by 1 / (1 − p). Element `i` is kept
/// if the hash of the seed and `i` is not below p 2³².
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dropout {
    p: f64,
    seed: u64,
}

impl Dropout {
    /// Dropout of probability `p`; the same `seed` always drops the same elements.
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
        let keys = Keys::new(self.seed, (i as u64 >> 32) as u32);
        if self.p < 1.0 && bits(keys, i as u32) >= self.threshold() {
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
                || {
                    for (k, (x, out)) in x.iter().zip(out).enumerate() {
                        let keep = bits(keys, low.wrapping_add(k as u32)) >= threshold;
                        *out = if keep { *x * scale } else { F::zero() };
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
    let dropout = Dropout::new(p, seed);
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
pub(crate) fn mix(seed: u64, k: u64) -> u64 {
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

/// Thirty-two uniform bits. Three rounds of multiply and xor-shift, with a key before the first and before
/// the second; 32-bit operations alone, so that sixteen run at a time.
#[inline(always)]
fn bits(keys: Keys, i: u32) -> u32 {
    let mut x = i ^ keys.enter;
    x = (x ^ (x >> 17)).wrapping_mul(0xed5a_d4bb);
    x = (x ^ (x >> 11))
        .wrapping_add(keys.middle)
        .wrapping_mul(0xac4c_1b51);
    x = (x ^ (x >> 15)).wrapping_mul(0x3184_8bab);
    x ^ (x >> 14)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::tensor;
    use proptest::prelude::*;

    /// The share of kept elements among `n` from `first`.
    fn kept(dropout: Dropout, first: usize, n: usize) -> Vec<bool> {
        let mut out = vec![0.0; n];
        dropout.apply(&vec![1.0_f64; n], first, &mut out);
        out.into_iter().map(|x| x != 0.0).collect()
    }

    /// The correlation coefficient of two masks of keep probability q, in standard deviations of that of
    /// independent masks.
    fn correlation(a: &[bool], b: &[bool], q: f64) -> f64 {
        let n = a.len() as f64;
        let centred = |x: bool| f64::from(u8::from(x)) - q;
        let sum: f64 = a
            .iter()
            .zip(b)
            .map(|(&a, &b)| centred(a) * centred(b))
            .sum();
        sum / (n.sqrt() * q * (1.0 - q))
    }

    /// The first numbers of SplitMix64 from 1234567, as its authors' code gives them.
    #[test]
    fn numbers_are_those_of_splitmix64() {
        let known = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
        ];
        assert_eq!([0, 1, 2].map(|k| mix(1_234_567, k)), known);
    }

    #[test]
    fn as_many_are_dropped_as_asked_for() {
        let n = 200_000;
        for (k, p) in [0.0, 0.1, 0.5, 0.6, 0.97, 1.0].into_iter().enumerate() {
            let mask = kept(Dropout::new(p, k as u64), 12_345, n);
            let count = mask.iter().filter(|k| **k).count() as f64;
            let deviation = (n as f64 * p * (1.0 - p)).sqrt();
            assert!(
                (count - n as f64 * (1.0 - p)).abs() <= 4.0 * deviation,
                "p = {p}: {count} kept"
            );
        }
    }

    #[test]
    fn elements_and_seeds_are_uncorrelated() {
        let n = 200_000;
        for p in [0.1, 0.5, 0.6] {
            for seed in [0, 1, 2, 1 << 32, u64::MAX] {
                let mask = kept(Dropout::new(p, seed), 0, n + 5000);
                for lag in [1, 2, 3, 4, 8, 15, 16, 64, 1433, 4096] {
                    let z = correlation(&mask[..n], &mask[lag..lag + n], 1.0 - p);
                    assert!(
                        z.abs() < 4.5,
                        "p {p}, seed {seed}, lag {lag}: {z} deviations"
                    );
                }
                for other in [seed ^ 1, seed ^ 2, seed.wrapping_add(1 << 33), !seed] {
                    let second = kept(Dropout::new(p, other), 0, n);
                    let z = correlation(&mask[..n], &second, 1.0 - p);
                    assert!(
                        z.abs() < 4.5,
                        "p {p}, seeds {seed} and {other}: {z} deviations"
                    );
                }
            }
        }
    }

    #[test]
    fn every_bit_flips_with_every_bit_of_the_index() {
        let keys = Keys::new(7, 0);
        for bit in 0..32 {
            let mut flips = [0_u32; 32];
            for i in 0..4096_u32 {
                let i = i.wrapping_mul(0x9e37_79b1);
                let change = bits(keys, i) ^ bits(keys, i ^ 1 << bit);
                for (k, flips) in flips.iter_mut().enumerate() {
                    *flips += change >> k & 1;
                }
            }
            // 2048 ± 6 deviations of 32.
            assert!(
                flips.iter().all(|f| (1856..2240).contains(f)),
                "bit {bit}: {flips:?}"
            );
        }
    }

    #[test]
    fn the_upper_half_of_the_index_counts() {
        let drop = Dropout::new(0.5, 3);
        let edge = u32::MAX as usize - 1000;
        let across = kept(drop, edge, 3000);
        for (k, &kept) in across.iter().enumerate() {
            assert_eq!(kept, drop.factor::<f32>(edge + k) != 0.0);
        }
        let n = 100_000;
        let z = correlation(&kept(drop, 0, n), &kept(drop, 1 << 32, n), 0.5);
        assert!(z.abs() < 4.5, "{z} deviations");
    }

    proptest! {
        #[test]
        fn a_mask_can_be_made_in_parts(p in 0.0..=1.0_f64, seed: u64, cut in 0_usize..300) {
            let drop = Dropout::new(p, seed);
            let whole = kept(drop, 40, 300);
            prop_assert_eq!(&kept(drop, 40 + cut, 300 - cut), &whole[cut..]);
            let ones = tensor(&[300], vec![1.0_f32; 300]);
            for (k, &y) in dropout(&ones, p, seed).iter().enumerate() {
                prop_assert_eq!(y, drop.factor::<f32>(k));
            }
        }
    }

    #[test]
    fn transposes_are_numbered_row_by_row() {
        let x = tensor(&[30, 20], (1..=600).map(f64::from).collect());
        let plain = dropout(&contiguous(&x.clone().reversed_axes()), 0.4, 1);
        assert_eq!(dropout(&x.reversed_axes(), 0.4, 1), plain);
    }

    #[test]
    fn masks_do_not_depend_on_threads() {
        let x = tensor(&[200_000], vec![1.0_f32; 200_000]);
        let run = |n| par::with_threads(n, || dropout(&x, 0.6, 9));
        let one = run(1);
        for n in 2..=4 {
            assert_eq!(run(n), one);
        }
    }

    #[test]
    #[should_panic(expected = "dropout: the probability 1.5 is not within 0 ≤ p ≤ 1")]
    fn probabilities_are_checked() {
        Dropout::new(1.5, 0);
    }
}
