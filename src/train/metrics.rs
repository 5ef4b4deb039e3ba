//! Metrics of logits: accuracy, cross-entropy, confusion. They are plain numbers, without derivatives.
//!
//! | letter | meaning |
//! |---|---|
//! | logits | `[n, C]`, a row per node |
//! | labels | the class of each node |
//! | mask | which nodes count |

use crate::real::Real;
use crate::tensor::Tensor;
use ndarray::{Array2, ArrayView1, Axis};

/// The class with the largest logit for each node, the first of equals; `None` if one of the node's logits is
/// NaN: then no class is predicted.
pub fn predictions<F: Real>(logits: &Tensor<F>) -> Vec<Option<usize>> {
    let rows = logits.axis_iter(Axis(0));
    rows.map(|row| {
        let mut best: Option<(usize, F)> = None;
        for (c, &x) in row.iter().enumerate() {
            if x.is_nan() {
                return None;
            }
            if best.is_none_or(|(_, largest)| x > largest) {
                best = Some((c, x));
            }
        }
        best.map(|(c, _)| c)
    })
    .collect()
}

/// The share of the nodes in `mask` whose class is predicted correctly; NaN if the mask is empty. For a node
/// with a NaN among its logits no class is predicted, and it counts as wrong.
///
/// # Panics
/// If there is not one label and one flag per row.
#[track_caller]
pub fn accuracy<F: Real>(logits: &Tensor<F>, labels: &[usize], mask: &[bool]) -> f64 {
    accuracy_of(&predictions(logits), labels, mask)
}

/// [`accuracy`] of given predictions.
///
/// # Panics
/// If there is not one label and one flag per prediction.
#[track_caller]
pub fn accuracy_of(predictions: &[Option<usize>], labels: &[usize], mask: &[bool]) -> f64 {
    check("accuracy", predictions.len(), labels, mask);
    let (mut right, mut all) = (0, 0);
    for ((p, l), m) in predictions.iter().zip(labels).zip(mask) {
        all += usize::from(*m);
        right += usize::from(*m && *p == Some(*l));
    }
    right as f64 / all as f64
}

/// −mean log softmax(logits) at the label, over the nodes in `mask`, in `f64`; NaN if there are none.
///
/// # Panics
/// If there is not one label and one flag per row, or a label that counts is not below C.
#[track_caller]
pub fn cross_entropy<F: Real>(logits: &Tensor<F>, labels: &[usize], mask: &[bool]) -> f64 {
    check("cross_entropy", logits.shape()[0], labels, mask);
    let rows = logits.axis_iter(Axis(0)).zip(labels).zip(mask);
    let losses = rows.filter(|(_, m)| **m).map(|((row, &label), _)| {
        let row: Vec<f64> = row.iter().map(|x| x.as_f64()).collect();
        let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let total: f64 = row.iter().map(|x| (x - largest).exp()).sum();
        total.ln() - (row[label] - largest)
    });
    let (sum, count) = losses.fold((0.0, 0), |(sum, count), l| (sum + l, count + 1));
    sum / f64::from(count)
}

/// The number of nodes of class i (row) in `mask` for which class j (column) was predicted, shape C × C. A
/// node with a NaN among its logits is not counted.
///
/// # Panics
/// If there is not one label and one flag per row, or a label that counts is not below C.
#[track_caller]
pub fn confusion<F: Real>(logits: &Tensor<F>, labels: &[usize], mask: &[bool]) -> Array2<usize> {
    check("confusion", logits.shape()[0], labels, mask);
    let classes = logits.shape()[1];
    let mut counts = Array2::zeros((classes, classes));
    for ((p, &l), _) in (predictions(logits).iter().zip(labels).zip(mask)).filter(|(_, m)| **m) {
        if let Some(p) = *p {
            counts[[l, p]] += 1;
        }
    }
    counts
}

/// Precision tp / predicted and recall tp / actual of each class from a [`confusion`]; NaN where the
/// denominator is 0.
pub fn precision_recall(confusion: &Array2<usize>) -> Vec<(f64, f64)> {
    let total = |counts: ArrayView1<usize>| counts.sum() as f64;
    (0..confusion.nrows())
        .map(|c| {
            let hits = confusion[[c, c]] as f64;
            (
                hits / total(confusion.column(c)),
                hits / total(confusion.row(c)),
            )
        })
        .collect()
}

#[track_caller]
fn check(what: &str, rows: usize, labels: &[usize], mask: &[bool]) {
    assert!(
        labels.len() == rows && mask.len() == rows,
        "{what}: {rows} rows, {} labels, {} flags: they must be as many",
        labels.len(),
        mask.len()
    );
}
