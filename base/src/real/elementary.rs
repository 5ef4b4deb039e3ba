//! Elementary functions without branches or tables, so that loops over them are vectorised. The standard
//! library's are calls into the C library, one number at a time.
//!
//! Each reduces its argument to a small interval, evaluates a polynomial there and scales back. The
//! polynomials interpolate at Chebyshev nodes; that of the logarithm is applied to s = f/(2 + f) as in Sun's
//! fdlibm, that of `f32` erf is N. Juffa's, and those of the normal distribution are printed by
//! `tests/fixtures/normal_cdf.py`. Errors are below 3 units in the last place, those of the normal
//! distribution below 9 (tested against the standard library in `f64`), and every function is correct at ±0,
//! ±∞, NaN and where it overflows or underflows, subnormal results included.

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
    /// (a + K) e^(a²/2) Φ(−a) in even and in odd powers of w, for 0 ≤ a ≤ TAIL_END; see `TAIL_MAP`. Φ is the
    /// distribution function of the standard normal.
    const TAIL: [&'static [Self]; 2];
    /// K and α in w = (α a − K)/(a + K), which lies in −1..1.
    const TAIL_MAP: [Self; 2];
    /// Beyond it, Φ(−a) rounds to 0.
    const TAIL_END: Self;
    /// Adding it, and taking it off again, leaves half the digits of a number up to `TAIL_END`: its square is
    /// then exact.
    const HALVES: Self;
    /// 1/√(2π)
    const DENSITY: Self;
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
    const TAIL: [&'static [f32]; 2] = [
        &[
            0.893_940_923_326_813_6,
            0.328_995_593_104_435_9,
            0.026_790_244_728_447_85,
            -0.001_419_944_785_629_509,
            6.933_512_610_094_012e-5,
        ],
        &[
            -0.629_695_872_848_743_9,
            -0.121_452_029_955_371,
            -0.000_686_980_967_900_138_4,
            0.000_228_487_815_588_121_1,
            -1.746_472_101_595_3e-5,
        ],
    ];
    const TAIL_MAP: [f32; 2] = [4.0, 1.5];
    const TAIL_END: f32 = 16.0;
    const HALVES: f32 = 49_152.0;
    const DENSITY: f32 = 0.398_942_280_401_432_68;
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
    const TAIL: [&'static [f64]; 2] = [
        &[
            0.849_695_771_717_720_430_04,
            0.484_374_984_142_828_287,
            0.129_481_650_750_595_582_31,
            0.011_238_259_242_247_341_778,
            -0.000_531_352_141_400_722_987_58,
            4.026_921_234_328_850_780_5e-6,
            1.981_450_149_243_297_247_2e-6,
            -3.142_297_400_125_000_973_3e-7,
            3.741_391_976_327_651_730_8e-8,
            -3.821_693_694_312_815_002_8e-9,
            3.044_608_358_441_469_499_9e-10,
            -1.354_190_774_955_595_738_6e-11,
        ],
        &[
            -0.700_464_927_168_312_945_21,
            -0.278_119_481_958_667_821_56,
            -0.046_439_848_471_167_912_351,
            -0.000_892_235_998_311_500_243_38,
            0.000_198_361_495_330_997_841_78,
            -0.000_018_309_490_479_282_254_114,
            1.631_585_958_678_798_309_2e-6,
            -1.656_107_572_471_656_016_9e-7,
            1.945_894_773_364_445_259_2e-8,
            -2.285_383_069_074_705_766e-9,
            1.796_218_476_934_955_455_4e-10,
        ],
    ];
    const TAIL_MAP: [f64; 2] = [5.0, 1.25];
    const TAIL_END: f64 = 40.0;
    const HALVES: f64 = 6_442_450_944.0;
    const DENSITY: f64 = 0.398_942_280_401_432_68;
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
        let [first, second] = halves(rounded - Self::ROUND);
        let e = Self::one() + (r + p);
        e * first * second
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

    /// Φ(x) = ½ erfc(−x/√2), the distribution function of the standard normal. Relative error below
    /// 4·10⁻⁷ in `f32` and 10⁻¹⁵ in `f64`, in the lower tail too.
    #[inline(always)]
    fn normal_cdf_v(self) -> Self {
        let (a, gauss) = gauss_parts(self);
        let [k, alpha] = Self::TAIL_MAP;
        let inverse = (a + k).recip();
        let w = (alpha * a - k) * inverse;
        // In two parts: a loop over 23 coefficients is not unrolled, and then not vectorised.
        let (even, odd) = (horner(w * w, Self::TAIL[0]), horner(w * w, Self::TAIL[1]));
        let tail = gauss.times((even + w * odd) * inverse);
        if self > Self::zero() {
            Self::one() - tail
        } else {
            tail
        }
    }

    /// φ(x) = e^(−x²/2) / √(2π), the density of the standard normal. Error below 3 units in the last place.
    #[inline(always)]
    fn normal_density_v(self) -> Self {
        gauss_parts(self).1.times(Self::DENSITY)
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

/// m · 2ⁱ · 2ʲ. In two factors: one alone may be too small for a normal number, and the result is rounded
/// only once if it is too small itself.
struct Scaled<F> {
    m: F,
    powers: [F; 2],
}

impl<F: Format> Scaled<F> {
    #[inline(always)]
    fn times(self, c: F) -> F {
        self.m * c * self.powers[0] * self.powers[1]
    }
}

/// a = |x|, at most `TAIL_END`, and e^(−a²/2). With h, half of the digits of a, −a²/2 is
/// −h²/2 + (h − a)(h + a)/2. The first part is exact, so that the relative error stays small far out.
#[inline(always)]
fn gauss_parts<F: Format>(x: F) -> (F, Scaled<F>) {
    let a = x.abs();
    let a = if a > F::TAIL_END { F::TAIL_END } else { a };
    let h = (a + F::HALVES) - F::HALVES;
    let high = -(F::HALF * h * h);
    let low = F::HALF * (h - a) * (h + a);
    let rounded = high * F::LOG2_E + F::ROUND;
    let k = rounded - F::ROUND;
    let r = (high - k * F::LN2[0]) + (low - k * F::LN2[1]);
    let m = F::one() + (r + r * r * horner(r, F::EXP));
    let powers = halves(k);
    (a, Scaled { m, powers })
}

/// 2ᵏ in two factors that are normal numbers.
#[inline(always)]
fn halves<F: Format>(k: F) -> [F; 2] {
    let first = k * F::HALF + F::ROUND;
    let second = k - (first - F::ROUND) + F::ROUND;
    [F::pow2(first), F::pow2(second)]
}

/// Σ cₖ xᵏ.
#[inline(always)]
fn horner<F: Format>(x: F, c: &[F]) -> F {
    let mut k = c.len() - 1;
    let mut sum = c[k];
    while k > 0 {
        k -= 1;
        sum = sum * x + c[k];
    }
    sum
}
