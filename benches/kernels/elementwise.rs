//! What goes over its operands once: maps, reductions, softmax of rows, selections, updates of parameters,
//! transposition.

use crate::{D, Kernel, N, WORDS, drop_tensor, normal};
use emmy::Tape;
use emmy::kernels::{map, random, reduce, softmax};
use emmy::optim::{Algorithm, Optimizer, Sgd};
use emmy::tensor::{contiguous, tensor};
use std::hint::black_box;

pub fn kernels() -> Vec<Kernel> {
    let (x, y, bias) = (normal(&[N, D], 1), normal(&[N, D], 2), normal(&[D], 3));
    let bytes = (4 * N * D) as f64;
    let logits = normal(&[N, 7], 4);
    let momentum = Sgd {
        momentum: 0.9,
        nesterov: true,
    };
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
                black_box(softmax::logsumexp_rows(logits.as_slice().unwrap(), 7));
            })
        },
        update("momentum", Algorithm::Sgd(momentum), 20),
        update("plain descent", Algorithm::SGD, 12),
        {
            let logits = logits.clone();
            let name = "log-softmax, 7 classes";
            Kernel::new(name, 0.0, (8 * N * 7) as f64, move || {
                black_box(softmax::log_softmax_rows(logits.as_slice().unwrap(), 7));
            })
        },
        Kernel::new("softmax, 7 classes", 0.0, (8 * N * 7) as f64, move || {
            black_box(softmax::softmax_rows(logits.as_slice().unwrap(), 7));
        }),
        gelu(),
        masked_softmax(),
        index_select(),
        index_add(),
        update("Adam", Algorithm::ADAM, 28),
        update("Muon", Algorithm::MUON, 28),
        {
            let w = normal(&[D, WORDS], 9);
            Kernel::new(
                "transpose of 64 × 1433",
                0.0,
                (8 * D * WORDS) as f64,
                move || {
                    drop_tensor(contiguous(&w.clone().reversed_axes()));
                },
            )
        },
    ]
}

/// One step of an optimiser for a matrix, which touches so many bytes per number; with Muon, also the
/// products of five steps of Newton–Schulz.
fn update(name: &str, algorithm: Algorithm, bytes: usize) -> Kernel {
    let (mut p, g) = (normal(&[WORDS, D], 7), normal(&[WORDS, D], 8));
    let mut optimizer = Optimizer::new(algorithm);
    let work = match algorithm {
        Algorithm::Muon(muon) => muon.steps * 2 * D * D * (2 * WORDS + D),
        _ => 0,
    };
    let name = format!("{name}, 1433 × 64");
    Kernel::new(name, work as f64, (bytes * WORDS * D) as f64, move || {
        optimizer.step([&mut p], std::slice::from_ref(&g), 1e-9);
    })
}

/// Operations rather than kernels from here on: what a user calls, on a tape of its own.
fn gelu() -> Kernel {
    let x = normal(&[320, 128], 10);
    let y = x.clone();
    let bytes = (8 * x.len()) as f64;
    Kernel::new("GELU, 41 000 numbers", 0.0, bytes, move || {
        drop_tensor(Tape::new().constant(x.clone()).gelu().value())
    })
    .against(move || {
        let cdf = |x: f32| 0.5 * libm::erfc(-f64::from(x) * std::f64::consts::FRAC_1_SQRT_2);
        black_box(y.mapv(|x| x * cdf(x) as f32));
    })
}

/// Against the softmax without a mask.
fn masked_softmax() -> Kernel {
    let x = normal(&[4, 101, 101], 11);
    let y = x.clone();
    let mask = tensor(&[101, 101], (0..101 * 101).map(|k| k % 5 != 2).collect());
    let bytes = (8 * x.len()) as f64;
    let name = "softmax with a broadcast mask, 4 × 101 × 101";
    Kernel::new(name, 0.0, bytes, move || {
        let tape = Tape::new();
        let x = tape.constant(x.clone());
        drop_tensor(x.softmax_masked(-1, &mask).value())
    })
    .against(move || drop_tensor(Tape::new().constant(y.clone()).softmax(-1).value()))
}

/// Against ndarray's.
fn index_select() -> Kernel {
    let x = normal(&[N, 32], 12);
    let y = x.clone();
    let rows: Vec<usize> = (0..320).map(|k| k * 7919 % N).collect();
    let same = rows.clone();
    let bytes = (8 * 320 * 32) as f64;
    Kernel::new("index select, 320 rows of 32", 0.0, bytes, move || {
        let tape = Tape::new();
        let x = tape.constant(x.clone());
        drop_tensor(x.index_select(0, rows.clone()).value())
    })
    .against(move || {
        black_box(y.select(ndarray::Axis(0), &same));
    })
}

fn index_add() -> Kernel {
    let x = normal(&[320, 32], 13);
    let rows: Vec<usize> = (0..320).map(|k| k * 7919 % N).collect();
    let bytes = (4 * (2 * 320 + N) * 32) as f64;
    Kernel::new("index add, 320 rows of 32", 0.0, bytes, move || {
        let tape = Tape::new();
        let x = tape.constant(x.clone());
        drop_tensor(x.index_add(0, rows.clone(), N).value())
    })
}
