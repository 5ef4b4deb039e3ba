//! The slopes of functions of one number.

use crate::ops::activation::GELU_SLOPES;
use crate::real::Real;

/// The smallest and the largest slope of a function of one number, rounded outward.
pub(super) fn slopes(op: &str, c: f64) -> Option<[f64; 2]> {
    Some(match op {
        "relu" | "tanh" | "softplus" | "clamp" => [0.0, 1.0],
        "leaky_relu" => [c.min(1.0), c.max(1.0)],
        "elu" if c >= 0.0 => [0.0, c.max(1.0)],
        "sigmoid" => [0.0, 0.25],
        "normal_cdf" => [0.0, 0.398_942_3],
        "gelu" => GELU_SLOPES,
        "sin" | "cos" => [-1.0, 1.0],
        _ => return None,
    })
}

/// Φ(x).
fn distribution<F: Real>(x: F) -> F {
    x.normal_cdf_v()
}

/// The slope as a function of the argument.
pub(super) fn slope_at(op: &str, c: f64) -> Option<Box<dyn Fn(f64) -> f64>> {
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let density = |x: f64| (-0.5 * x * x).exp() / std::f64::consts::TAU.sqrt();
    Some(match op {
        "relu" => Box::new(|x| f64::from(x > 0.0)),
        "clamp" => Box::new(|_| 1.0),
        "leaky_relu" => Box::new(move |x| if x > 0.0 { 1.0 } else { c }),
        "elu" => Box::new(move |x| if x > 0.0 { 1.0 } else { c * x.exp() }),
        "tanh" => Box::new(|x| 1.0 / x.cosh().powi(2)),
        "softplus" => Box::new(sigmoid),
        "sigmoid" => Box::new(move |x| sigmoid(x) * sigmoid(-x)),
        "normal_cdf" => Box::new(density),
        "gelu" => Box::new(move |x| distribution(x) + x * density(x)),
        "sin" => Box::new(f64::cos),
        "cos" => Box::new(f64::sin),
        "exp" => Box::new(f64::exp),
        "ln" => Box::new(f64::recip),
        "sqrt" => Box::new(|x| 0.5 / x.sqrt()),
        "powf" => Box::new(move |x| c * x.powf(c - 1.0)),
        _ => return None,
    })
}
