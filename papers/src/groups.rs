//! Measures of oversmoothing that need more than the rows: their classes, or the inputs from which they were
//! computed.

use crate::contrastive::{directions, sizes};
use emmy::kernels::gemm;
use emmy::sparse::{Csr, Pattern};
use emmy::{Real, Tape, Tensor, Var};
use ndarray::{Array2, ArrayView2, Axis, Ix2, s};
use std::collections::BTreeMap;

/// Mean squared distances of rows of length 1.
#[derive(Debug, Clone, Copy)]
pub struct GroupDistances<'t, F: Real> {
    /// Between rows of one class, including a row and itself: the mean over classes, shape `[]`.
    pub within: Var<'t, F>,
    /// Between rows of two classes: the mean over pairs of classes, shape `[]`.
    pub between: Var<'t, F>,
}

impl<'t, F: Real> GroupDistances<'t, F> {
    /// between / within, at least 1; NaN if both are 0 (the published code has 1 in this case).
    pub fn ratio(&self) -> Var<'t, F> {
        self.between / self.within
    }
}

/// The distances whose ratio is the group distance ratio of Zhou et al., "Towards Deeper Graph Neural
/// Networks with Differentiable Group Normalization", NeurIPS 2020, of rows `[n, d]` with a class each.
///
/// As in their code, rows are brought to length 1 and distances are squared (the paper has distances). With
/// μ_c the mean of class c, v_c the mean of ‖u − μ_c‖² in it, and C classes: within = 2 mean v_c, between = 2
/// mean v_c + 2/(C − 1) Σ‖μ_c − μ̄‖², so the ratio is at least 1, and it is 1 if all classes have the same
/// mean. The cost is linear in n. A class without rows is left out. If there is only one class, `between` is
/// NaN.
///
/// # Panics
/// If h is not a matrix, or there is not one label per row.
#[track_caller]
pub fn group_distances<'t, F: Real>(h: Var<'t, F>, labels: &[usize]) -> GroupDistances<'t, F> {
    let [n, _] = sizes("group_distances", &h.shape());
    assert!(
        labels.len() == n,
        "group_distances: {n} rows need one label each, not {}",
        labels.len()
    );
    let mut counts = BTreeMap::new();
    for &label in labels {
        *counts.entry(label).or_insert(0_usize) += 1;
    }
    let numbers: BTreeMap<usize, usize> = counts.keys().copied().zip(0..).collect();
    let classes = numbers.len();
    let class: Vec<usize> = labels.iter().map(|label| numbers[label]).collect();
    let pairs: Vec<_> = class.iter().copied().zip(0..).collect();
    let pattern = Pattern::from_pairs(classes, n, &pairs).expect("classes and rows are in range");
    let shares = counts.values().flat_map(|&count| {
        let share = F::of((count as f64).recip());
        std::iter::repeat_n(share, count)
    });
    let means = h.tape().sparse(&Csr::new(pattern, shares.collect()));
    let unit = directions(h, -1);
    let centres = means.matmul(unit);
    let away = unit - centres.index_select(0, class);
    let spread = means.matmul(away.square().sum(&[1], true));
    let within = spread.mean_all().scale(F::of(2.0));
    let apart = (centres - centres.mean(&[0], true)).square().sum_all();
    let between = within + apart.scale(F::of(2.0)) / F::of(classes as f64 - 1.0);
    GroupDistances { within, between }
}

/// The instance information gain of Zhou et al. (see [`group_distances`]), in bits: how much information the
/// outputs H contain about the inputs X.
///
/// Outputs are grouped by the position of their largest entry, the first of equals. With rows of X of length
/// 1 and the kernel k_ij = exp(−‖x_i − x_j‖²/(8σ²)), the entropy of a set is −mean_i ln mean_j k_ij up to a
/// constant. (This is the estimate by Bhattacharyya distances of Kolchinsky and Tracey, "Estimating Mixture
/// Entropy with Pairwise Distances", Entropy 2017, for a mixture of Gaussians of variance σ²; Zhou et al. use
/// σ² = 0.1.) The gain is the entropy of X minus the mean over all rows of the entropy of their group. It is
/// at most the entropy of the groups, so at most log₂ d, and 0 if all outputs are in one group.
///
/// Shapes: inputs `[n, m]`, outputs `[n, d]`. No matrix of n × n is stored; the time is proportional to n² m.
///
/// # Panics
/// If the two are not matrices with equally many rows, or the variance is not positive.
#[track_caller]
pub fn information_gain<F: Real>(inputs: &Tensor<F>, outputs: &Tensor<F>, variance: f64) -> f64 {
    let op = "information_gain";
    let [n, _] = sizes(op, inputs.shape());
    let [rows, d] = sizes(op, outputs.shape());
    assert!(
        rows == n,
        "{op}: inputs of {n} rows and outputs of {rows}: they must have as many"
    );
    assert!(
        variance > 0.0 && variance.is_finite(),
        "{op}: the variance must be positive, not {variance}"
    );
    if n == 0 || d == 0 {
        return f64::NAN;
    }
    let tape = Tape::new();
    let unit = tape.no_grad(|| directions(tape.constant(inputs.clone()), -1).value());
    let unit = unit.view().into_dimensionality::<Ix2>().expect("two axes");
    let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (i, row) in outputs.axis_iter(Axis(0)).enumerate() {
        let larger = |best: (usize, F), (k, &x): (usize, &F)| {
            if x > best.1 { (k, x) } else { best }
        };
        let largest = row.iter().enumerate().fold((0, row[0]), larger).0;
        groups.entry(largest).or_default().push(i);
    }
    let of_groups = groups.values().map(|rows| {
        let part = unit.select(Axis(0), rows);
        rows.len() as f64 / n as f64 * entropy(part.view(), variance)
    });
    let of_groups: f64 = of_groups.sum();
    (entropy(unit, variance) - of_groups) / std::f64::consts::LN_2
}

/// Rows of the kernel that are computed at a time.
const BLOCK: usize = 256;

/// −mean_i ln mean_j exp(−‖x_i − x_j‖²/(8σ²)).
fn entropy<F: Real>(x: ArrayView2<'_, F>, variance: f64) -> f64 {
    let n = x.nrows();
    let squares: Vec<f64> = (x.outer_iter())
        .map(|row| row.iter().map(|x| x.as_f64().powi(2)).sum())
        .collect();
    let mut total = 0.0;
    for start in (0..n).step_by(BLOCK) {
        let end = n.min(start + BLOCK);
        let products: Array2<F> = gemm::matmul(x.slice(s![start..end, ..]), x.t());
        for (row, i) in products.outer_iter().zip(start..) {
            let kernel = row
                .iter()
                .zip(&squares)
                .enumerate()
                .map(|(j, (p, square))| {
                    let distance = (squares[i] + square - 2.0 * p.as_f64()).max(0.0);
                    let distance = if i == j { 0.0 } else { distance };
                    (-distance / (8.0 * variance)).exp()
                });
            total -= (kernel.sum::<f64>() / n as f64).ln();
        }
    }
    total / n as f64
}
