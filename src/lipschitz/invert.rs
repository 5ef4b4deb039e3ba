//! The inverse of x + g(x), by a fixed-point iteration.

use crate::error::{Error, Result};
use crate::linalg::{Lp, Upper};
use crate::real::Real;
use crate::tensor::Tensor;

/// A solution of x + g(x) = y.
#[derive(Debug, Clone)]
pub struct Inverse<F> {
    /// x.
    pub x: Tensor<F>,
    /// Steps that were made.
    pub steps: usize,
    /// ‖x_k − x_{k−1}‖₂ of each step.
    pub residuals: Vec<f64>,
    /// A bound of ‖x − x*‖₂, in exact arithmetic: c/(1 − c) times the last step. Infinite if g is not
    /// certified.
    pub error: f64,
}

/// Solves x + g(x) = y by x ← y − g(x), for a g with a certified constant c < 1 in the 2-norm: Behrmann et
/// al., "Invertible Residual Networks", ICML 2019, Algorithm 1.
///
/// By Banach's theorem the error after k steps is at most cᵏ/(1 − c) times the first step, so the number of
/// steps is known in advance. The iteration ends as soon as c/(1 − c) times the last step is within
/// `tolerance`, or as small as the rounding of the values; in the latter case [`Inverse::error`] may be
/// larger than `tolerance`.
///
/// ```
/// use emmy::{lipschitz::{Upper, invert}, tensor::tensor};
/// let g = |x: &emmy::Tensor<f64>| x.mapv(|x| 0.5 * x.sin()).into_shared();
/// let x = tensor(&[2], vec![0.3, -2.0]);
/// let y = (&x + &g(&x)).into_shared();
/// let inverse = invert(g, &y, Upper::new(0.5), 1e-12)?;
/// assert!(inverse.x.iter().zip(x.iter()).all(|(a, b)| (a - b).abs() <= 1e-12));
/// # Ok::<(), emmy::Error>(())
/// ```
///
/// # Errors
/// If c is not below 1 (use [`iterate`] to try without a guarantee), or the values become NaN or infinite.
pub fn invert<F: Real>(
    g: impl Fn(&Tensor<F>) -> Tensor<F>,
    y: &Tensor<F>,
    constant: Upper,
    tolerance: f64,
) -> Result<Inverse<F>> {
    let c = constant.get();
    if c >= 1.0 {
        return Err(Error::invalid(
            "inverse of x + g(x)",
            "a g whose certified Lipschitz constant is below 1",
            format!("a constant of at most {c}: x + g(x) need not be invertible"),
        ));
    }
    let mut most = None;
    let mut inverse = start(y);
    let tiny = f64::EPSILON.max(F::epsilon().as_f64());
    loop {
        let size = advance(&g, y, &mut inverse)?;
        inverse.error = if c == 0.0 { 0.0 } else { c / (1.0 - c) * size };
        // The steps of exact arithmetic, and some more for rounding.
        let limit = *most.get_or_insert_with(|| steps_needed(c, size, tolerance) + 2);
        let scale = Lp::Two.of(inverse.x.iter().map(|x| x.as_f64()));
        let rounding = size <= 4.0 * tiny * scale;
        if inverse.error <= tolerance || rounding || inverse.steps >= limit {
            return Ok(inverse);
        }
    }
}

/// The least k with cᵏ/(1 − c) · first ≤ tolerance.
fn steps_needed(c: f64, first: f64, tolerance: f64) -> usize {
    if c == 0.0 || first == 0.0 {
        return 1;
    }
    let k = ((tolerance * (1.0 - c) / first).ln() / c.ln()).ceil();
    k.clamp(1.0, 1e9) as usize
}

/// The same iteration for any g: it makes `steps` steps, and guarantees nothing.
///
/// # Errors
/// If the values become NaN or infinite.
pub fn iterate<F: Real>(
    g: impl Fn(&Tensor<F>) -> Tensor<F>,
    y: &Tensor<F>,
    steps: usize,
) -> Result<Inverse<F>> {
    let mut inverse = start(y);
    for _ in 0..steps {
        advance(&g, y, &mut inverse)?;
    }
    Ok(inverse)
}

fn start<F: Real>(y: &Tensor<F>) -> Inverse<F> {
    Inverse {
        x: y.clone(),
        steps: 0,
        residuals: Vec::new(),
        error: f64::INFINITY,
    }
}

/// One step; returns its size.
fn advance<F: Real>(
    g: &impl Fn(&Tensor<F>) -> Tensor<F>,
    y: &Tensor<F>,
    inverse: &mut Inverse<F>,
) -> Result<f64> {
    let next = (y - &g(&inverse.x)).into_shared();
    let step = next.iter().zip(inverse.x.iter());
    let size = Lp::Two.of(step.map(|(a, b)| a.as_f64() - b.as_f64()));
    inverse.steps += 1;
    inverse.residuals.push(size);
    inverse.x = next;
    match size.is_finite() {
        true => Ok(size),
        false => Err(Error::invalid(
            format!("inverse of x + g(x): step {}", inverse.steps),
            "finite values",
            "values that are not",
        )),
    }
}
