//! Normalisation of rows: by mean and deviation (LayerNorm), or by the root of the mean square alone
//! (RMSNorm).
//!
//! | letter | shape | meaning |
//! |---|---|---|
//! | x, y | n × w | the matrix and the output, row by row |
//! | μ | n | the mean of each row; 0 for RMSNorm |
//! | r | n | 1 / √(mean (x − μ)² + ε) |
//! | z | n × w | (x − μ) r |
//! | γ, β | w | gain and bias; 1 and 0 if they are absent |
//!
//! y = γ z + β;   x̄ = r (γ ȳ − mean γ ȳ − z mean γ ȳ z), without the first mean for RMSNorm;   γ̄ = Σ ȳ z
//! and β̄ = Σ ȳ over the rows.
//!
//! A row is read more than once, but from the memory once: it stays in the first cache.

use super::accumulate;
use super::{LANES, fold, padded, par, simd};
use crate::real::Real;
use crate::tensor::memory::{self, Buffer};

/// Rows whose terms of γ̄ and β̄ are summed in order before the sum is added to that of the rows before.
const RUN: usize = 64;

/// Elements of one task.
const CHUNK: usize = 1 << 15;

/// Elementary operations per element, for the decision to go parallel.
const COST: usize = 4;

/// The norm and its parameters.
#[derive(Debug, Clone, Copy)]
pub struct RowNorm<'a, F> {
    /// w.
    pub width: usize,
    /// Whether μ is the mean of the row, as in LayerNorm, not 0.
    pub centred: bool,
    /// ε.
    pub eps: F,
    /// γ.
    pub gain: Option<&'a [F]>,
    /// β.
    pub bias: Option<&'a [F]>,
}

/// The adjoints of the operands.
#[derive(Debug)]
pub struct Adjoints<F: Real> {
    /// x̄.
    pub x: Buffer<F>,
    /// γ̄; empty if it was not asked for, as β̄.
    pub gain: Vec<F>,
    /// β̄.
    pub bias: Vec<F>,
}

impl<F: Real> RowNorm<'_, F> {
    /// y; and μ and r of each row, side by side, for [`backward`](Self::backward).
    #[inline(never)]
    pub fn forward(&self, x: &[F]) -> (Buffer<F>, Buffer<F>) {
        let w = self.width;
        let rows = x.len().checked_div(w).unwrap_or(0);
        let (mut y, mut moments) = (memory::scratch(x.len()), memory::scratch(2 * rows));
        let (ones, zeros) = (vec![F::one(); w], vec![F::zero(); w]);
        let gain = self.gain.unwrap_or(&ones);
        let bias = self.bias.unwrap_or(&zeros);
        let chunk = (CHUNK / w.max(1)).max(1);
        let size = chunk * w.max(1);
        let parts = x.chunks(size).zip(y.chunks_mut(size));
        let tasks = parts.zip(moments.chunks_mut(2 * chunk)).collect();
        par::map(tasks, COST * x.len(), |((x, y), moments)| {
            simd(
                #[inline(always)]
                || self.write([x, gain, bias], y, moments),
            )
        });
        (y, moments)
    }

    /// y, μ and r of some rows.
    #[inline(always)]
    fn write(&self, [x, gain, bias]: [&[F]; 3], y: &mut [F], moments: &mut [F]) {
        let w = self.width;
        let (gain, bias) = (&gain[..w], &bias[..w]);
        for (k, y) in y.chunks_exact_mut(w).enumerate() {
            let x = &x[k * w..][..w];
            let (mean, r) = self.moments(x);
            moments[2 * k] = mean;
            moments[2 * k + 1] = r;
            for i in 0..w {
                y[i] = (x[i] - mean) * r * gain[i] + bias[i];
            }
        }
    }

    /// μ and r of a row.
    #[inline(always)]
    fn moments(&self, x: &[F]) -> (F, F) {
        let share = F::of(self.width as f64).recip();
        let mean = match self.centred {
            true => sum::<F, false>(x, F::zero()) * share,
            false => F::zero(),
        };
        let variance = sum::<F, true>(x, mean) * share;
        (mean, (variance + self.eps).sqrt().recip())
    }

    /// The adjoints from ȳ, with the `moments` that [`forward`](Self::forward) returned; those of γ and β
    /// only with `parameters`.
    #[inline(never)]
    pub fn backward(&self, x: &[F], moments: &[F], gy: &[F], parameters: bool) -> Adjoints<F> {
        let w = self.width;
        let mut gx = memory::scratch(x.len());
        let ones = vec![F::one(); w];
        let gain = self.gain.unwrap_or(&ones);
        // Whole runs, so that the order of the sums does not depend on the number of chunks.
        let chunk = (CHUNK / w.max(1)).max(1).next_multiple_of(RUN);
        let size = chunk * w.max(1);
        let parts = gx.chunks_mut(size).zip(x.chunks(size)).zip(gy.chunks(size));
        let tasks = parts.zip(moments.chunks(2 * chunk)).collect();
        let sums = par::map(tasks, 2 * COST * x.len(), |(((gx, x), gy), moments)| {
            let part = RowChunk {
                x,
                gy,
                moments,
                gain,
                centred: self.centred,
            };
            simd(
                #[inline(always)]
                || match parameters {
                    true => part.backward::<true>(gx),
                    false => part.backward::<false>(gx),
                },
            )
        });
        let mut out = Adjoints {
            x: gx,
            gain: vec![F::zero(); if parameters { w } else { 0 }],
            bias: vec![F::zero(); if parameters { w } else { 0 }],
        };
        for (gain, bias) in sums {
            accumulate(&mut out.gain, &gain);
            accumulate(&mut out.bias, &bias);
        }
        out
    }
}

/// Some rows.
struct RowChunk<'a, F> {
    x: &'a [F],
    gy: &'a [F],
    moments: &'a [F],
    gain: &'a [F],
    centred: bool,
}

impl<F: Real> RowChunk<'_, F> {
    /// Writes x̄; the sums of γ̄ and β̄ over these rows, with `P`.
    #[inline(always)]
    fn backward<const P: bool>(&self, gx: &mut [F]) -> (Vec<F>, Vec<F>) {
        let w = self.gain.len();
        let len = if P { w } else { 0 };
        let (mut gain, mut bias) = (vec![F::zero(); len], vec![F::zero(); len]);
        let (mut run_gain, mut run_bias) = (gain.clone(), bias.clone());
        let share = F::of(w as f64).recip();
        let row_gain = self.gain;
        for (run, gx) in gx.chunks_mut(RUN * w).enumerate() {
            run_gain.fill(F::zero());
            run_bias.fill(F::zero());
            for (k, gx) in gx.chunks_exact_mut(w).enumerate() {
                let k = run * RUN + k;
                let (x, gy) = (&self.x[k * w..][..w], &self.gy[k * w..][..w]);
                let (mean, r) = (self.moments[2 * k], self.moments[2 * k + 1]);
                let run = [&mut run_gain[..], &mut run_bias];
                let [along, total] = sums::<F, P>(x, gy, row_gain, [mean, r], run);
                let along = along * share;
                let total = if self.centred {
                    total * share
                } else {
                    F::zero()
                };
                for i in 0..w {
                    let scaled = gy[i] * row_gain[i];
                    gx[i] = r * (scaled - total - (x[i] - mean) * r * along);
                }
            }
            accumulate(&mut gain, &run_gain);
            accumulate(&mut bias, &run_bias);
        }
        (gain, bias)
    }
}

/// Σ γ ȳ z and Σ γ ȳ over a row. With `P` the same loop adds the terms of γ̄ and β̄ to `run`, so that each
/// number is loaded once.
#[inline(always)]
fn sums<F: Real, const P: bool>(
    x: &[F],
    gy: &[F],
    gain: &[F],
    [mean, r]: [F; 2],
    run: [&mut [F]; 2],
) -> [F; 2] {
    let (x, x_rest) = x.as_chunks::<LANES>();
    let (gy, gy_rest) = gy.as_chunks::<LANES>();
    let (gain, gain_rest) = gain.as_chunks::<LANES>();
    let [run_gain, run_bias] = run;
    let (run_gain, run_gain_rest) = run_gain.as_chunks_mut::<LANES>();
    let (run_bias, run_bias_rest) = run_bias.as_chunks_mut::<LANES>();
    let (mut along, mut total) = ([F::zero(); LANES], [F::zero(); LANES]);
    for k in 0..x.len() {
        let (x, gy, gain) = (&x[k], &gy[k], &gain[k]);
        for l in 0..LANES {
            let g = gy[l] * gain[l];
            total[l] += g;
            along[l] += g * ((x[l] - mean) * r);
        }
        if P {
            // Copies, which overlap with nothing.
            let (mut of_gain, mut of_bias) = (run_gain[k], run_bias[k]);
            for l in 0..LANES {
                of_gain[l] += gy[l] * ((x[l] - mean) * r);
                of_bias[l] += gy[l];
            }
            (run_gain[k], run_bias[k]) = (of_gain, of_bias);
        }
    }
    if !x_rest.is_empty() {
        let (x, gy, gain) = (padded(x_rest), padded(gy_rest), padded(gain_rest));
        for l in 0..LANES {
            let inside = l < x_rest.len();
            let (z, g) = ((x[l] - mean) * r, gy[l] * gain[l]);
            total[l] += if inside { g } else { F::zero() };
            along[l] += if inside { g * z } else { F::zero() };
        }
        if P {
            for l in 0..x_rest.len() {
                run_gain_rest[l] += gy_rest[l] * ((x_rest[l] - mean) * r);
                run_bias_rest[l] += gy_rest[l];
            }
        }
    }
    [fold(along), fold(total)]
}

/// Σ (x − mean) over a row, or the sum of the squares.
#[inline(always)]
fn sum<F: Real, const SQUARED: bool>(x: &[F], mean: F) -> F {
    let (x, rest) = x.as_chunks::<LANES>();
    let mut lanes = [F::zero(); LANES];
    for x in x {
        for l in 0..LANES {
            let x = x[l] - mean;
            lanes[l] += if SQUARED { x * x } else { x };
        }
    }
    if !rest.is_empty() {
        let x = padded(rest);
        for l in 0..LANES {
            let x = x[l] - mean;
            let term = if SQUARED { x * x } else { x };
            lanes[l] += if l < rest.len() { term } else { F::zero() };
        }
    }
    fold(lanes)
}
