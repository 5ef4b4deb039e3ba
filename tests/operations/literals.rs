//! Numbers beside variables.

use emmy::autodiff::{Tape, Var};
use emmy::real::Real;

/// Literals on either side, and methods on the result, for a type that is not known.
fn mixed<F: Real>(x: Var<'_, F>) -> Var<'_, F> {
    (0.5 * x).exp() + (1.0 - x).sin() + (1.0 / x).ln() + (2.0 + x * F::of(3.0)).sqrt()
}

/// The same numbers on the right.
fn right<F: Real>(x: Var<'_, F>) -> Var<'_, F> {
    (x * 0.5).exp() + (-(x - 1.0)).sin() + (x / 1.0).powf(-F::one()).ln() + (x * 3.0 + 2.0).sqrt()
}

#[test]
fn literals_stand_on_both_sides_for_every_type() {
    let expected = 1.0_f64.exp() + (-1.0_f64).sin() + 0.5_f64.ln() + 8.0_f64.sqrt();
    let (double, single) = (Tape::new(), Tape::new());
    let (x, z) = (double.scalar(2.0_f64), single.scalar(2.0_f32));
    for (x, z) in [(mixed(x), mixed(z)), (right(x), right(z))] {
        assert!((x.item() - expected).abs() < 1e-15);
        assert!((z.item() - expected as f32).abs() < 1e-6);
    }
    // A number of the type itself is not rounded.
    let third = z * (1.0_f32 / 3.0) + (z / 2.0_f32);
    assert_eq!(third.item(), 2.0_f32 * (1.0 / 3.0) + 1.0);
    let concrete = (0.5 * z).exp() + (1.0 - z * 1.0).sin();
    assert!((concrete.item() - (1.0_f32.exp() + (-1.0_f32).sin())).abs() < 1e-6);
}
