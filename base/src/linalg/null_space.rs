//! The null space of a matrix with many columns, for which a full decomposition would take too long.

use super::{qr, svd};
use crate::kernels::gemm::matmul;
use crate::kernels::{axpy, dot};
use ndarray::{Array2, ArrayView2, Axis, s};

/// The directions that a matrix does not see, with the gap that separates them from the others.
///
/// Singular values are relative to √(Σ a_ij²/n), their root mean square.
#[derive(Debug, Clone, PartialEq)]
pub struct NullSpace {
    /// An orthonormal basis in columns, `[n, k]`.
    pub basis: Array2<f64>,
    /// The largest relative singular value counted as zero; 0 if there is none.
    pub inside: f64,
    /// The smallest relative singular value that is not counted as zero; ∞ if there is none.
    pub outside: f64,
}

/// Entries of a reduced basis up to this size are rounding.
const ROUNDING: f64 = 1e-12;

impl NullSpace {
    /// The reduced basis in rows, `[k, n]`: each row has an entry 1 in a column where all other rows have 0.
    ///
    /// These columns are chosen one after the other: each time the one with the longest part orthogonal to
    /// those chosen before, and of nearly equal ones the first. The lengths are the same for every orthonormal
    /// basis of the space, so the result does not depend on the basis that was found.
    ///
    /// ```
    /// use emmy_base::linalg::null_space;
    /// use ndarray::array;
    ///
    /// // a + b + c = 0: c = −a − b.
    /// let equations = array![[1.0, 1.0, 1.0], [2.0, 2.0, 2.0], [0.0, 0.0, 0.0]];
    /// let reduced = null_space(equations.view(), 1e-10).reduced();
    /// let expected = array![[1.0, 0.0, -1.0], [0.0, 1.0, -1.0]];
    /// assert!((reduced - expected).iter().all(|x| x.abs() < 1e-12));
    /// ```
    pub fn reduced(&self) -> Array2<f64> {
        let mut rows = self.basis.t().as_standard_layout().into_owned();
        let (k, n) = rows.dim();
        let mut rest = rows.clone();
        for done in 0..k {
            let mut lengths = vec![0.0; n];
            for row in rest.rows() {
                let row = row.to_slice().expect("contiguous");
                for j in 0..n {
                    lengths[j] += row[j] * row[j];
                }
            }
            let longer = |best: usize, j| match lengths[j] > lengths[best] * (1.0 + 1e-6) {
                true => j,
                false => best,
            };
            let column = (0..n).fold(0, longer);
            if lengths[column] < 1e-18 {
                break;
            }
            let along = rest.column(column).to_vec();
            let mut shares = vec![0.0; n];
            for (row, &x) in rest.rows().into_iter().zip(&along) {
                axpy(
                    x / lengths[column],
                    row.to_slice().expect("contiguous"),
                    &mut shares,
                );
            }
            for (row, &x) in rest.rows_mut().into_iter().zip(&along) {
                axpy(-x, &shares, row.into_slice().expect("contiguous"));
            }
            let size = |i: &usize| rows[[*i, column]].abs();
            let pivot = (done..k).max_by(|i, j| size(i).total_cmp(&size(j)));
            let pivot = pivot.expect("a row is left");
            let (own, other) = (rows.row(pivot).to_owned(), rows.row(done).to_owned());
            rows.row_mut(pivot).assign(&other);
            let own = &own / own[column];
            rows.row_mut(done).assign(&own);
            let own = own.as_slice().expect("contiguous");
            for i in (0..k).filter(|&i| i != done) {
                let factor = rows[[i, column]];
                let row = rows.row_mut(i).into_slice().expect("contiguous");
                axpy(-factor, own, row);
            }
        }
        rows.mapv_inplace(|x| if x.abs() < ROUNDING { 0.0 } else { x });
        rows
    }
}

/// Columns of a block that is factored at once.
const BLOCK: usize = 64;

/// Steps of the inverse iteration. Each divides what is left of a direction with the relative singular
/// value σ by σ²/[`SHIFT`].
const STEPS: usize = 3;

/// Steps where some directions are doubtful.
const MOST_STEPS: usize = 30;

/// Relative singular values that are neither rounding nor far from it.
const DOUBTFUL: std::ops::Range<f64> = 1e-13..1e-6;

/// μ, what is added to the diagonal of AᵀA, relative to its mean: above its rounding, below σ² of every
/// direction that matters.
const SHIFT: f64 = 1e-12;

/// The null space of `a`, `[m, n]`: all directions whose relative singular value is at most `tolerance`.
///
/// Inverse iteration on AᵀA finds a space that contains them, at the cost of one Cholesky factor. Forming
/// AᵀA loses half of the digits, so the singular values are computed from A times the basis of this space.
///
/// # Panics
/// If an entry is not finite, or there are fewer rows than columns.
#[track_caller]
pub fn null_space(a: ArrayView2<'_, f64>, tolerance: f64) -> NullSpace {
    super::check("null_space", a);
    let (m, n) = a.dim();
    assert!(m >= n, "null_space: {m} rows for {n} columns");
    let scale = (a.fold(0.0, |sum, x| sum + x * x) / n.max(1) as f64).sqrt();
    if scale == 0.0 {
        return NullSpace {
            basis: Array2::eye(n),
            inside: 0.0,
            outside: f64::INFINITY,
        };
    }
    let a = &a / scale;
    let mut gram = matmul(a.t(), a.view());
    gram.diag_mut().mapv_inplace(|x| x + SHIFT);
    let factor = cholesky(gram);
    let mut null = Array2::zeros((n, 0));
    let mut inside = 0.0_f64;
    loop {
        // Ever larger blocks of directions that are orthogonal to those found.
        let found = null.ncols();
        let width = (found + 32).min(128).min(n - found);
        if width == 0 {
            return NullSpace {
                basis: null,
                inside,
                outside: f64::INFINITY,
            };
        }
        let mut x = start(n, found, width);
        let mut step = 0;
        let (sigma, vt) = loop {
            // (AᵀA + μ)⁻¹ x up to the factor μ. With A x computed anew, the rounding of AᵀA does not limit
            // the accuracy of x, only the speed at which it is reached.
            let mut seen = matmul(a.t(), matmul(a.view(), x.view()).view());
            solve(&factor, &mut seen);
            x = x - seen;
            x = &x - &matmul(null.view(), matmul(null.t(), x.view()).view());
            x = qr(x.view()).0;
            step += 1;
            if step < STEPS {
                continue;
            }
            let (_, sigma, vt) = svd(matmul(a.view(), x.view()).view());
            // Directions with a σ near √μ leave slowly.
            if step == MOST_STEPS || !sigma.iter().any(|s| DOUBTFUL.contains(s)) {
                break (sigma, vt);
            }
        };
        let seen = sigma.iter().filter(|&&s| s > tolerance).count();
        let more = matmul(x.view(), vt.slice(s![seen.., ..]).t());
        null = ndarray::concatenate![Axis(1), null, more];
        inside = sigma.iter().skip(seen).copied().fold(inside, f64::max);
        // If every direction of the block is a null direction there may be more.
        if seen > 0 {
            return NullSpace {
                basis: null,
                inside,
                outside: sigma[seen - 1],
            };
        }
    }
}

/// Columns without a preferred direction: the fractional parts of multiples of irrational numbers.
fn start(n: usize, first: usize, width: usize) -> Array2<f64> {
    Array2::from_shape_fn((n, width), |(i, j)| {
        let x = (i + 1) as f64 * ((first + j + 2) as f64).sqrt() * 0.618_033_988_749_895;
        x.fract() - 0.5
    })
}

/// L with L Lᵀ = A, in the lower triangle. A pivot that rounding made negative is raised to the shift.
///
/// Golub and Van Loan, "Matrix Computations", 4th ed., section 4.2.5.
fn cholesky(mut a: Array2<f64>) -> Array2<f64> {
    let n = a.nrows();
    for k in (0..n).step_by(BLOCK) {
        let end = (k + BLOCK).min(n);
        if k > 0 {
            let done = matmul(a.slice(s![k.., ..k]), a.slice(s![k..end, ..k]).t());
            let mut panel = a.slice_mut(s![k.., k..end]);
            panel -= &done;
        }
        let all = a.as_slice_mut().expect("contiguous");
        for i in k..n {
            for j in k..end.min(i + 1) {
                // What the columns of this block explain.
                let done = dot(&all[i * n + k..i * n + j], &all[j * n + k..j * n + j]);
                let rest = all[i * n + j] - done;
                all[i * n + j] = match i == j {
                    true => rest.max(SHIFT * 1e-2).sqrt(),
                    false => rest / all[j * n + j],
                };
            }
        }
    }
    a
}

/// X ← (L Lᵀ)⁻¹ X.
fn solve(l: &Array2<f64>, x: &mut Array2<f64>) {
    let (n, width) = x.dim();
    let blocks: Vec<usize> = (0..n).step_by(BLOCK).collect();
    for &k in &blocks {
        let end = (k + BLOCK).min(n);
        if k > 0 {
            let done = matmul(l.slice(s![k..end, ..k]), x.slice(s![..k, ..]));
            let mut part = x.slice_mut(s![k..end, ..]);
            part -= &done;
        }
        for i in k..end {
            let all = x.as_slice_mut().expect("contiguous");
            let (above, row) = all[..(i + 1) * width].split_at_mut(i * width);
            for j in k..i {
                axpy(-l[[i, j]], &above[j * width..][..width], row);
            }
            x.row_mut(i).mapv_inplace(|y| y / l[[i, i]]);
        }
    }
    for &k in blocks.iter().rev() {
        let end = (k + BLOCK).min(n);
        if end < n {
            let done = matmul(l.slice(s![end.., k..end]).t(), x.slice(s![end.., ..]));
            let mut part = x.slice_mut(s![k..end, ..]);
            part -= &done;
        }
        for i in (k..end).rev() {
            let all = x.as_slice_mut().expect("contiguous");
            let (row, below) = all[i * width..].split_at_mut(width);
            for j in i + 1..end {
                axpy(-l[[j, i]], &below[(j - i - 1) * width..][..width], row);
            }
            x.row_mut(i).mapv_inplace(|y| y / l[[i, i]]);
        }
    }
}
