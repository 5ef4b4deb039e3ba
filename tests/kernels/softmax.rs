//! Softmax of rows: many rows share a loop, and each has the bits that it has alone.

use crate::support::{bits, data};
use emmy::kernels::softmax::{log_softmax_rows, logsumexp_rows, softmax_rows};
use emmy::real::Elementary;

/// The three results for one short row, whose exponentials are added in order.
fn plain(row: &[f64]) -> ([Vec<f64>; 2], f64) {
    let max = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if max == f64::NEG_INFINITY {
        return ([vec![0.0; row.len()], vec![max; row.len()]], max);
    }
    let e: Vec<f64> = row.iter().map(|x| (x - max).exp_v()).collect();
    let total = e.iter().fold(0.0, |sum, e| sum + e);
    let softmax = e.iter().map(|e| e * total.recip()).collect();
    let logarithm = row.iter().map(|x| (x - max) - total.ln()).collect();
    ([softmax, logarithm], max + total.ln())
}

#[test]
fn a_row_has_the_bits_that_it_has_alone() {
    for w in [1, 2, 7, 15, 16, 31] {
        for n in [0, 1, 33, 700] {
            let mut x = data::<f64>(n * w, 3);
            for (k, x) in x.iter_mut().enumerate() {
                // Elements that take no part, rows of them, and differences whose exponentials vanish.
                *x = match k {
                    _ if k / w % 10 == 4 || k % 13 == 5 => f64::NEG_INFINITY,
                    _ if k % 17 == 3 => *x * 1e4,
                    _ => *x,
                };
            }
            let (mut softmax, mut logarithm, mut sums) = (Vec::new(), Vec::new(), Vec::new());
            for row in x.chunks_exact(w) {
                let ([a, b], sum) = plain(row);
                softmax.extend(a);
                logarithm.extend(b);
                sums.push(sum);
            }
            assert_eq!(
                bits(softmax_rows(&x, w).iter()),
                bits(&softmax),
                "{n} × {w}"
            );
            assert_eq!(
                bits(log_softmax_rows(&x, w).iter()),
                bits(&logarithm),
                "{n} × {w}"
            );
            assert_eq!(bits(&logsumexp_rows(&x, w)), bits(&sums), "{n} × {w}");
        }
    }
}
