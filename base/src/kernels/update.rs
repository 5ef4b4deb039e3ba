//! Optimiser updates: one pass over a parameter, its gradient and its state, in place. The formulas are
//! those of the rules in `emmy::optim`.

use super::{LANES, fold, padded, par, simd};
use crate::real::Real;

/// Elements in one block of a parallel update, and in one chunk of a sum of squares.
const CHUNK: usize = 1 << 15;

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
                let rest = padded(rest);
                for l in 0..LANES {
                    lanes[l] += rest[l].as_f64() * rest[l].as_f64();
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

/// Runs an elementwise update over blocks, in parallel where that is worth a fork, with the vectors that
/// the processor has. `f` gets the same part of each slice; a loop over the elements of these parts is all
/// that it needs. Each element is computed on its own, so the numbers are the same on any number of
/// threads.
///
/// ```
/// use emmy::optim::blocks;
/// let (mut p, g) = ([1.0, 2.0, 3.0], [10.0, 20.0, 30.0]);
/// blocks([&mut p], &g, |[p], g| {
///     for i in 0..g.len() {
///         p[i] -= 0.1 * g[i];
///     }
/// });
/// assert_eq!(p, [0.0, 0.0, 0.0]);
/// ```
///
/// # Panics
/// If the lengths differ.
#[inline(always)]
#[track_caller]
pub fn blocks<F: Real, const N: usize>(
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

/// The constants of a step of [`adam`], computed in `f64` and rounded once.
#[derive(Debug, Clone, Copy)]
pub struct AdamStep<F> {
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

/// p ← shrink · p, then Adam's update with the means m and v. The arithmetic is PyTorch's, operation by
/// operation.
///
/// # Panics
/// If the lengths differ.
#[inline(never)]
pub fn adam<F: Real>(p: &mut [F], g: &[F], [m, v]: [&mut [F]; 2], c: AdamStep<F>) {
    blocks([p, m, v], g, |[p, m, v], g| {
        for i in 0..p.len().min(m.len()).min(v.len()).min(g.len()) {
            let x = p[i] * c.shrink;
            let d = g[i] + c.decay * x;
            m[i] += c.one_minus_beta1 * (d - m[i]);
            v[i] = c.beta2 * v[i] + c.one_minus_beta2 * d * d;
            p[i] = x - c.lr * m[i] / (v[i].sqrt() / c.root + c.eps);
        }
    });
}

/// p ← p − η (g + λ p)
///
/// # Panics
/// If the lengths differ.
#[inline(never)]
pub fn sgd<F: Real>(p: &mut [F], g: &[F], [lr, decay]: [F; 2]) {
    blocks([p], g, |[p], g| {
        for i in 0..p.len().min(g.len()) {
            p[i] -= lr * (g[i] + decay * p[i]);
        }
    });
}

/// v ← μ v + d with d = g + λ p, then p ← p − η v; if `ahead` is not 0, p ← p − η (d + ahead v).
///
/// # Panics
/// If the lengths differ.
#[inline(never)]
pub fn momentum<F: Real>(p: &mut [F], v: &mut [F], g: &[F], [lr, decay, mu, ahead]: [F; 4]) {
    let looks_ahead = ahead != F::zero();
    blocks([p, v], g, |[p, v], g| {
        for i in 0..p.len().min(v.len()).min(g.len()) {
            let d = g[i] + decay * p[i];
            v[i] = mu * v[i] + d;
            // The sum before the choice: what is read only in one case keeps AVX2 from its vectors.
            let next = d + ahead * v[i];
            p[i] -= lr * if looks_ahead { next } else { v[i] };
        }
    });
}

/// m ← m + (1 − μ) (g − m),   u = g + ahead · (m − g)
///
/// # Panics
/// If the lengths differ.
#[inline(never)]
pub fn average<F: Real>(m: &mut [F], u: &mut [F], g: &[F], [one_minus_mu, ahead]: [F; 2]) {
    blocks([m, u], g, |[m, u], g| {
        for i in 0..m.len().min(u.len()).min(g.len()) {
            m[i] += one_minus_mu * (g[i] - m[i]);
            u[i] = g[i] + ahead * (m[i] - g[i]);
        }
    });
}

/// p ← c p + d o
///
/// # Panics
/// If the lengths differ.
#[inline(never)]
pub fn combine<F: Real>(p: &mut [F], o: &[F], [c, d]: [F; 2]) {
    blocks([p], o, |[p], o| {
        for i in 0..p.len().min(o.len()) {
            p[i] = c * p[i] + d * o[i];
        }
    });
}
