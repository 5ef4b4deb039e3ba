//! The distance to a matrix whose rows are all equal.

use super::{centred, matrix, sizes};
use crate::autodiff::Var;
use crate::linalg::{Interval, Lower, Upper};
use crate::real::Real;
use crate::tensor::Tensor;
use ndarray::{Array1, Array2, ArrayView1, Axis};

/// √(‖R‖₁ ‖R‖∞), the "norm" of Dong, Cordonnier and Loukas, "Attention is Not All You Need: Pure Attention
/// Loses Rank Doubly Exponentially with Depth", ICML 2021: ‖R‖₁ is the largest sum of sizes of a column, ‖R‖∞
/// of a row. Shape `[n, d]` → `[]`; the derivative at 0 is 0.
///
/// It is an upper bound of ‖R‖₂. It is not a norm: the triangle inequality fails
/// (`tests/collapse/measures.rs`).
///
/// # Panics
/// If x is not a matrix, or has no entries.
#[track_caller]
pub fn rank_one_norm<F: Real>(x: Var<'_, F>) -> Var<'_, F> {
    let [n, d] = sizes("rank_one_norm", &x.shape());
    assert!(n * d > 0, "rank_one_norm: x {:?} has no entries", [n, d]);
    let size = x.abs();
    let [columns, rows] = [0, 1].map(|axis| size.sum(&[axis], false).max_all());
    // Roots before the product: the product of two small numbers might be rounded to 0.
    columns.sqrt_or_zero() * rows.sqrt_or_zero()
}

/// [`rank_one_norm`] of X − 1x̄ᵀ. Dong et al. take the least value over all x instead of the value at the
/// mean x̄. The value here is at most 2(1 − 1/n) times theirs, since I − 11ᵀ/n has this norm both in ‖·‖₁ and
/// in ‖·‖∞.
///
/// In the Frobenius norm the mean is the minimiser: the residual is √[`variance`](super::variance).
///
/// # Panics
/// If x is not a matrix, or has no entries.
#[track_caller]
pub fn rank_one_residual<F: Real>(x: Var<'_, F>) -> Var<'_, F> {
    rank_one_norm(centred(x))
}

/// Steps of descent towards the best x.
const STEPS: usize = 200;

/// Bounds of min_x √(‖X − 1xᵀ‖₁ ‖X − 1xᵀ‖∞), the residual of Dong et al., as an interval.
///
/// The upper bound is the best value at the mean row, the medians, the middles of the ranges, and after
/// subgradient descent from the best of them. The lower bound has two sources: each of the two norms has a
/// least value (‖·‖₁ at the medians; ‖·‖∞ is at least half the distance of any two rows), and the value at
/// the mean is at most 2(1 − 1/n) times too large. The two bounds are equal for n = 2.
///
/// # Panics
/// If x is not a matrix, has no entries, or has one that is not finite.
#[track_caller]
pub fn rank_one_distance<F: Real>(x: &Tensor<F>) -> Interval {
    let a = matrix("rank_one_distance", x);
    let (n, d) = a.dim();
    assert!(
        n * d > 0,
        "rank_one_distance: x {:?} has no entries",
        [n, d]
    );
    let finite = a.iter().all(|x| x.is_finite());
    assert!(finite, "rank_one_distance: every entry must be finite");
    let largest = |a: &Array2<f64>| a.fold(0.0, |m: f64, x| m.max(x.abs()));
    // A power of two near the largest entry, so that nothing overflows.
    let unit = match largest(&a) {
        0.0 => 1.0,
        largest => largest.log2().floor().exp2(),
    };
    // What all rows have in common is in 1xᵀ. Without it rounding errors are relative to the differences.
    let a = a / unit;
    let a = &a - &a.row(0);
    let medians = a.map_axis(Axis(0), median);
    let middles = a.map_axis(Axis(0), |column| {
        let low = column.fold(f64::INFINITY, |m, x| m.min(*x));
        (low + column.fold(f64::NEG_INFINITY, |m, x| m.max(*x))) / 2.0
    });
    let means = a.mean_axis(Axis(0)).expect("there are rows");
    // The rounding errors of an entry of X − 1xᵀ, x the mean, and of the sums of n or d of them.
    let count = [n, d].map(|n| n as f64);
    let error = (count[0] + count[1]) * (count[0] + 8.0) * f64::EPSILON * largest(&a);
    let less = |x: f64| (x - error).max(0.0).sqrt();
    let at_means = Remainder::at(&a, &means);
    let apart = less(Remainder::at(&a, &medians).columns) * less(diameter(&a)) / 2_f64.sqrt();
    let near = less(at_means.columns) * less(at_means.rows) / (2.0 - 2.0 / count[0]);
    let lower = match n {
        1 => 0.0,
        _ => apart.max(near),
    };
    let mut upper = at_means.size();
    let mut sums = [at_means.columns, at_means.rows];
    let mut best = means;
    for start in [medians, middles] {
        let found = Remainder::at(&a, &start);
        if found.size() < upper {
            (upper, sums, best) = (found.size(), [found.columns, found.rows], start);
        }
    }
    let mut x = best;
    for _ in 0..STEPS {
        let residual = Remainder::at(&a, &x);
        let (size, slope) = (residual.size(), residual.slope(&a, &x));
        if size < upper {
            (upper, sums) = (size, [residual.columns, residual.rows]);
        }
        let steepness = slope.dot(&slope);
        if size <= lower || steepness == 0.0 {
            break;
        }
        x.scaled_add(-(size - lower) / steepness, &slope);
    }
    let above = (sums[0] + error).sqrt() * (sums[1] + error).sqrt();
    // The last roundings, those of the factor 2(1 − 1/n) among them.
    let last = 8.0 * f64::EPSILON;
    Interval {
        lower: Lower::new((lower * (1.0 - last) * unit).min(f64::MAX)),
        upper: Upper::new(above * (1.0 + last) * unit),
    }
}

/// X − 1xᵀ: its norms, and where they are attained.
struct Remainder {
    columns: f64,
    rows: f64,
    column: usize,
    row: usize,
}

impl Remainder {
    fn at(a: &Array2<f64>, x: &Array1<f64>) -> Self {
        let size = (a - x).mapv(f64::abs);
        let largest = |axis| {
            let sums = size.sum_axis(Axis(axis));
            let start = (0, 0.0);
            let pick = |m: (usize, f64), (k, &s): (usize, &f64)| if s > m.1 { (k, s) } else { m };
            sums.iter().enumerate().fold(start, pick)
        };
        let ((column, columns), (row, rows)) = (largest(0), largest(1));
        Self {
            columns,
            rows,
            column,
            row,
        }
    }

    fn size(&self) -> f64 {
        self.columns.sqrt() * self.rows.sqrt()
    }

    /// A subgradient of the size by x.
    fn slope(&self, a: &Array2<f64>, x: &Array1<f64>) -> Array1<f64> {
        let sign = |r: f64| if r == 0.0 { 0.0 } else { r.signum() };
        let half = self.size() / 2.0;
        let mut slope = Array1::zeros(x.len());
        if self.columns == 0.0 || self.rows == 0.0 {
            return slope;
        }
        for (k, s) in slope.iter_mut().enumerate() {
            *s -= half * sign(a[[self.row, k]] - x[k]) / self.rows;
        }
        let at = x[self.column];
        let turns: f64 = a.column(self.column).iter().map(|a| sign(a - at)).sum();
        slope[self.column] -= half * turns / self.columns;
        slope
    }
}

fn median(column: ArrayView1<'_, f64>) -> f64 {
    let mut sorted = column.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    f64::midpoint(sorted[(n - 1) / 2], sorted[n / 2])
}

/// The ‖·‖₁ distance of two rows that are far apart: the farthest from the first row, and the farthest from
/// that one.
fn diameter(a: &Array2<f64>) -> f64 {
    let farthest = |from: usize| {
        let distances = a.outer_iter().map(|row| {
            let difference = &row - &a.row(from);
            difference.mapv(f64::abs).sum()
        });
        let pick = |m: (usize, f64), (k, s)| if s > m.1 { (k, s) } else { m };
        distances.enumerate().fold((from, 0.0), pick)
    };
    farthest(farthest(0).0).1
}
