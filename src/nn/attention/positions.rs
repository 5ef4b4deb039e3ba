//! Positions that are added to tokens.

use crate::real::Real;
use crate::tensor::{Tensor, tensor};

/// P[i, 2p] = sin(i · 10000^(−2p/d)), P[i, 2p+1] = cos of the same, shape `[n, d]`: Vaswani et al.,
/// "Attention Is All You Need", NeurIPS 2017, Section 3.5. It has no parameters; an
/// [`Embedding`](crate::nn::Embedding) is a table of learnt positions.
pub fn sinusoidal<F: Real>(n: usize, d: usize) -> Tensor<F> {
    let value = |k: usize| {
        let (i, c) = (k / d, k % d);
        let angle = i as f64 * 10_000.0_f64.powf(-((c - c % 2) as f64) / d as f64);
        F::of(if c % 2 == 0 { angle.sin() } else { angle.cos() })
    };
    tensor(&[n, d], (0..n * d).map(value).collect())
}
