//! Losses. Each is one number, the mean over the rows or elements that take part.

use crate::autodiff::Var;
use crate::real::Real;
use std::sync::Arc;

impl<F: Real> Var<'_, F> {
    /// The cross-entropy of logits x `[n, C]` with class labels: −mean (log softmax xᵢ) at labelᵢ over the
    /// rows i with `mask[i]` (all rows without a mask); shape `[]`.
    ///
    /// Both classes of row 0 have the probability ½; row 1 does not take part.
    ///
    /// ```
    /// use emmy::{Tape, autodiff::grad, tensor::tensor};
    /// let tape = Tape::new();
    /// let x = tape.var(tensor(&[2, 2], vec![7.0_f64, 7.0, 1.0, 2.0]));
    /// let loss = x.cross_entropy(&[1, 0], Some(&[true, false]));
    /// assert!((loss.item() - 2.0_f64.ln()).abs() < 1e-12);
    /// // Probabilities less 1 at the label.
    /// let g = &grad(loss, &[x])[0];
    /// assert!(g.iter().zip([0.5, -0.5, 0.0, 0.0]).all(|(g, e)| (g - e).abs() < 1e-12));
    /// ```
    ///
    /// # Panics
    /// If x does not have two dimensions, there is not one label (and with a mask one flag) per row, the
    /// label of a row that takes part is not below C, or no row takes part.
    #[track_caller]
    pub fn cross_entropy(self, labels: &[usize], mask: Option<&[bool]>) -> Self {
        let (rows, labels) = self.taking_part("cross_entropy", labels, mask);
        rows.log_softmax(1).mean_of_picked(&labels)
    }

    /// The negative log-likelihood of log-probabilities x `[n, C]`: −mean of xᵢ at labelᵢ over the rows i
    /// with `mask[i]` (all rows without a mask); shape `[]`.
    ///
    /// # Panics
    /// As [`cross_entropy`](Self::cross_entropy).
    #[track_caller]
    pub fn nll(self, labels: &[usize], mask: Option<&[bool]>) -> Self {
        let (rows, labels) = self.taking_part("nll", labels, mask);
        rows.mean_of_picked(&labels)
    }

    /// The mean squared error, mean (x − target)² over all elements, shape `[]`; NaN over none
    ///
    /// ```
    /// let tape = emmy::Tape::new();
    /// let (x, target) = (tape.var(vec![1.0_f64, 5.0]), tape.constant(vec![0.0, 2.0]));
    /// assert_eq!(x.mse(target).item(), 5.0); // (1² + 3²) / 2
    /// ```
    ///
    /// # Panics
    /// If the shapes differ (a broadcast here is almost always a mistake), or the tapes differ.
    #[track_caller]
    pub fn mse(self, target: Self) -> Self {
        alike("mse", self, target);
        (self - target).square().mean_all()
    }

    /// The binary cross-entropy of logits x with targets t in 0 ≤ t ≤ 1: mean ((1 − t) softplus(x) + t
    /// softplus(−x)) over all elements, shape `[]`; NaN over none
    ///
    /// This is −t ln σ(x) − (1 − t) ln σ(−x). In the shorter softplus(x) − t x the digits of predictions that
    /// are certain and right would cancel.
    ///
    /// ```
    /// let tape = emmy::Tape::new();
    /// let (x, target) = (tape.var(vec![0.0, 36.0_f64]), tape.constant(vec![1.0, 1.0]));
    /// let expected = (2_f64.ln() + (-36.0_f64).exp()) / 2.0;
    /// assert!((x.bce_with_logits(target).item() - expected).abs() < 1e-15);
    /// ```
    ///
    /// # Panics
    /// If the shapes or the tapes differ.
    #[track_caller]
    pub fn bce_with_logits(self, target: Self) -> Self {
        alike("bce_with_logits", self, target);
        let (no, yes) = (self.softplus(), (-self).softplus());
        ((-target + F::one()) * no + target * yes).mean_all()
    }

    /// The rows that take part, and their labels. Few rows of a graph are labelled. They are selected first,
    /// so that the cost of the loss, and of its derivative up to this selection, is proportional to their
    /// number.
    #[track_caller]
    fn taking_part(self, op: &str, labels: &[usize], mask: Option<&[bool]>) -> (Self, Vec<usize>) {
        let shape = self.shape();
        let &[n, classes] = &shape[..] else {
            panic!("{op}: logits have shape [rows, classes], not {shape:?}")
        };
        assert!(
            labels.len() == n,
            "{op}: logits {shape:?} need one label per row: {n} rows, {} labels",
            labels.len()
        );
        if let Some(mask) = mask {
            assert!(
                mask.len() == n,
                "{op}: logits {shape:?} need one flag of the mask per row: {n} rows, {} labels, {} flags",
                labels.len(),
                mask.len()
            );
        }
        let rows: Vec<usize> = (0..n).filter(|&i| mask.is_none_or(|m| m[i])).collect();
        assert!(!rows.is_empty(), "{op}: no row takes part");
        let labels: Vec<usize> = rows.iter().map(|&i| labels[i]).collect();
        if let Some(k) = labels.iter().position(|&l| l >= classes) {
            panic!(
                "{op}: row {} has label {}, there are {classes} classes",
                rows[k], labels[k]
            );
        }
        if rows.len() == n {
            (self, labels)
        } else {
            (self.index_select(0, rows), labels)
        }
    }

    /// −mean x[i, label_i]
    fn mean_of_picked(self, labels: &[usize]) -> Self {
        let classes = self.shape()[1];
        let places = labels.iter().enumerate().map(|(i, l)| i * classes + l);
        let places: Arc<[usize]> = places.collect();
        -self
            .reshape(&[self.len()])
            .index_select(0, places)
            .mean_all()
    }
}

#[track_caller]
fn alike<F: Real>(op: &str, x: Var<'_, F>, target: Var<'_, F>) {
    x.tape().accept(op, &[target]);
    assert!(
        x.shape() == target.shape(),
        "{op}: predictions {:?} and targets {:?} differ in shape",
        x.shape(),
        target.shape()
    );
}
