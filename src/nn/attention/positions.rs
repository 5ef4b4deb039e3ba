//! Positions that are added to tokens.

use crate::real::Real;
use crate::tensor::{Tensor, tensor};

/// P[i, 2p] = sin(i · 10000^(−2p/d)), P[i, 2p+1] = cos of the same, shape `[n, d]`: Vaswani et al.,
/// "Attention Is All You Need", NeurIPS 2017, Section 3.5. It has no parameters; an
/// [`Embedding`](crate::nn::Embedding) is a table of learnt positions.
///
/// ```
/// let p = emmy::nn::sinusoidal::<f64>(2, 4);
/// // Position 0 has sin 0 and cos 0; position 1 has the angles 1 and 1/100.
/// let expected = [0.0, 1.0, 0.0, 1.0, 1_f64.sin(), 1_f64.cos(), 0.01_f64.sin(), 0.01_f64.cos()];
/// assert!(p.iter().zip(expected).all(|(p, e)| (p - e).abs() < 1e-12));
/// ```
pub fn sinusoidal<F: Real>(n: usize, d: usize) -> Tensor<F> {
    let value = |k: usize| {
        let (i, c) = (k / d, k % d);
        let angle = i as f64 * 10_000.0_f64.powf(-((c - c % 2) as f64) / d as f64);
        F::of(if c % 2 == 0 { angle.sin() } else { angle.cos() })
    };
    tensor(&[n, d], (0..n * d).map(value).collect())
}
