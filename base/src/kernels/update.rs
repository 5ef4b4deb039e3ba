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
