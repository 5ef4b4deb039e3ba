//! Errors of the elementary functions, in units of the last place.
#![allow(
    clippy::excessive_precision,
    reason = "constants as they were computed, with 50 digits"
)]

use emmy::real::Elementary;

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
    let patterns = (0..1_000_000_u64).map(|k| f64::from_bits(k.wrapping_mul(18_446_744_073_709)));
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
#[ignore = "takes seconds: cargo test -- --include-ignored"]
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
    let (single, double) = (f32::normal_cdf_v, f64::normal_cdf_v);
    check("normal_cdf", single, double, normal_cdf, 8.0);
    let (single, double) = (f32::normal_density_v, f64::normal_density_v);
    check("normal_density", single, double, normal_density, 3.0);
}

/// The rounding error of z = x/√2: times z it is far larger than that of a result.
fn lost(x: f64, z: f64) -> f64 {
    let lost = x.mul_add(std::f64::consts::FRAC_1_SQRT_2, -z) - x * 4.833_646_656_726_457e-17;
    if lost.is_finite() { lost } else { 0.0 }
}

/// ½ erfc(−x/√2), corrected to first order for the rounding of x/√2.
fn normal_cdf(x: f64) -> f64 {
    let z = -x * std::f64::consts::FRAC_1_SQRT_2;
    let y = libm::erfc(z);
    // −erfc'(z) / erfc(z), which far out is 2 z.
    let slope = match z {
        z if z > 20.0 => 2.0 * z.min(40.0),
        z => std::f64::consts::FRAC_2_SQRT_PI * (-z * z).exp() / y,
    };
    0.5 * (y - y * (slope * lost(-x, z)))
}

/// e^(−x²/2)/√(2π), the exponent in two parts.
fn normal_density(x: f64) -> f64 {
    let high = -0.5 * x * x;
    let low = (-0.5 * x).mul_add(x, -high);
    let low = if low.is_finite() { low } else { 0.0 };
    high.exp() * (1.0 + low) * 0.398_942_280_401_432_68
}

#[test]
fn the_normal_distribution_is_accurate_far_out_and_exact_at_its_centre_and_ends() {
    // Computed with 50 digits.
    for (x, exact) in [
        (-0.5_f64, 0.308_537_538_725_986_896_36),
        (-1.0, 0.158_655_253_931_457_051_41),
        (-3.0, 0.001_349_898_031_630_094_526_7),
        (-6.5, 4.016_000_583_859_117_808_3e-11),
        (-10.0, 7.619_853_024_160_526_066e-24),
        (-20.25, 1.776_199_864_949_570_030_9e-91),
        (-30.125, 1.140_227_940_852_347_643_4e-199),
        (-37.25, 5.297_888_779_927_268_840_3e-304),
    ] {
        let found = x.normal_cdf_v();
        assert!((found / exact - 1.0).abs() < 1e-15, "Φ({x}) is {found}");
    }
    for zero in [0.0, -0.0] {
        assert_eq!(
            (0.5, 0.5),
            (zero.normal_cdf_v(), (zero as f32).normal_cdf_v())
        );
    }
    for far in [40.0, 1e300, f64::INFINITY] {
        assert_eq!((far.normal_cdf_v(), (-far).normal_cdf_v()), (1.0, 0.0));
        assert_eq!(
            ((far as f32).normal_cdf_v(), (-far as f32).normal_cdf_v()),
            (1.0, 0.0)
        );
    }
    // The last results above 0.
    assert_eq!((-38.48_f64).normal_cdf_v(), f64::from_bits(1));
    assert_eq!((-38.5_f64).normal_cdf_v(), 0.0);
    assert_eq!((-38.4_f64).normal_cdf_v(), 6.601_599_854_326_768e-323);
}
