//! Steps of optimisers against their formulas.

use crate::support::{bits, data};
use emmy::kernels::par;
use emmy::kernels::update::{Adam, Momentum, adam, descend, momentum, sum_of_squares};

const C: Adam<f32> = Adam {
    lr: 0.01,
    decay: 0.1,
    shrink: 0.999,
    one_minus_beta1: 0.1,
    beta2: 0.99,
    one_minus_beta2: 0.01,
    root: 0.7,
    eps: 1e-8,
};

#[test]
fn bits_do_not_depend_on_threads() {
    let n = 3 * par::FORK + 7;
    let run = |threads| {
        par::with_threads(threads, || {
            let (mut p, mut m) = (data::<f32>(n, 1), data::<f32>(n, 2));
            let mut v: Vec<f32> = data(n, 3).into_iter().map(f32::abs).collect();
            let g = data::<f32>(n, 4);
            adam(&mut p, &mut m, &mut v, &g, C);
            let c = Momentum {
                lr: 0.1,
                decay: 0.01,
                momentum: 0.9,
                nesterov: true,
            };
            momentum(&mut p, &mut m, &g, c);
            descend(&mut p, &g, 0.1, 0.01);
            (bits(&p), bits(&m), bits(&v), sum_of_squares(&p).to_bits())
        })
    };
    let one = run(1);
    for threads in 2..=4 {
        assert!(run(threads) == one);
    }
}

#[test]
fn the_vectorised_loop_is_the_formula() {
    let n = 37;
    let (p0, m0, g) = (data::<f32>(n, 1), data::<f32>(n, 2), data::<f32>(n, 4));
    let v0: Vec<f32> = data(n, 3).into_iter().map(f32::abs).collect();
    let (mut p, mut m, mut v) = (p0.clone(), m0.clone(), v0.clone());
    adam(&mut p, &mut m, &mut v, &g, C);
    for k in 0..n {
        let x = p0[k] * C.shrink;
        let d = g[k] + C.decay * x;
        let m1 = m0[k] + C.one_minus_beta1 * (d - m0[k]);
        let v1 = C.beta2 * v0[k] + C.one_minus_beta2 * d * d;
        assert_eq!((m[k], v[k]), (m1, v1));
        assert_eq!(p[k], x - C.lr * m1 / (v1.sqrt() / C.root + C.eps));
    }
}

#[test]
fn a_sum_of_squares_neither_overflows_nor_loses() {
    assert_eq!(sum_of_squares(&[3e30_f32, 4e30]).sqrt() as f32, 5e30);
    assert_eq!(sum_of_squares::<f64>(&[]), 0.0);
    let x = data::<f64>(100_003, 5);
    let naive: f64 = x.iter().map(|x| x * x).sum();
    assert!((sum_of_squares(&x) / naive - 1.0).abs() < 1e-13);
}

#[test]
#[should_panic(expected = "parameter and state hold [2, 3] elements, the gradient 2")]
fn lengths_must_agree() {
    let c = Momentum {
        lr: 0.1,
        decay: 0.0,
        momentum: 0.9,
        nesterov: false,
    };
    momentum(&mut [0.0; 2], &mut [0.0; 3], &[0.0; 2], c);
}
