//! Rotary positions: each plane of a row is turned by an angle that grows with the position of the row.

use super::par;
use crate::real::Real;
use crate::tensor::memory::{self, Buffer};

/// The planes of tokens, in a tensor [B, n, H, d] with d even.
#[derive(Debug, Clone, Copy)]
pub struct Rotary {
    /// [n, H, d].
    pub shape: [usize; 3],
    /// The position of the first of the n tokens.
    pub start: usize,
    /// Plane p turns by base^(−2p/d) per position.
    pub base: f64,
    /// 1, or −1 to turn back.
    pub direction: f64,
}

impl Rotary {
    /// The turned x.
    #[inline(never)]
    pub fn apply<F: Real>(&self, x: &[F]) -> Buffer<F> {
        let [n, heads, d] = self.shape;
        let mut out = memory::scratch(x.len());
        if x.is_empty() {
            return out;
        }
        // In f64: at position 10⁵ an angle in f32 would be off by a hundredth.
        let turns: Vec<[F; 2]> = (0..n * d / 2)
            .map(|k| {
                let (i, p) = (k / (d / 2), k % (d / 2));
                let speed = self.base.powf(-2.0 * p as f64 / d as f64);
                let (sin, cos) = (self.direction * (self.start + i) as f64 * speed).sin_cos();
                [F::of(cos), F::of(sin)]
            })
            .collect();
        par::rows(&mut out, heads * d, 4 * heads * d, |first, block| {
            let rows = block.chunks_exact_mut(heads * d).enumerate();
            for (row, out) in rows {
                let turns = &turns[(first + row) % n * (d / 2)..][..d / 2];
                let x = &x[(first + row) * heads * d..][..heads * d];
                for h in 0..heads {
                    let x = x[h * d..][..d].as_chunks::<2>().0;
                    let out = out[h * d..][..d].as_chunks_mut::<2>().0;
                    for k in 0..turns.len().min(x.len()).min(out.len()) {
                        let ([a, b], [cos, sin]) = (x[k], turns[k]);
                        out[k] = [a * cos - b * sin, a * sin + b * cos];
                    }
                }
            }
        });
        out
    }
}
