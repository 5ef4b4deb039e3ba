//! Every kernel at the sizes of Cora, `f32`, on one thread and on all, beside the floor of the hardware and a baseline.
//!
//! The floor is measured in the same run: multiply-adds at 0.7 of the peak rate, or bytes at the bandwidth of the caches, whichever takes
//! longer. Bytes are those of an entry and of the row of the dense operand it fetches, and the output once. Baselines: ndarray's product,
//! sprs's sparse product, a plain loop, or for fused attention the composition it stands for.
//!
//! `cargo bench --bench kernels` runs criterion and then prints the table; `-- --table` prints the table alone.

mod support;

use criterion::{Criterion, Throughput};
use emmy::autodiff::vjp;
use emmy::graph::generators::random_graph;
use emmy::kernels::attention::half_scores;
use emmy::kernels::{gemm, map, par, random, reduce, segment, softmax, spmm, update};
use emmy::ops::attention::EdgeAttention;
use emmy::tensor::{contiguous, memory};
use emmy::{Real, Tape, Tensor, init};
use std::hint::black_box;
use std::sync::Arc;
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

fn drop_buffer<F: Real>(x: Vec<F>) {
    memory::recycle_buffer(black_box(x));
}

fn kernels() -> Vec<Kernel> {
    let mut all = elementwise();
    all.extend(products());
    all.extend(sparse());
    all.extend(attention());
    all
}

fn elementwise() -> Vec<Kernel> {
    let (x, y, bias) = (normal(&[N, D], 1), normal(&[N, D], 2), normal(&[D], 3));
    let bytes = (4 * N * D) as f64;
    let logits = normal(&[N, 7], 4);
    let (mut p, g) = (normal(&[WORDS * D], 5), normal(&[WORDS * D], 6));
    let (mut m, mut v) = (vec![0.0_f32; p.len()], vec![0.0_f32; p.len()]);
    let adam = update::Adam {
        lr: 1e-9,
        decay: 0.0,
        shrink: 1.0,
        one_minus_beta1: 0.1,
        beta2: 0.999,
        one_minus_beta2: 0.001,
        root: 1.0,
        eps: 1e-8,
    };
    let parameters = p.len();
    let [x0, x1, x2, x3, x4, x5] = std::array::from_fn(|_| x.clone());
    let plain = x.clone();
    vec![
        Kernel::new("relu", 0.0, 2.0 * bytes, move || {
            drop_tensor(map::unary(&x0, |x| if x > 0.0 { x } else { 0.0 }))
        })
        .against(move || {
            black_box(plain.mapv(|x: f32| if x > 0.0 { x } else { 0.0 }));
        }),
        Kernel::new("exp", 0.0, 2.0 * bytes, move || {
            use emmy::real::Elementary;
            drop_tensor(map::unary(&x1, f32::exp_v));
        })
        .against(move || {
            black_box(x2.mapv(f32::exp));
        }),
        Kernel::new("add", 0.0, 3.0 * bytes, move || {
            drop_tensor(map::binary("add", &x3, &y, |a, b| a + b))
        }),
        Kernel::new("add bias", 0.0, 2.0 * bytes, move || {
            drop_tensor(map::binary("add", &x4, &bias, |a, b| a + b))
        }),
        Kernel::new("dropout 0.6", 0.0, 2.0 * bytes, move || {
            drop_tensor(random::dropout(&x5, 0.6, 1))
        }),
        {
            let (a, b) = (x.clone(), x.clone());
            Kernel::new("sum over rows", 0.0, bytes, move || {
                drop_tensor(reduce::sum(&a, &[0]))
            })
            .against(move || {
                black_box(b.sum_axis(ndarray::Axis(0)));
            })
        },
        {
            let a = x.clone();
            Kernel::new("max over columns", 0.0, bytes, move || {
                drop_tensor(reduce::max(&a, &[1]))
            })
        },
        {
            let a = x.clone();
            Kernel::new("min over rows", 0.0, bytes, move || {
                drop_tensor(reduce::min(&a, &[0]))
            })
        },
        {
            let logits = logits.clone();
            Kernel::new("logsumexp, 7 classes", 0.0, (4 * N * 8) as f64, move || {
                drop_buffer(softmax::logsumexp_rows(logits.as_slice().unwrap(), &[], 7));
            })
        },
        {
            let (mut p, mut v, g) = (
                normal(&[WORDS * D], 7),
                vec![0.0_f32; WORDS * D],
                normal(&[WORDS * D], 8),
            );
            let momentum = update::Momentum {
                lr: 1e-9,
                decay: 0.0,
                momentum: 0.9,
                nesterov: true,
            };
            Kernel::new(
                "momentum, 1433 × 64",
                0.0,
                (20 * WORDS * D) as f64,
                move || {
                    update::momentum(
                        p.as_slice_mut().unwrap(),
                        &mut v,
                        g.as_slice().unwrap(),
                        momentum,
                    );
                },
            )
        },
        {
            let (mut p, g) = (normal(&[WORDS * D], 7), normal(&[WORDS * D], 8));
            Kernel::new(
                "plain descent, 1433 × 64",
                0.0,
                (12 * WORDS * D) as f64,
                move || {
                    update::descend(p.as_slice_mut().unwrap(), g.as_slice().unwrap(), 1e-9, 0.0);
                },
            )
        },
        Kernel::new("softmax, 7 classes", 0.0, (8 * N * 7) as f64, move || {
            drop_buffer(softmax::softmax_rows(logits.as_slice().unwrap(), &[], 7));
        }),
        Kernel::new(
            "Adam, 1433 × 64",
            0.0,
            (28 * parameters) as f64,
            move || {
                update::adam(
                    p.as_slice_mut().unwrap(),
                    &mut m,
                    &mut v,
                    g.as_slice().unwrap(),
                    adam,
                );
            },
        ),
    ]
}

fn products() -> Vec<Kernel> {
    let product = |name: &str, a: Tensor<f32>, b: Tensor<f32>| {
        let flops = 2.0 * (a.shape()[0] * a.shape()[1] * b.shape()[1]) as f64;
        let two = |x: &Tensor<f32>| x.clone().into_dimensionality::<ndarray::Ix2>().unwrap();
        let (c, d) = (two(&a), two(&b));
        Kernel::new(name, flops, 0.0, move || {
            drop_tensor(gemm::matmul_batched(&a, &b))
        })
        .against(move || {
            black_box(c.dot(&d));
        })
    };
    let x = normal(&[N, D], 1);
    let w = normal(&[D, D], 2);
    vec![
        product(
            "x Wᵀ: 2708×64 · 64×64",
            x.clone(),
            w.clone().reversed_axes(),
        ),
        product("ȳ W: 2708×64 · 64×64", x.clone(), w.clone()),
        product(
            "ȳᵀ x: 64×2708 · 2708×64",
            x.clone().reversed_axes(),
            x.clone(),
        ),
        product(
            "dense features: 2708×1433 · 1433×64",
            normal(&[N, WORDS], 3),
            normal(&[WORDS, D], 4),
        ),
        product("64×64 · 64×64", w.clone(), w),
        product("512³", normal(&[512, 512], 5), normal(&[512, 512], 6)),
    ]
}

fn sparse() -> Vec<Kernel> {
    let graph = random_graph(N, PAIRS, 1);
    let adjacency = graph.gcn_norm::<f32>();
    let pattern = &adjacency.pattern;
    let edges = pattern.nnz();
    let (x, y) = (normal(&[N, D], 1), normal(&[N, D], 2));
    let values = adjacency.values.clone();
    let row = 4.0 * D as f64;
    let pass = edges as f64 * (8.0 + row) + N as f64 * row;
    let slice = |x: &Tensor<f32>| x.as_slice().unwrap().to_vec();
    let (xs, ys, vs) = (slice(&x), slice(&y), slice(&values.clone().into_dyn()));
    let per_edge = slice(&normal(&[edges, D], 3));
    let scores = slice(&normal(&[edges, 8], 4));
    let features = {
        let mut places: Vec<(usize, usize)> = (0..STORED)
            .map(|k| (k % N, (k * 7919 + k / N * 31) % WORDS))
            .collect();
        places.sort_unstable();
        places.dedup();
        emmy::sparse::Pattern::from_pairs(N, WORDS, &places).unwrap()
    };
    let stored = features.nnz() as f64;
    let weight = slice(&normal(&[WORDS, D], 5));
    let ones = vec![1.0_f32; features.nnz()];
    let sprs = adjacency.to_sprs();
    let dense = x.clone().into_dimensionality::<ndarray::Ix2>().unwrap();
    let p = || Arc::clone(pattern);
    macro_rules! with {
        ($($name:ident = $value:expr),* => $body:expr) => {{ $(let $name = $value.clone();)* move || $body }};
    }
    vec![
        Kernel::new(
            "spmm, 64 wide",
            2.0 * (edges * D) as f64,
            pass,
            with!(p = p(), vs = vs, xs = xs => drop_buffer(spmm::spmm(&p, &vs, &xs, 1, D))),
        )
        .against(move || {
            black_box(&sprs * &dense);
        }),
        Kernel::new(
            "spmmᵀ, 64 wide",
            2.0 * (edges * D) as f64,
            pass,
            with!(p = p(), vs = vs, xs = xs => drop_buffer(spmm::spmm_t(&p, &vs, &xs, 1, D))),
        ),
        Kernel::new(
            "sddmm, 64 wide",
            2.0 * (edges * D) as f64,
            pass,
            with!(p = p(), xs = xs, ys = ys => drop_buffer(spmm::sddmm(&p, &xs, &ys, 1, D))),
        ),
        Kernel::new(
            "sparse features · W",
            2.0 * stored * D as f64,
            stored * (8.0 + row) + N as f64 * row,
            with!(p = features, v = ones, w = weight => drop_buffer(spmm::spmm(&p, &v, &w, 1, D))),
        ),
        Kernel::new(
            "sparse featuresᵀ · ȳ",
            2.0 * stored * D as f64,
            stored * (8.0 + row) + WORDS as f64 * row,
            with!(p = features, v = ones, y = ys => drop_buffer(spmm::spmm_t(&p, &v, &y, 1, D))),
        ),
        Kernel::new(
            "gather rows",
            0.0,
            edges as f64 * 2.0 * row,
            with!(p = p(), xs = xs => drop_buffer(segment::gather_rows(&p, &xs, D))),
        ),
        Kernel::new(
            "segment sum",
            0.0,
            edges as f64 * row + N as f64 * row,
            with!(p = p(), v = per_edge => drop_buffer(segment::segment_sum(&p, &v, D))),
        ),
        Kernel::new(
            "segment max",
            0.0,
            edges as f64 * row + N as f64 * row,
            with!(p = p(), v = per_edge => drop_buffer(segment::segment_max(&p, &v, D))),
        ),
        Kernel::new(
            "gather columns",
            0.0,
            edges as f64 * 2.0 * row,
            with!(p = p(), xs = xs => drop_buffer(segment::gather_cols(&p, &xs, D))),
        ),
        Kernel::new(
            "segment sum over columns",
            0.0,
            edges as f64 * row + N as f64 * row,
            with!(p = p(), v = per_edge => drop_buffer(segment::segment_sum_t(&p, &v, D))),
        ),
        Kernel::new(
            "segment softmax, 8 heads",
            0.0,
            edges as f64 * 64.0,
            with!(p = p(), v = scores => drop_buffer(segment::segment_softmax(&p, &v, 8))),
        ),
    ]
}

fn attention() -> Vec<Kernel> {
    let pattern = Arc::clone(random_graph(N, PAIRS, 1).with_self_loops().pattern());
    let edges = pattern.nnz() as f64;
    let mut all = Vec::new();
    for (heads, width) in [(1, 64), (8, 8)] {
        let row = 4.0 * D as f64;
        let pass = edges * (4.0 + 4.0 * heads as f64 + row) + N as f64 * row;
        for version in [1, 2] {
            let attention = EdgeAttention::<f32> {
                pattern: Arc::clone(&pattern),
                slope: 0.2,
                dropout: None,
            };
            let z = normal(&[N, heads, width], 1);
            let (a, b) = (normal(&[heads, width], 2), normal(&[heads, width], 3));
            let gy = normal(&[N, heads, width], 4);
            let step = move |fused: bool, backward: bool| {
                let tape = Tape::new();
                let (z, a, b) = (
                    tape.var(z.clone()),
                    tape.var(a.clone()),
                    tape.var(b.clone()),
                );
                let (y, operands) = match (version, fused) {
                    (1, true) => (attention.gat(z, a, b), vec![z, a, b]),
                    (_, true) => (attention.gatv2(z, z, a), vec![z, a]),
                    (1, false) => {
                        let alpha = attention.gat_coefficients(z, a, b);
                        (
                            emmy::ops::sparse::spmm(&attention.pattern, alpha, z),
                            vec![z, a, b],
                        )
                    }
                    (_, false) => {
                        let alpha = attention.gatv2_coefficients(z, z, a);
                        (
                            emmy::ops::sparse::spmm(&attention.pattern, alpha, z),
                            vec![z, a],
                        )
                    }
                };
                if backward {
                    vjp(y, &operands, &gy).into_iter().for_each(drop_tensor);
                }
            };
            let name = if version == 1 { "GAT" } else { "GATv2" };
            for (what, backward, passes) in
                [("forward", false, 1.0), ("forward and backward", true, 3.0)]
            {
                let (run, plain) = (step.clone(), step.clone());
                let title = format!("{name} {heads} × {width}, {what}");
                all.push(
                    Kernel::new(title, 0.0, passes * pass, move || run(true, backward))
                        .against(move || plain(false, backward)),
                );
            }
        }
    }
    let (z, a) = (normal(&[N, D], 10), normal(&[D], 11));
    all.push(Kernel::new(
        "half of a GAT score, 8 × 8",
        0.0,
        (4 * N * (D + 8)) as f64,
        move || {
            drop_buffer(half_scores(z.as_slice().unwrap(), a.as_slice().unwrap(), 8));
        },
    ));
    let w = normal(&[D, WORDS], 9);
    all.push(Kernel::new(
        "transpose of 64 × 1433",
        0.0,
        (8 * D * WORDS) as f64,
        move || {
            drop_tensor(contiguous(&w.clone().reversed_axes()));
        },
    ));
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
