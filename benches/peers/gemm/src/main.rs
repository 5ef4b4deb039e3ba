//! Times of dense products in `f32`: emmy and the gemm crate compute each product in turns, and the least time
//! of each counts. The argument is the number of threads.
//!
//! An operand that is marked with ᵀ is the transpose of one that lies in memory row by row.

use emmy::kernels::{draw, gemm, par};
use emmy::ndarray::{ArrayView2, Ix2};
use gemm_common::Parallelism;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// m, k, n, and whether a and b are transposes.
const SHAPES: [([usize; 3], [bool; 2]); 34] = [
    ([64, 64, 64], [false, false]),
    ([128, 128, 128], [false, false]),
    ([256, 256, 256], [false, false]),
    ([512, 512, 512], [false, false]),
    ([1024, 1024, 1024], [false, false]),
    ([2048, 2048, 2048], [false, false]),
    ([2708, 64, 64], [false, true]),
    ([2708, 64, 64], [false, false]),
    ([64, 2708, 64], [true, false]),
    ([2708, 1433, 64], [false, false]),
    ([2708, 64, 7], [false, true]),
    ([64, 2708, 7], [true, false]),
    ([2048, 512, 512], [false, true]),
    ([2048, 512, 2048], [false, true]),
    ([2048, 2048, 512], [false, true]),
    ([512, 2048, 2048], [true, false]),
    ([2048, 2048, 512], [true, false]),
    ([768, 128, 512], [false, true]),
    ([512, 768, 128], [true, false]),
    ([12, 128, 512], [false, true]),
    ([1, 128, 512], [false, true]),
    ([1, 512, 128], [false, true]),
    ([2, 128, 512], [false, true]),
    ([4, 128, 512], [false, true]),
    ([1, 2048, 2048], [false, true]),
    ([1, 128, 64], [false, false]),
    ([1, 128, 512], [false, false]),
    ([2, 128, 512], [false, false]),
    ([4, 128, 64], [false, false]),
    ([4, 128, 512], [false, false]),
    ([4, 512, 512], [false, false]),
    ([24, 512, 256], [false, false]),
    ([48, 128, 512], [false, false]),
    ([96, 512, 512], [false, false]),
];

/// The time that a shape gets.
const TIME: Duration = Duration::from_millis(1500);

fn main() {
    let threads = std::env::args().nth(1).map_or(1, |n| {
        n.parse().expect("the argument is a number of threads")
    });
    println!("| product, {threads} threads | gemm GFLOP/s | emmy GFLOP/s | emmy / gemm, time |");
    println!("|---|---:|---:|---:|");
    par::with_threads(threads, || {
        for (size, transposed) in SHAPES {
            compare(size, transposed);
        }
    });
}

fn compare([m, k, n]: [usize; 3], [turn_a, turn_b]: [bool; 2]) {
    // From 2048 numbers on, the memory of a factor begins at a line of the cache, as that of a weight does.
    let mut rng = draw::rng(1);
    let mut random = |shape: [usize; 2]| {
        let drawn = draw::uniform::<f32>(&shape, 1.0, &mut rng);
        drawn.into_dimensionality::<Ix2>().expect("two dimensions")
    };
    let (a, b) = (
        random(if turn_a { [k, m] } else { [m, k] }),
        random(if turn_b { [n, k] } else { [k, n] }),
    );
    let a = if turn_a { a.t() } else { a.view() };
    let b = if turn_b { b.t() } else { b.view() };
    let (mut ours, mut theirs) = (vec![0.0; m * n], vec![0.0; m * n]);
    let mut least = [Duration::MAX; 2];
    let begin = Instant::now();
    while begin.elapsed() < TIME {
        let start = Instant::now();
        gemm::matmul_into(a, b, &mut ours);
        least[0] = least[0].min(start.elapsed());
        let start = Instant::now();
        direct(a, b, &mut theirs);
        least[1] = least[1].min(start.elapsed());
        black_box((&mut ours, &mut theirs));
    }
    for (x, y) in ours.iter().zip(&theirs) {
        assert!((x - y).abs() < 1e-3, "{m} {k} {n}: {x} and {y}");
    }
    let [ours, theirs] = least.map(|time| time.as_secs_f64());
    let rate = |time| 2e-9 * (m * k * n) as f64 / time;
    let mark = |turned| if turned { "ᵀ" } else { "" };
    println!(
        "| {m}×{k}{} · {k}×{n}{} | {:.1} | {:.1} | {:.2} |",
        mark(turn_a),
        mark(turn_b),
        rate(theirs),
        rate(ours),
        ours / theirs
    );
}

/// out = a b by one call of the gemm crate, on the threads of the current pool.
fn direct(a: ArrayView2<f32>, b: ArrayView2<f32>, out: &mut [f32]) {
    let ((m, k), n) = (a.dim(), b.ncols());
    let threads = match rayon::current_num_threads() {
        1 => Parallelism::None,
        threads => Parallelism::Rayon(threads),
    };
    let (s, t) = (a.strides(), b.strides());
    // SAFETY: the sizes and strides are those of the operands, and `out` holds m × n numbers. The kernel
    // writes columns, so it is given outᵀ = bᵀ aᵀ.
    unsafe {
        gemm_f32::gemm::f32::get_gemm_fn()(
            n,
            m,
            k,
            out.as_mut_ptr(),
            n as isize,
            1,
            false,
            b.as_ptr(),
            t[0],
            t[1],
            a.as_ptr(),
            s[0],
            s[1],
            0.0,
            1.0,
            false,
            false,
            false,
            threads,
        );
    }
}
