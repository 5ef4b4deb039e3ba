//! Random tensors, drawn from a seeded generator one number after the other.

use crate::real::Real;
use crate::tensor::{Tensor, memory};
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, StandardNormal};

/// The generator behind all initialisers: ChaCha with 8 rounds, the same numbers on every machine.
pub type Rng = rand::rngs::ChaCha8Rng;

/// A generator from a seed.
pub fn rng(seed: u64) -> Rng {
    Rng::seed_from_u64(seed)
}

/// Independent draws from N(0, std²).
#[inline(never)]
pub fn normal<F: Real>(shape: &[usize], std: f64, rng: &mut Rng) -> Tensor<F> {
    draw(shape, || std * gauss(rng))
}

/// Independent draws from U(−bound, bound).
#[inline(never)]
pub fn uniform<F: Real>(shape: &[usize], bound: f64, rng: &mut Rng) -> Tensor<F> {
    draw(shape, || bound * (2.0 * rng.random::<f64>() - 1.0))
}

/// From 2048 numbers on, the memory begins at a line of the cache, as that of a kernel's result does, so
/// products read a weight faster.
fn draw<F: Real>(shape: &[usize], mut next: impl FnMut() -> f64) -> Tensor<F> {
    let mut out = memory::scratch(shape.iter().product());
    for x in out.iter_mut() {
        *x = F::of(next());
    }
    out.into_tensor(shape)
}

/// One draw from N(0, 1).
pub fn gauss(rng: &mut Rng) -> f64 {
    StandardNormal.sample(rng)
}
