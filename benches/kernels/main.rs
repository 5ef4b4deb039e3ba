//! Every kernel at the sizes of Cora, `f32`, on one thread and on all, beside the floor of the hardware and a baseline.
//!
//! The floor is measured in the same run: multiply-adds at 0.7 of the peak rate, or bytes at the bandwidth of the caches, whichever takes
//! longer. Bytes are those of an entry and of the row of the dense operand it fetches, and the output once. Baselines: ndarray's product,
//! sprs's sparse product, a plain loop, or for fused attention the composition it stands for.
//!
//! `cargo bench --bench kernels` runs criterion and then prints the table; `-- --table` prints the table alone.

mod attention;
mod elementwise;
mod products;
mod sparse;
#[path = "../support/mod.rs"]
mod support;

use criterion::{Criterion, Throughput};
use emmy::kernels::par;
use emmy::tensor::memory;
use emmy::{Real, Tensor, init};
use std::hint::black_box;
use std::time::Instant;
use support::Limits;

/// Nodes, width, entries of the features: Cora's.
const N: usize = 2708;
const D: usize = 64;
const WORDS: usize = 1433;
const STORED: usize = 49_216;
const PAIRS: usize = 5278;

/// A kernel with its work: floating-point operations in products, bytes of everything else.
struct Kernel {
    name: String,
    flops: f64,
    bytes: f64,
    run: Box<dyn FnMut() + Send>,
    baseline: Option<Box<dyn FnMut() + Send>>,
}

impl Kernel {
    fn new(
        name: impl Into<String>,
        flops: f64,
        bytes: f64,
        run: impl FnMut() + Send + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            flops,
            bytes,
            run: Box::new(run),
            baseline: None,
        }
    }

    fn against(mut self, baseline: impl FnMut() + Send + 'static) -> Self {
        self.baseline = Some(Box::new(baseline));
        self
    }

    fn floor(&self, limits: Limits) -> f64 {
        (self.flops / (0.7 * limits.flops)).max(self.bytes / limits.cache)
    }
}

fn normal(shape: &[usize], seed: u64) -> Tensor<f32> {
    init::normal(shape, 1.0, &mut init::rng(seed))
}

fn drop_tensor<F: Real>(x: Tensor<F>) {
    memory::recycle(black_box(x));
}

fn kernels() -> Vec<Kernel> {
    let mut all = elementwise::kernels();
    all.extend(products::kernels());
    all.extend(sparse::kernels());
    all.extend(attention::kernels());
    all
}

fn main() {
    let table_alone = std::env::args().any(|arg| arg == "--table");
    let all = std::thread::available_parallelism().map_or(1, usize::from);
    if !table_alone {
        let mut criterion = Criterion::default().configure_from_args();
        for threads in [1, all] {
            let mut group = criterion.benchmark_group(format!("{threads} threads"));
            for Kernel {
                name,
                flops,
                bytes,
                mut run,
                ..
            } in kernels()
            {
                group.throughput(match flops {
                    0.0 => Throughput::Bytes(bytes as u64),
                    _ => Throughput::Elements(flops as u64),
                });
                group.bench_function(name, |b| {
                    b.iter_custom(|times| {
                        par::with_threads(threads, || {
                            let start = Instant::now();
                            (0..times).for_each(|_| run());
                            start.elapsed()
                        })
                    })
                });
            }
        }
        criterion.final_summary();
    }
    for threads in [1, all] {
        par::with_threads(threads, || table(threads));
    }
}

fn table(threads: usize) {
    let limits = Limits::measure();
    println!(
        "\n{threads} threads: peak {:.0} GFLOP/s, caches {:.0} GB/s, memory {:.0} GB/s\n",
        limits.flops / 1e9,
        limits.cache / 1e9,
        limits.memory / 1e9
    );
    println!("| kernel | µs | floor µs | times floor | times faster than baseline |");
    println!("|---|---:|---:|---:|---:|");
    for mut kernel in kernels() {
        let (best, _) = support::time(30, 0.05, &mut kernel.run);
        let floor = kernel.floor(limits);
        let gain = (kernel.baseline.as_mut()).map_or("–".to_owned(), |baseline| {
            let (plain, _) = support::time(10, 0.05, baseline);
            format!("{:.1}", plain / best)
        });
        println!(
            "| {} | {:.1} | {:.1} | {:.1} | {gain} |",
            kernel.name,
            best * 1e6,
            floor * 1e6,
            best / floor
        );
    }
}
