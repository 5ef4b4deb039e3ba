//! Losses.

use super::{Case, Operation, Sampler, function, reference};
use emmy::tensor::{Tensor, scalar};

/// Logits, labels, and a mask that keeps the first node at least.
fn classified(d: &mut Sampler) -> (Tensor<f64>, Vec<usize>, Vec<bool>) {
    let (n, classes) = (d.count(1, 5), d.count(2, 4));
    let mut mask: Vec<bool> = (0..n).map(|_| d.flag()).collect();
    mask[0] = true;
    (d.signed(&[n, classes]), d.labels(n, classes), mask)
}

/// −mean of `score(row, label)` over the rows that count.
fn mean_loss(
    x: &Tensor<f64>,
    labels: &[usize],
    mask: &[bool],
    score: fn(&[f64], usize) -> f64,
) -> Tensor<f64> {
    let rows: Vec<usize> = (0..labels.len()).filter(|&i| mask[i]).collect();
    let total: f64 = rows
        .iter()
        .map(|&i| {
            let row: Vec<f64> = (0..x.shape()[1]).map(|c| x[[i, c]]).collect();
            score(&row, labels[i])
        })
        .sum();
    scalar(-total / rows.len() as f64)
}

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation {
            name: "cross_entropy",
            draw: |d| {
                let (x, labels, mask) = classified(d);
                let (l, m) = (labels.clone(), mask.clone());
                let function =
                    function!([labels, mask] | x | x[0].cross_entropy(&labels, Some(&mask)));
                Case::new(vec![x], function, move |x| {
                    mean_loss(&x[0], &l, &m, |row, l| row[l] - reference::logsumexp(row))
                })
            },
        },
        Operation {
            name: "cross_entropy",
            draw: |d| {
                let (x, labels, _) = classified(d);
                let (l, all) = (labels.clone(), vec![true; labels.len()]);
                let function = function!([labels] | x | x[0].cross_entropy(&labels, None));
                Case::new(vec![x], function, move |x| {
                    mean_loss(&x[0], &l, &all, |row, l| row[l] - reference::logsumexp(row))
                })
            },
        },
        Operation {
            name: "nll",
            draw: |d| {
                let (x, labels, mask) = classified(d);
                let (l, m) = (labels.clone(), mask.clone());
                let function = function!([labels, mask] | x | x[0].nll(&labels, Some(&mask)));
                Case::new(vec![x], function, move |x| {
                    mean_loss(&x[0], &l, &m, |row, l| row[l])
                })
            },
        },
        Operation {
            name: "mse",
            draw: |d| {
                let shape = d.filled(2);
                let args = vec![d.signed(&shape), d.signed(&shape)];
                Case::new(args, function!(|x| x[0].mse(x[1])), |x| {
                    let squares = reference::zip(x, |x| (x[0] - x[1]).powi(2));
                    scalar(squares.sum() / squares.len() as f64)
                })
            },
        },
        Operation {
            name: "bce_with_logits",
            draw: |d| {
                let shape = d.filled(2);
                let args = vec![d.signed(&shape), d.uniform(&shape, 0.0, 1.0)];
                Case::new(args, function!(|x| x[0].bce_with_logits(x[1])), |x| {
                    let losses = reference::zip(x, |x| {
                        let p = 1.0 / (1.0 + (-x[0]).exp());
                        -x[1] * p.ln() - (1.0 - x[1]) * (1.0 - p).ln()
                    });
                    scalar(losses.sum() / losses.len() as f64)
                })
            },
        },
    ]
}
