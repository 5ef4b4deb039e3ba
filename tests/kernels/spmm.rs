//! Products with sparse matrices against plain loops.

use crate::support::{bits, close, data, pattern};
use emmy::kernels::par;
use emmy::kernels::spmm::{sddmm, spmm, spmm_t};

/// Every size that a loop treats specially, and some other sizes.
const SIZES: [(usize, usize); 9] = [
    (1, 1),
    (1, 8),
    (1, 16),
    (1, 64),
    (8, 8),
    (3, 5),
    (2, 33),
    (2, 0),
    (0, 4),
];

#[test]
fn equal_the_naive_loops() {
    for (n, m, nnz) in [(40, 30, 200), (1, 1, 1), (0, 5, 0), (5, 0, 0), (7, 9, 0)] {
        let p = pattern(n, m, nnz, 1);
        for (heads, d) in SIZES {
            let w = heads * d;
            let v: Vec<f64> = data(p.nnz() * heads, 2);
            let (x, y): (Vec<f64>, Vec<f64>) = (data(m * w, 3), data(n * w, 4));
            let (mut ax, mut aty) = (vec![0.0; n * w], vec![0.0; m * w]);
            let mut dots = vec![0.0; p.nnz() * heads];
            for e in 0..p.nnz() {
                let (i, j) = (p.rows_of()[e] as usize, p.indices()[e] as usize);
                for h in 0..heads {
                    for c in 0..d {
                        let (at_i, at_j) = (i * w + h * d + c, j * w + h * d + c);
                        ax[at_i] += v[e * heads + h] * x[at_j];
                        aty[at_j] += v[e * heads + h] * y[at_i];
                        dots[e * heads + h] += y[at_i] * x[at_j];
                    }
                }
            }
            close(&spmm(&p, &v, &x, heads, d), &ax, 1e-13);
            close(&spmm_t(&p, &v, &y, heads, d), &aty, 1e-13);
            close(&sddmm(&p, &y, &x, heads, d), &dots, 1e-13);
        }
    }
}

#[test]
fn bits_do_not_depend_on_threads() {
    let p = pattern(900, 800, 9000, 5);
    for (heads, d) in [(1, 64), (8, 8), (3, 7)] {
        let v: Vec<f32> = data(p.nnz() * heads, 1);
        let x: Vec<f32> = data(800 * heads * d, 2);
        let y: Vec<f32> = data(900 * heads * d, 3);
        let run = |t| {
            par::with_threads(t, || {
                [
                    bits(&spmm(&p, &v, &x, heads, d)),
                    bits(&spmm_t(&p, &v, &y, heads, d)),
                    bits(&sddmm(&p, &y, &x, heads, d)),
                ]
            })
        };
        let one = run(1);
        for t in 2..=4 {
            assert_eq!(run(t), one);
        }
    }
}

#[test]
#[should_panic(expected = "spmm: x must have shape [3, 1, 2], it has 5 elements")]
fn sizes_must_agree() {
    spmm(&pattern(2, 3, 0, 1), &[], &[0.0; 5], 1, 2);
}
