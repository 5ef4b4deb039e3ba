//! Sums, extrema and softmax per segment against plain loops.

use crate::support::{bits, close, data, pattern};
use emmy::kernels::par;
use emmy::kernels::segment::{
    gather_cols, gather_rows, segment_max, segment_softmax, segment_sum, segment_sum_t,
};

#[test]
fn equal_the_naive_loops() {
    for (n, m, nnz) in [(40, 30, 200), (1, 1, 1), (0, 5, 0), (5, 0, 0), (7, 9, 0)] {
        let p = pattern(n, m, nnz, 1);
        for w in [0, 1, 2, 8, 17] {
            let v: Vec<f64> = data(p.nnz() * w, 2);
            let (x, y): (Vec<f64>, Vec<f64>) = (data(n * w, 3), data(m * w, 4));
            let (mut by_row, mut by_col) = (vec![0.0; n * w], vec![0.0; m * w]);
            let mut largest = vec![f64::NEG_INFINITY; n * w];
            let (mut from_row, mut from_col) = (vec![0.0; v.len()], vec![0.0; v.len()]);
            let mut exps = vec![0.0; n * w];
            for (k, &value) in v.iter().enumerate() {
                let (e, c) = (k / w, k % w);
                let (i, j) = (p.rows_of()[e] as usize, p.indices()[e] as usize);
                by_row[i * w + c] += value;
                by_col[j * w + c] += value;
                largest[i * w + c] = value.max(largest[i * w + c]);
                exps[i * w + c] += value.exp();
                from_row[k] = x[i * w + c];
                from_col[k] = y[j * w + c];
            }
            let softmax: Vec<f64> = (0..v.len())
                .map(|k| v[k].exp() / exps[p.rows_of()[k / w] as usize * w + k % w])
                .collect();
            close(&segment_sum(&p, &v, w), &by_row, 1e-13);
            close(&segment_sum_t(&p, &v, w), &by_col, 1e-13);
            assert_eq!(*segment_max(&p, &v, w), *largest);
            assert_eq!(*gather_rows(&p, &x, w), *from_row);
            assert_eq!(*gather_cols(&p, &y, w), *from_col);
            close(&segment_softmax(&p, &v, w), &softmax, 1e-15);
        }
    }
}

#[test]
fn softmax_survives_large_scores_and_ignores_a_shift() {
    let p = pattern(20, 20, 150, 3);
    let scores: Vec<f64> = data(p.nnz() * 2, 4);
    let shifted: Vec<f64> = scores.iter().map(|s| s + 1e6).collect();
    let (a, b) = (
        segment_softmax(&p, &scores, 2),
        segment_softmax(&p, &shifted, 2),
    );
    close(&a, &b, 1e-9);
    let far: Vec<f64> = scores.iter().map(|s| s * 1e300).collect();
    assert!(
        segment_softmax(&p, &far, 2)
            .iter()
            .all(|p| (0.0..=1.0).contains(p))
    );
}

#[test]
fn bits_do_not_depend_on_threads() {
    let p = pattern(2000, 1500, 30_000, 8);
    for w in [1, 8] {
        let v: Vec<f32> = data(p.nnz() * w, 9);
        let x: Vec<f32> = data(2000 * w, 9);
        let run = |t| {
            par::with_threads(t, || {
                [
                    bits(&segment_sum(&p, &v, w)),
                    bits(&segment_sum_t(&p, &v, w)),
                    bits(&segment_max(&p, &v, w)),
                    bits(&segment_softmax(&p, &v, w)),
                    bits(&gather_rows(&p, &x, w)),
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
#[should_panic(expected = "segment_sum: v must have shape [0, 2]")]
fn sizes_must_agree() {
    segment_sum(&pattern(2, 3, 0, 1), &[1.0], 2);
}
