//! The hardware's limits, measured in the same run as what is held against them.
#![allow(dead_code, reason = "each bench uses the part it needs")]

pub mod options;

use rayon::prelude::*;
use std::hint::black_box;
use std::time::Instant;

/// What this machine can do with the threads of the current pool.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Multiply-adds from registers alone, in floating-point operations a second (two each), `f32`.
    pub flops: f64,
    /// Bytes a second read and written by a loop over two arrays of the size of Cora's hidden features, 2708 × 64: they lie in the caches.
    pub cache: f64,
    /// The same from main memory.
    pub memory: f64,
}

impl Limits {
    /// Measures for about half a second.
    pub fn measure() -> Self {
        Self {
            flops: best(20, peak),
            cache: best(100, || stream(2708 * 64)),
            memory: best(5, || stream(16 << 20)),
        }
    }
}

/// Bytes per second from main memory, of arrays that no cache holds: 512 MiB on each thread.
pub fn memory() -> f64 {
    best(5, || stream(64 << 20))
}

/// The largest of several measurements: noise only ever takes away.
fn best(times: usize, f: impl Fn() -> f64) -> f64 {
    (0..times).map(|_| f()).fold(0.0, f64::max)
}

/// Operations a second of multiply-adds on values that never leave the registers, on every thread.
fn peak() -> f64 {
    let threads = rayon::current_num_threads();
    let start = Instant::now();
    let operations: usize = (0..threads)
        .into_par_iter()
        .with_max_len(1)
        .map(|_| emmy::kernels::dispatch(Chains))
        .sum();
    operations as f64 / start.elapsed().as_secs_f64()
}

/// Independent chains of x ← a x + b, enough of them to hide the latency of one. Says how many operations that was.
struct Chains;

impl pulp::WithSimd for Chains {
    type Output = usize;

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, simd: S) -> usize {
        const CHAINS: usize = 12;
        const ROUNDS: usize = 200_000;
        let (a, b) = (
            simd.splat_f32s(black_box(0.999)),
            simd.splat_f32s(black_box(0.001)),
        );
        let mut x = [simd.splat_f32s(1.0); CHAINS];
        for _ in 0..ROUNDS {
            for x in &mut x {
                *x = simd.mul_add_e_f32s(*x, a, b);
            }
        }
        black_box(x);
        2 * CHAINS * ROUNDS * (size_of_val(&x[0]) / size_of::<f32>())
    }
}

/// Bytes a second of y ← y + a x over `len` numbers on every thread: two read, one written.
fn stream(len: usize) -> f64 {
    let threads = rayon::current_num_threads();
    let mut arrays: Vec<_> = (0..threads)
        .map(|_| (vec![1.0_f32; len], vec![0.5_f32; len]))
        .collect();
    let rounds = ((8 << 20) / len).max(1);
    let start = Instant::now();
    arrays.par_iter_mut().with_max_len(1).for_each(|(x, y)| {
        emmy::kernels::dispatch(
            #[inline(always)]
            || {
                for _ in 0..rounds {
                    for (y, x) in y.iter_mut().zip(black_box(&*x)) {
                        *y += 0.5 * x;
                    }
                }
            },
        );
        black_box(y);
    });
    (12 * len * rounds * threads) as f64 / start.elapsed().as_secs_f64()
}

/// Seconds that `f` takes: minimum and median over at least `times` runs and `seconds` of them.
pub fn time(times: usize, seconds: f64, mut f: impl FnMut()) -> (f64, f64) {
    f();
    let mut samples = Vec::new();
    let begin = Instant::now();
    while samples.len() < times || begin.elapsed().as_secs_f64() < seconds {
        let start = Instant::now();
        f();
        samples.push(start.elapsed().as_secs_f64());
    }
    samples.sort_by(f64::total_cmp);
    (samples[0], samples[samples.len() / 2])
}

/// Bytes of this process, where the system tells (Linux): `VmRSS`, resident now, or `VmHWM`, the most that
/// was resident so far, or since [`forget_peak`].
pub fn resident(name: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with(name))?;
    let kibibytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(1024 * kibibytes)
}

/// Lets `VmHWM` begin anew with what is resident now.
pub fn forget_peak() {
    // Elsewhere than on Linux there is no such file, and no `VmHWM`.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}
