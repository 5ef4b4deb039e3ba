//! Elementwise updates, and sums of squares.

use crate::support::{bits, data};
use emmy::kernels::par;
use emmy::kernels::update::{blocks, sum_of_squares};

#[test]
fn a_sum_of_squares_neither_overflows_nor_loses() {
    assert_eq!(sum_of_squares(&[3e30_f32, 4e30]).sqrt() as f32, 5e30);
    assert_eq!(sum_of_squares::<f64>(&[]), 0.0);
    let x = data::<f64>(100_003, 5);
    let naive: f64 = x.iter().map(|x| x * x).sum();
    assert!((sum_of_squares(&x) / naive - 1.0).abs() < 1e-13);
}

#[test]
fn blocks_are_the_same_on_any_number_of_threads() {
    let n = 3 * par::FORK + 7;
    let run = |threads| {
        par::with_threads(threads, || {
            let (mut p, mut m) = (data::<f32>(n, 1), data::<f32>(n, 2));
            blocks([&mut p, &mut m], &data(n, 3), |[p, m], g| {
                for ((p, m), &g) in p.iter_mut().zip(m).zip(g) {
                    *m = 0.9 * *m + g;
                    *p -= 0.1 * *m;
                }
            });
            (bits(&p), bits(&m), sum_of_squares(&p).to_bits())
        })
    };
    let one = run(1);
    for threads in 2..=4 {
        assert!(run(threads) == one);
    }
}

#[test]
#[should_panic(expected = "parameter and state hold [2, 3] elements, the gradient 2")]
fn lengths_must_agree() {
    blocks([&mut [0.0; 2][..], &mut [0.0; 3]], &[0.0; 2], |_, _| ());
}
