//! Every kernel at the sizes of Cora, `f32`, on one thread and on all, beside the floor of the hardware and a
//! baseline.
//!
//! The floor is measured in the same run: multiply-adds at 0.7 of the peak rate, or bytes at the bandwidth of
//! the caches, whichever takes longer. Bytes are those of an entry and of the row of the dense operand it
//! fetches, and the output once. Baselines are ndarray's product, sprs's sparse product, a plain loop, or for
//! fused attention the composition that it replaces. Every time is the best of at least ten runs.
//!
//! `cargo bench --bench kernels` prints the table; `-- --only 1024` the rows with that in their names.

mod attention;
mod elementwise;
mod norms;
mod products;
mod recurrent;
mod sparse;
#[path = "../support/mod.rs"]
mod support;

use emmy::kernels::par;
use emmy::tensor::memory;
use emmy::{Real, Tensor, init};
use std::hint::black_box;
use support::Limits;
use support::options::{self, list, value};

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

const HELP: &str = "Time every kernel beside its floor and a baseline

  --threads <N,..>  Numbers of threads [default: 1 and one per processor]
  --only <TEXT>     Rows whose names contain this
  --seconds <S>     Seconds per measurement, at least [default: 0.05]";

struct Cli {
    threads: Vec<usize>,
    only: String,
    seconds: f64,
}

impl Cli {
    fn chooses(&self, kernel: &Kernel) -> bool {
        kernel.name.contains(&self.only)
    }

    fn parse() -> Self {
        let mut cli = Self {
            threads: vec![1, processors()],
            only: String::new(),
            seconds: 0.05,
        };
        options::read(HELP, |name, parser| {
            match name {
                "threads" => cli.threads = list(parser)?,
                "only" => cli.only = value(parser)?,
                "seconds" => cli.seconds = value(parser)?,
                _ => return Ok(false),
            }
            Ok(true)
        });
        cli
    }
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
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
    all.extend(recurrent::kernels());
    all.extend(norms::kernels());
    all
}

fn main() {
    let cli = Cli::parse();
    if !kernels().iter().any(|kernel| cli.chooses(kernel)) {
        eprintln!("error: --only {}: no row has this in its name", cli.only);
        std::process::exit(2);
    }
    for threads in cli.threads.clone() {
        par::with_threads(threads, || table(threads, &cli));
    }
}

fn table(threads: usize, cli: &Cli) {
    let limits = Limits::measure();
    println!(
        "\n{threads} threads: peak {:.0} GFLOP/s, caches {:.0} GB/s, memory {:.0} GB/s\n",
        limits.flops / 1e9,
        limits.cache / 1e9,
        limits.memory / 1e9
    );
    println!("| kernel | µs | floor µs | times floor | times faster than baseline (one thread) |");
    println!("|---|---:|---:|---:|---:|");
    for mut kernel in kernels().into_iter().filter(|kernel| cli.chooses(kernel)) {
        let (best, _) = support::time(30, cli.seconds, &mut kernel.run);
        let floor = kernel.floor(limits);
        let gain = (kernel.baseline.as_mut()).map_or("–".to_owned(), |baseline| {
            let (plain, _) = support::time(30, cli.seconds, baseline);
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
