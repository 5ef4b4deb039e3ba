//! The fused operation against the formula.

use super::normal;
use approx::assert_abs_diff_eq;
use emmy::autodiff::{grad, grad_graph};
use emmy::kernels::par;
use emmy::ops::recurrent;
use emmy::{Real, Tape, Tensor, Var};

/// x, W, b, h and, with four gates, c.
fn operands<F: Real>(gates: usize, [steps, rows, width]: [usize; 3]) -> Vec<Tensor<F>> {
    let shapes = [
        &[steps, rows, gates * width][..],
        &[gates * width, width],
        &[gates * width],
        &[rows, width],
        &[rows, width],
    ];
    let all = shapes.iter().enumerate();
    let drawn = all.map(|(k, shape)| normal::<F>(shape, k as u64));
    drawn.take(if gates == 4 { 5 } else { 4 }).collect()
}

fn fused<'t, F: Real>(args: &[Var<'t, F>]) -> Var<'t, F> {
    match *args {
        [x, w, b, h, c] => recurrent::lstm(x, w, b, h, c),
        [x, w, b, h] => recurrent::gru(x, w, b, h),
        _ => unreachable!(),
    }
}

/// The formulas, step by step.
fn composed<'t>(args: &[Var<'t, f64>]) -> Var<'t, f64> {
    let [x, w, b, mut h] = args[..4] else {
        unreachable!()
    };
    let mut c = args.get(4).copied();
    let (steps, width) = (x.shape()[0], h.shape()[1]);
    let gate = |x: Var<'t, f64>, k: usize| x.slice(1, k * width..(k + 1) * width);
    let mut states = Vec::new();
    for t in 0..steps {
        let (x, q) = (x.slice(0, t..t + 1).squeeze(0), h.linear(w) + b);
        h = match c {
            Some(old) => {
                let kept = gate(x + q, 1).sigmoid() * old;
                let new = kept + gate(x + q, 0).sigmoid() * gate(x + q, 2).tanh();
                c = Some(new);
                gate(x + q, 3).sigmoid() * new.tanh()
            }
            None => {
                let [r, z] = [0, 1].map(|k| (gate(x, k) + gate(q, k)).sigmoid());
                let n = (gate(x, 2) + r * gate(q, 2)).tanh();
                (1.0 - z) * n + z * h
            }
        };
        states.push(h);
    }
    states.extend(c);
    Var::stack(&states, 0)
}

/// Widths that vector registers do not divide, single rows and steps, and sizes at which the product is cut.
#[test]
fn the_fused_operation_is_the_formula() {
    for sizes in [[1, 1, 1], [1, 7, 5], [9, 1, 33], [6, 5, 17], [2, 40, 70]] {
        for gates in [3, 4] {
            let tape = Tape::new();
            let args: Vec<_> = operands(gates, sizes)
                .into_iter()
                .map(|x| tape.var(x))
                .collect();
            let (y, expected) = (fused(&args), composed(&args));
            assert_abs_diff_eq!(y.value(), expected.value(), epsilon = 1e-13);
            let weights = tape.constant(normal(&y.shape(), 9));
            let [of_kernel, of_formula] =
                [y, expected].map(|y| grad((y * weights).sum_all(), &args));
            let of_reference = grad_graph((y * weights).sum_all(), &args);
            for ((a, b), c) in of_kernel.iter().zip(&of_formula).zip(&of_reference) {
                let size = b.iter().fold(1.0_f64, |m, x| m.max(x.abs()));
                assert_abs_diff_eq!(a, b, epsilon = 1e-12 * size);
                assert_abs_diff_eq!(c.value(), b, epsilon = 1e-12 * size);
            }
        }
    }
}

/// Gates far from zero are 0 or 1, and nothing overflows.
#[test]
fn large_numbers_saturate() {
    for gates in [3, 4] {
        let tape = Tape::new();
        let large = operands::<f32>(gates, [5, 3, 4]).into_iter();
        let args: Vec<_> = large
            .map(|x| tape.var(x.mapv(|x| 1e4 * x).into_shared()))
            .collect();
        let y = fused(&args);
        assert!(y.value().iter().all(|y| y.is_finite()));
        let g = grad(y.sum_all(), &args);
        assert!(g.iter().flatten().all(|g| g.is_finite()));
    }
}

/// Sizes at which the kernels fork.
#[test]
fn same_bits_on_any_number_of_threads() {
    for gates in [3, 4] {
        let run = |threads: usize| {
            par::with_threads(threads, || {
                let tape = Tape::new();
                let args = operands::<f32>(gates, [3, 70, 100]).into_iter();
                let args: Vec<_> = args.map(|x| tape.var(x)).collect();
                let y = fused(&args);
                let mut all = grad(y.square().sum_all(), &args);
                all.push(y.value());
                all.iter()
                    .flatten()
                    .map(|x| x.to_bits())
                    .collect::<Vec<_>>()
            })
        };
        let one = run(1);
        for threads in [2, 4] {
            assert_eq!(run(threads), one, "{gates} gates on {threads} threads");
        }
    }
}
