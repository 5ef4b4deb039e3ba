//! Elementary functions without branches or tables, so that loops over them are vectorised. The standard
//! library's are calls into the C library, one number at a time.
//!
//! Each reduces its argument to a small interval, evaluates a polynomial there and scales back. The
//! polynomials interpolate at Chebyshev nodes; that of the logarithm is applied to s = f/(2 + f) as in Sun's
//! fdlibm, and that of `f32` erf is N. Juffa's. Errors are below 3 units in the last place (tested against
//! the standard library in `f64`), and every function is correct at ±0, ±∞, NaN and where it overflows or
//! underflows, subnormal results included.

// The coefficients were fitted in a wider format; the digits beyond this one document them.
#![allow(clippy::excessive_precision)]

use num_traits::Float;

/// The constants of a float format that the algorithms need. Tables begin with the constant term.
pub trait Format: Float + 'static {
    /// 1.5 · 2^(mantissa bits): adding it rounds to an integer, left in the low bits.
    const ROUND: Self;
    /// 1 / ln 2
    const LOG2_E: Self;
    /// ln 2 in two parts; integers of the exponent's size times the first are exact.
    const LN2: [Self; 2];
    /// Arguments beyond which eˣ is 0, or ∞.
    const EXP_RANGE: [Self; 2];
    /// Beyond −EXPM1_LOW, eˣ − 1 rounds to −1.
    const EXPM1_LOW: Self;
    /// Beyond it, tanh x rounds to 1.
    const TANH_HIGH: Self;
    /// (eʳ − 1 − r)/r² for |r| ≤ ½ ln 2.
    const EXP: &'static [Self];
    /// (ln(1 + f)/s − 2)/s², in powers of s², where s = f/(2 + f) and 1 + f lies in [√½, √2].
    const LN: &'static [Self];
    /// ½
    const HALF: Self;
    /// 2
    const TWO: Self;

    /// 2ᵏ from k + ROUND, for k within the exponents of normal numbers.
    fn pow2(rounded: Self) -> Self;

    /// A positive normal number as (k, m): 2ᵏ m with m in [√½, √2]. The result is arbitrary for other
    /// numbers.
    fn split(self) -> (Self, Self);

    /// A power of two that makes subnormal numbers normal, and its logarithm to base 2.
    const LIFT: [Self; 2];
}

impl Format for f32 {
    const ROUND: f32 = 12_582_912.0;
    const LOG2_E: f32 = std::f32::consts::LOG2_E;
    const LN2: [f32; 2] = [0.693_145_75, 1.428_606_8e-6];
    const EXP_RANGE: [f32; 2] = [-104.0, 89.0];
    const EXPM1_LOW: f32 = 17.5;
    const TANH_HIGH: f32 = 9.5;
    const EXP: &'static [f32] = &[
        0.500_000_001_349_817_8,
        0.166_666_666_816_591_8,
        0.041_666_464_602_026_54,
        0.008_333_310_889_582_077,
        0.001_393_368_586_261_717_4,
        0.000_198_910_306_543_703_28,
    ];
    const LN: &'static [f32] = &[
        0.666_666_665_542_697_3,
        0.400_001_220_257_123_25,
        0.285_507_997_302_090_7,
        0.233_310_408_340_293_53,
    ];
    const HALF: f32 = 0.5;
    const TWO: f32 = 2.0;
    const LIFT: [f32; 2] = [8_388_608.0, 23.0];

    #[inline(always)]
    fn pow2(rounded: f32) -> f32 {
        let k = rounded.to_bits().wrapping_sub(Self::ROUND.to_bits());
        f32::from_bits(k.wrapping_add(127) << 23)
    }

    #[inline(always)]
    fn split(self) -> (f32, f32) {
        // Bits of √½: below them begins the next lower power of two.
        let up = self.to_bits().wrapping_sub(0x3f35_04f3);
        let k = (up as i32 >> 23) as f32;
        (k, f32::from_bits((up & 0x007f_ffff) + 0x3f35_04f3))
    }
}

impl Format for f64 {
    const ROUND: f64 = 6_755_399_441_055_744.0;
    const LOG2_E: f64 = std::f64::consts::LOG2_E;
    const LN2: [f64; 2] = [0.693_147_180_485_539_1, 7.440_617_110_012_397e-11];
    const EXP_RANGE: [f64; 2] = [-746.0, 710.0];
    const EXPM1_LOW: f64 = 38.0;
    const TANH_HIGH: f64 = 20.0;
    const EXP: &'static [f64] = &[
        0.5,
        0.166_666_666_666_666_7,
        0.041_666_666_666_666_67,
        0.008_333_333_333_326_112,
        0.001_388_888_888_888_373_2,
        0.000_198_412_698_749_012_6,
        0.000_024_801_587_325_605_323,
        2.755_725_529_796_964_4e-6,
        2.755_727_357_010_214e-7,
        2.510_525_953_844_849_3e-8,
        2.091_471_734_171_637_6e-9,
    ];
    const LN: &'static [f64] = &[
        0.666_666_666_666_666_97,
        0.399_999_999_998_991_98,
        0.285_714_286_261_145_18,
        0.222_222_111_121_049_47,
        0.181_828_907_780_261_3,
        0.153_316_666_765_971_74,
        0.146_171_283_998_073,
    ];
    const HALF: f64 = 0.5;
    const TWO: f64 = 2.0;
    const LIFT: [f64; 2] = [18_014_398_509_481_984.0, 54.0];

    #[inline(always)]
    fn pow2(rounded: f64) -> f64 {
        let k = rounded.to_bits().wrapping_sub(Self::ROUND.to_bits());
        f64::from_bits(k.wrapping_add(1023) << 52)
    }

    #[inline(always)]
    fn split(self) -> (f64, f64) {
        let up = self.to_bits().wrapping_sub(0x3fe6_a09e_667f_3bcd);
        let k = (up as i64 >> 52) as f64;
        (
            k,
            f64::from_bits((up & 0x000f_ffff_ffff_ffff) + 0x3fe6_a09e_667f_3bcd),
        )
    }
}

/// Elementary functions that vectorise; `_v` tells them from the standard library's.
///
/// ```
/// use emmy::real::Elementary;
/// assert!((1.0_f64.exp_v() - std::f64::consts::E).abs() < 1e-15);
/// assert_eq!(f32::NEG_INFINITY.exp_v(), 0.0);
/// ```
pub trait Elementary: Format {
    /// eˣ. Error below 1 unit in the last place.
    #[inline(always)]
    fn exp_v(self) -> Self {
        let x = clamp(self, Self::EXP_RANGE[0], Self::EXP_RANGE[1]);
        let (rounded, r, p) = exp_parts(x);
        // In two factors: 2ᵏ alone may be too large or too small for a normal number.
        let k = rounded - Self::ROUND;
        let first = k * Self::HALF + Self::ROUND;
        let second = k - (first - Self::ROUND) + Self::ROUND;
        let e = Self::one() + (r + p);
        e * Self::pow2(first) * Self::pow2(second)
    }

    /// eˣ − 1, accurate near 0 too. Error below 2 units in the last place.
    #[inline(always)]
    fn exp_m1_v(self) -> Self {
        let x = clamp(self, -Self::EXPM1_LOW, Self::EXP_RANGE[1]);
        let (rounded, r, p) = exp_parts(x);
        // 2ᵏ (eʳ − 1) + (2ᵏ − 1), halved: 2ᵏ may overflow where eˣ does not.
        let half = Self::pow2(rounded - Self::one());
        let y = (half * (r + p) + (half - Self::HALF)) * Self::TWO;
        // Keeps the sign of −0.
        if self == Self::zero() { self } else { y }
    }

    /// ln x; −∞ at 0, NaN for x < 0. Error below 1 unit in the last place.
    #[inline(always)]
    fn ln_v(self) -> Self {
        let tiny = self < Self::min_positive_value();
        let x = if tiny { self * Self::LIFT[0] } else { self };
        let (k, m) = x.split();
        let k = if tiny { k - Self::LIFT[1] } else { k };
        let f = m - Self::one();
        let s = f / (Self::TWO + f);
        let z = s * s;
        let half_square = Self::HALF * f * f;
        let tail = s * (half_square + z * horner(z, Self::LN)) + k * Self::LN2[1];
        let y = k * Self::LN2[0] - ((half_square - tail) - f);
        let y = if self < Self::infinity() { y } else { self };
        let y = if self == Self::zero() {
            Self::neg_infinity()
        } else {
            y
        };
        if self < Self::zero() { Self::nan() } else { y }
    }

    /// ln(1 + x), accurate near 0 too; −∞ at −1, NaN for x < −1. Error below 2 units in the last place.
    #[inline(always)]
    fn ln_1p_v(self) -> Self {
        let w = Self::one() + self;
        // The rounding error of 1 + x, to first order.
        let lost = (self - (w - Self::one())) / w;
        let y = w.ln_v();
        let finite = lost.abs() < Self::infinity();
        let y = if finite { y + lost } else { y };
        if self == Self::zero() { self } else { y }
    }

    /// tanh x. Error below 3 units in the last place.
    #[inline(always)]
    fn tanh_v(self) -> Self {
        let x = self.abs();
        let x = if x > Self::TANH_HIGH {
            Self::TANH_HIGH
        } else {
            x
        };
        let e = (x + x).exp_m1_v();
        let y = e / (e + Self::TWO);
        y.copysign(self)
    }

    /// 1 / (1 + e⁻ˣ), without overflow. Error below 3 units in the last place.
    #[inline(always)]
    fn sigmoid_v(self) -> Self {
        let e = (-self.abs()).exp_v();
        let over = if self < Self::zero() { e } else { Self::one() };
        over / (Self::one() + e)
    }

    /// The error function 2/√π ∫₀ˣ e^(−t²) dt. `f32` vectorises; `f64` is the C library's algorithm.
    fn erf_v(self) -> Self;
}

impl Elementary for f32 {
    #[inline(always)]
    fn erf_v(self) -> f32 {
        const NEAR: &[f32] = &[
            1.283_791_66e-1,
            -3.761_253_36e-1,
            1.128_199_25e-1,
            -2.676_813_49e-2,
            4.991_194_23e-3,
            -5.967_617_03e-4,
        ];
        const FAR: &[f32] = &[
            -1.287_175_12e-1,
            -6.348_469_87e-1,
            -1.067_778_77e-1,
            2.425_462_19e-2,
            -3.883_964_38e-3,
            3.831_971_26e-4,
            -1.728_534_7e-5,
        ];
        let t = self.abs();
        let t = if t > 4.0 { 4.0 } else { t };
        let near = self * horner(self * self, NEAR) + self;
        let far = (1.0 - (t * horner(t, FAR) - t).exp_v()).copysign(self);
        if self.abs() < 0.927_734_4 { near } else { far }
    }
}

impl Elementary for f64 {
    #[inline(always)]
    fn erf_v(self) -> f64 {
        libm::erf(self)
    }
}

/// x within low..high; NaN stays.
#[inline(always)]
fn clamp<F: Format>(x: F, low: F, high: F) -> F {
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}

/// x = k ln 2 + r: k + ROUND, r, and eʳ − 1 − r.
#[inline(always)]
fn exp_parts<F: Format>(x: F) -> (F, F, F) {
    let rounded = x * F::LOG2_E + F::ROUND;
    let k = rounded - F::ROUND;
    let r = x - k * F::LN2[0] - k * F::LN2[1];
    (rounded, r, r * r * horner(r, F::EXP))
}

/// Σ cₖ xᵏ.
#[inline(always)]
fn horner<F: Format>(x: F, c: &[F]) -> F {
    let (&last, rest) = c.split_last().expect("a polynomial has coefficients");
    rest.iter().rev().fold(last, |sum, &c| sum * x + c)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The distance of `got` from `exact` in units in the last place of `f32`; infinite where one is NaN or
    /// infinite and the other not.
    fn ulps32(got: f32, exact: f64) -> f64 {
        let rounded = exact as f32;
        if rounded.is_nan() && got.is_nan() || rounded == got {
            return 0.0;
        }
        let exponent = rounded.abs().max(f32::MIN_POSITIVE).to_bits() >> 23;
        let unit = 2_f64.powi(exponent as i32 - 150);
        let distance = (f64::from(got) - exact).abs() / unit;
        if distance.is_nan() {
            f64::INFINITY
        } else {
            distance
        }
    }

    /// The same in `f64`, against a result that is itself rounded.
    fn ulps64(got: f64, exact: f64) -> f64 {
        if exact.is_nan() && got.is_nan() || exact == got {
            return 0.0;
        }
        let exponent = exact.abs().max(f64::MIN_POSITIVE).to_bits() >> 52;
        let unit = f64::from_bits(exponent.saturating_sub(52).max(1) << 52).max(5e-324);
        let distance = (got - exact).abs() / unit;
        if distance.is_nan() {
            f64::INFINITY
        } else {
            distance
        }
    }

    /// Every 4099th bit pattern: all exponents, both signs, subnormal numbers, infinities, NaN.
    fn all_f32() -> impl Iterator<Item = f32> {
        (0..=u32::MAX).step_by(4099).map(f32::from_bits)
    }

    /// The same for `f64`, and numbers of everyday size.
    fn all_f64() -> impl Iterator<Item = f64> {
        let patterns =
            (0..1_000_000_u64).map(|k| f64::from_bits(k.wrapping_mul(18_446_744_073_709)));
        let usual = (0..400_000).map(|k| (f64::from(k) - 200_000.0) * 3.7e-3 + 1e-7);
        patterns.chain(usual)
    }

    /// Values at which a wrong sign or limit would hide between samples.
    const SPECIAL: [f64; 12] = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        1e-40,
        -1e-40,
        88.8,
        -103.9,
        -745.1,
    ];

    #[track_caller]
    fn check(
        name: &str,
        single: fn(f32) -> f32,
        double: fn(f64) -> f64,
        exact: fn(f64) -> f64,
        bound: f64,
    ) {
        let specials = SPECIAL.map(|x| x as f32);
        let (mut worst, mut at) = (0.0, 0.0);
        for x in all_f32().chain(specials) {
            let ulps = ulps32(single(x), exact(f64::from(x)));
            if ulps > worst {
                (worst, at) = (ulps, x);
            }
        }
        assert!(
            worst <= bound,
            "{name}({at}) is {} in f32, {worst} units off",
            single(at)
        );
        let (mut worst, mut at) = (0.0, 0.0);
        for x in all_f64().chain(SPECIAL) {
            let ulps = ulps64(double(x), exact(x));
            if ulps > worst {
                (worst, at) = (ulps, x);
            }
        }
        // The reference is itself rounded, and not always to the nearest.
        assert!(
            worst <= bound + 1.0,
            "{name}({at}) is {} in f64, {worst} units off",
            double(at)
        );
        for x in SPECIAL {
            let (found, expected) = (double(x), exact(x));
            assert!(
                found.is_nan() && expected.is_nan()
                    || found.is_sign_negative() == expected.is_sign_negative(),
                "{name}({x}): the sign of {found}"
            );
        }
    }

    #[test]
    fn errors_are_as_small_as_promised_over_all_numbers() {
        check("exp", f32::exp_v, f64::exp_v, f64::exp, 1.0);
        check("exp_m1", f32::exp_m1_v, f64::exp_m1_v, f64::exp_m1, 2.0);
        check("ln", f32::ln_v, f64::ln_v, f64::ln, 1.0);
        check("ln_1p", f32::ln_1p_v, f64::ln_1p_v, f64::ln_1p, 2.0);
        check("tanh", f32::tanh_v, f64::tanh_v, f64::tanh, 3.0);
        check("erf", f32::erf_v, f64::erf_v, libm::erf, 2.0);
        let sigmoid = |x: f64| {
            let e = (-x.abs()).exp();
            if x < 0.0 {
                e / (1.0 + e)
            } else {
                1.0 / (1.0 + e)
            }
        };
        check("sigmoid", f32::sigmoid_v, f64::sigmoid_v, sigmoid, 3.0);
    }
}
