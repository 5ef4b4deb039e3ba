//! Optimiser updates: one pass over a parameter, its gradient and its state, in place.
//!
//! | letter | meaning |
//! |---|---|
//! | p | parameter |
//! | g | gradient ∂L/∂p |
//! | λ | weight decay |
//! | η | learning rate |
//!
//! The arithmetic is PyTorch's, operation by operation.

use super::{LANES, fold, par, simd};
use crate::real::Real;

/// Elements in one block of a parallel update, and in one chunk of a sum of squares.
const CHUNK: usize = 1 << 15;

/// p ← p − η (g + λ p)
///
/// # Panics
/// If the lengths differ.
#[track_caller]
#[inline(never)]
pub fn descend<F: Real>(p: &mut [F], g: &[F], lr: F, decay: F) {
    blocks([p], g, |[p], g| {
        for (p, &g) in p.iter_mut().zip(g) {
            *p -= lr * (g + decay * *p);
        }
    });
}

/// The constants of one step with momentum.
#[derive(Debug, Clone, Copy)]
pub struct Momentum<F> {
    /// η
    pub lr: F,
    /// λ
    pub decay: F,
    /// μ, the share of the velocity that is kept
    pub momentum: F,
    /// Whether to look ahead.
    pub nesterov: bool,
}

/// d = g + λ p,   v ← μ v + d,   p ← p − η v,   or with Nesterov's look-ahead p ← p − η (d + μ v)
///
/// # Panics
/// If the lengths differ.
#[track_caller]
#[inline(never)]
pub fn momentum<F: Real>(p: &mut [F], v: &mut [F], g: &[F], c: Momentum<F>) {
    let ahead = if c.nesterov { c.momentum } else { F::zero() };
    blocks([p, v], g, |[p, v], g| {
        for ((p, v), &g) in p.iter_mut().zip(v).zip(g) {
            let d = g + c.decay * *p;
            *v = c.momentum * *v + d;
            let u = if c.nesterov { d + ahead * *v } else { *v };
            *p -= c.lr * u;
        }
    });
}

/// The constants of one step of Adam or AdamW.
#[derive(Debug, Clone, Copy)]
pub struct Adam<F> {
    /// η / (1 − β₁ᵗ)
    pub lr: F,
    /// λ of Adam; 0 in AdamW
    pub decay: F,
    /// 1 − η λ of AdamW; 1 in Adam
    pub shrink: F,
    /// 1 − β₁
    pub one_minus_beta1: F,
    /// β₂
    pub beta2: F,
    /// 1 − β₂
    pub one_minus_beta2: F,
    /// √(1 − β₂ᵗ)
    pub root: F,
    /// ε
    pub eps: F,
}

/// p ← (1 − η λ) p (AdamW),   d = g + λ p (Adam),   m ← β₁ m + (1 − β₁) d,   v ← β₂ v + (1 − β₂) d²,
/// p ← p − η m̂ / (√v̂ + ε)   with m̂ = m / (1 − β₁ᵗ), v̂ = v / (1 − β₂ᵗ)
///
/// # Panics
/// If the lengths differ.
#[track_caller]
#[inline(never)]
pub fn adam<F: Real>(p: &mut [F], m: &mut [F], v: &mut [F], g: &[F], c: Adam<F>) {
    blocks([p, m, v], g, |[p, m, v], g| {
        for (((p, m), v), &g) in p.iter_mut().zip(m).zip(v).zip(g) {
            let x = *p * c.shrink;
            let d = g + c.decay * x;
            *m += c.one_minus_beta1 * (d - *m);
            *v = c.beta2 * *v + c.one_minus_beta2 * d * d;
            *p = x - c.lr * *m / (v.sqrt() / c.root + c.eps);
        }
    });
}

/// Σ x², summed in `f64` in a fixed order.
#[inline(never)]
pub fn sum_of_squares<F: Real>(x: &[F]) -> f64 {
    let part = |x: &[F]| {
        simd(
            #[inline(always)]
            || {
                let mut lanes = [0.0_f64; LANES];
                let (rows, rest) = x.as_chunks::<LANES>();
                for row in rows {
                    for l in 0..LANES {
                        lanes[l] += row[l].as_f64() * row[l].as_f64();
                    }
                }
                for (lane, x) in lanes.iter_mut().zip(rest) {
                    *lane += x.as_f64() * x.as_f64();
                }
                fold(lanes)
            },
        )
    };
    if x.len() <= CHUNK {
        return part(x);
    }
    par::reduce(x.len(), CHUNK, 1, |r| part(&x[r]), |a, b| a + b).unwrap_or(0.0)
}

/// Runs an elementwise update over blocks, in parallel where that is worth a fork.
#[inline(always)]
#[track_caller]
fn blocks<F: Real, const N: usize>(
    written: [&mut [F]; N],
    g: &[F],
    f: impl Fn([&mut [F]; N], &[F]) + Sync,
) {
    let lengths = written.each_ref().map(|x| x.len());
    assert!(
        lengths.iter().all(|&n| n == g.len()),
        "update: parameter and state hold {lengths:?} elements, the gradient {}",
        g.len()
    );
    if g.len() < par::FORK {
        return simd(
            #[inline(always)]
            || f(written, g),
        );
    }
    let mut rests = written;
    let tasks = (g.chunks(CHUNK))
        .map(|g| {
            let parts = rests.each_mut().map(|rest| {
                rest.split_off_mut(..g.len())
                    .expect("as long as the gradient")
            });
            (parts, g)
        })
        .collect();
    par::map(tasks, g.len(), |(parts, g)| {
        simd(
            #[inline(always)]
            || f(parts, g),
        )
    });
}
