//! The slopes of functions of one number.

use super::rows::about;
use crate::ops::activation::GELU_SLOPES;
use crate::real::Real;
use std::cmp::Ordering;

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

/// The interval of slopes as a function of the argument: of one slope, of its rounding error, or at a kink of
/// the two one-sided slopes. `limits` are those of a clamp.
pub(super) fn slopes_at(
    op: &str,
    c: f64,
    limits: Option<[f64; 2]>,
) -> Option<Box<dyn Fn(f64) -> [f64; 2]>> {
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let density = |x: f64| (-0.5 * x * x).exp() / std::f64::consts::TAU.sqrt();
    let bent = |below: f64, above: f64| {
        move |x: f64| match x.partial_cmp(&0.0) {
            Some(Ordering::Greater) => [above; 2],
            Some(Ordering::Less) => [below; 2],
            Some(Ordering::Equal) => [below.min(above), below.max(above)],
            None => [f64::NAN; 2],
        }
    };
    let smooth: Box<dyn Fn(f64) -> f64> = match op {
        "relu" => return Some(Box::new(bent(0.0, 1.0))),
        "leaky_relu" => return Some(Box::new(bent(c, 1.0))),
        "abs" => return Some(Box::new(bent(-1.0, 1.0))),
        "clamp" => {
            let [low, high] = limits?;
            return Some(Box::new(move |x| match () {
                () if x.is_nan() => [f64::NAN; 2],
                () if low < x && x < high => [1.0; 2],
                () if x < low || x > high || low == high => [0.0; 2],
                () => [0.0, 1.0],
            }));
        }
        "elu" => {
            let kink = bent(c, 1.0);
            return Some(Box::new(move |x| match x < 0.0 {
                true => about(c * x.exp()),
                false => kink(x),
            }));
        }
        "tanh" => Box::new(|x| 1.0 / x.cosh().powi(2)),
        "softplus" => Box::new(sigmoid),
        "sigmoid" => Box::new(move |x| sigmoid(x) * sigmoid(-x)),
        "normal_cdf" => Box::new(density),
        "gelu" => Box::new(move |x| distribution(x) + x * density(x)),
        "sin" => Box::new(f64::cos),
        "cos" => Box::new(|x| -x.sin()),
        "exp" => Box::new(f64::exp),
        "ln" => Box::new(f64::recip),
        "sqrt" => Box::new(|x| 0.5 / x.sqrt()),
        "powf" => Box::new(move |x| c * x.powf(c - 1.0)),
        _ => return None,
    };
    Some(Box::new(move |x| about(smooth(x))))
}
