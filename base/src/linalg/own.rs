//! Householder and Jacobi: short, accurate to rounding, and fast enough for matrices of some hundred columns.

use crate::kernels::axpy;
use ndarray::{Array1, Array2, ArrayView2, Axis, s};

/// Jacobi converges quadratically; a few sweeps are usually enough.
const SWEEPS: usize = 60;

/// Householder's reflections H_i = I − 2 v_i v_iᵀ, one per column; Q = H_0 H_1 … applied to the identity.
///
/// Golub and Van Loan, "Matrix Computations", 4th ed., algorithm 5.2.1.
pub(super) fn qr(a: ArrayView2<'_, f64>) -> (Array2<f64>, Array2<f64>) {
    let (m, n) = a.dim();
    let k = m.min(n);
    let mut r = a.as_standard_layout().into_owned();
    let mut reflectors = Vec::with_capacity(k);
    for i in 0..k {
        // Scaled by its largest entry, so that squares neither overflow nor vanish.
        let mut v = r.slice(s![i.., i]).to_owned();
        let size = v.fold(0.0_f64, |m, x| m.max(x.abs()));
        if size > 0.0 {
            v /= size;
            let norm = v.dot(&v).sqrt();
            v[0] += norm.copysign(v[0]);
            let norm = v.dot(&v).sqrt();
            v /= norm;
            reflect(&v, r.slice_mut(s![i.., i..]));
            r.slice_mut(s![i + 1.., i]).fill(0.0);
        }
        reflectors.push(v);
    }
    let mut q = Array2::eye(m).slice_move(s![.., ..k]);
    for (i, v) in reflectors.iter().enumerate().rev() {
        reflect(v, q.slice_mut(s![i.., i..]));
    }
    (q, r.slice_move(s![..k, ..]))
}

/// A ← A − 2 v (vᵀ A); A stays as it is for v = 0.
fn reflect(v: &Array1<f64>, mut a: ndarray::ArrayViewMut2<'_, f64>) {
    let mut w = vec![0.0; a.ncols()];
    for (row, &x) in a.rows().into_iter().zip(v) {
        axpy(x, row.to_slice().expect("contiguous"), &mut w);
    }
    for (row, &x) in a.rows_mut().into_iter().zip(v) {
        axpy(-2.0 * x, &w, row.into_slice().expect("contiguous"));
    }
}

/// One-sided Jacobi (Hestenes) on the triangular factor: rotations make the columns of R V orthogonal; their
/// lengths are s.
///
/// Golub and Van Loan, section 8.6.3. Small singular values keep their relative accuracy as far as QR leaves
/// it.
pub(super) fn svd(a: ArrayView2<'_, f64>) -> (Array2<f64>, Array1<f64>, Array2<f64>) {
    let (m, n) = a.dim();
    if m < n {
        let (u, s, vt) = svd(a.t());
        return (vt.reversed_axes(), s, u.reversed_axes());
    }
    // Squares of entries are summed below: with the largest entry at 1 they neither overflow nor vanish.
    let size = a.fold(0.0_f64, |m, x| m.max(x.abs()));
    let (q, r) = qr((&a / if size > 0.0 { size } else { 1.0 }).view());
    // Row j of `g` is column j of R V, row j of `vt` is column j of V: both are rotated alike, and rows lie
    // together in memory.
    let mut g = r.t().as_standard_layout().to_owned();
    let mut vt = Array2::<f64>::eye(n);
    for _ in 0..SWEEPS {
        let mut rotated = false;
        for i in 0..n {
            for j in i + 1..n {
                let (x, y) = (g.row(i), g.row(j));
                let (xx, yy, xy) = (x.dot(&x), y.dot(&y), x.dot(&y));
                if xy.abs() > f64::EPSILON * xx.sqrt() * yy.sqrt() && xy != 0.0 {
                    rotated = true;
                    let (c, s) = rotation((yy - xx) / (2.0 * xy));
                    rotate(&mut g, i, j, c, s);
                    rotate(&mut vt, i, j, c, s);
                }
            }
        }
        if !rotated {
            break;
        }
    }
    let lengths: Array1<f64> = g.rows().into_iter().map(|x| x.dot(&x).sqrt()).collect();
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| lengths[j].total_cmp(&lengths[i]));
    let s = lengths.select(Axis(0), &order);
    let vt = vt.select(Axis(0), &order);
    let mut left = g.select(Axis(0), &order);
    for (mut row, &s) in left.rows_mut().into_iter().zip(&s) {
        row.mapv_inplace(|x| if s > 0.0 { x / s } else { 0.0 });
    }
    complete(&mut left, &s);
    (q.dot(&left.t()), s * size, vt)
}

/// Replaces the rows without a direction (s = 0 to rounding) by orthonormal ones, by Gram and Schmidt's
/// method from the unit vectors.
fn complete(rows: &mut Array2<f64>, s: &Array1<f64>) {
    let n = rows.ncols();
    let rank = s.iter().filter(|&&x| x > s[0] * 1e-15).count();
    let mut unit = 0;
    for i in rank..rows.nrows() {
        loop {
            let mut e = Array1::zeros(n);
            e[unit] = 1.0;
            unit += 1;
            for _ in 0..2 {
                for k in 0..i {
                    let overlap = rows.row(k).dot(&e);
                    e.scaled_add(-overlap, &rows.row(k));
                }
            }
            let norm = e.dot(&e).sqrt();
            // In each step at least one of the n unit vectors keeps 1/√n of its length, so the loop ends
            // before the unit vectors are used up.
            if norm > 0.5 / (n as f64).sqrt() || unit == n {
                rows.row_mut(i).assign(&(e / norm));
                break;
            }
        }
    }
}

/// Cyclic two-sided Jacobi: each rotation zeroes a pair a_ij = a_ji.
///
/// Golub and Van Loan, algorithm 8.5.3.
pub(super) fn eigh(a: ArrayView2<'_, f64>) -> (Array1<f64>, Array2<f64>) {
    let n = a.nrows();
    let mut d = a.as_standard_layout().to_owned();
    let mut vt = Array2::<f64>::eye(n);
    let size = d.fold(0.0_f64, |m, x| m.max(x.abs()));
    for _ in 0..SWEEPS {
        let mut rotated = false;
        for i in 0..n {
            for j in i + 1..n {
                let off = d[[i, j]];
                if off.abs() > f64::EPSILON * 0.25 * size {
                    rotated = true;
                    let (c, s) = rotation((d[[j, j]] - d[[i, i]]) / (2.0 * off));
                    rotate(&mut d, i, j, c, s);
                    for mut row in d.rows_mut() {
                        let (x, y) = (row[i], row[j]);
                        row[i] = c * x - s * y;
                        row[j] = s * x + c * y;
                    }
                    rotate(&mut vt, i, j, c, s);
                }
            }
        }
        if !rotated {
            break;
        }
    }
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| d[[i, i]].total_cmp(&d[[j, j]]));
    let lambda = order.iter().map(|&i| d[[i, i]]).collect();
    (lambda, vt.select(Axis(0), &order).reversed_axes())
}

/// cos and sin of the smaller angle with cot 2θ = τ.
fn rotation(tau: f64) -> (f64, f64) {
    let t = tau.signum() / (tau.abs() + tau.hypot(1.0));
    let c = t.hypot(1.0).recip();
    (c, t * c)
}

/// Rows i < j become c x − s y and s x + c y.
fn rotate(a: &mut Array2<f64>, i: usize, j: usize, c: f64, s: f64) {
    let (mut x, mut y) = a.multi_slice_mut((s![i, ..], s![j, ..]));
    let x = x.as_slice_mut().expect("contiguous");
    let y = y.as_slice_mut().expect("contiguous");
    for k in 0..x.len().min(y.len()) {
        (x[k], y[k]) = (c * x[k] - s * y[k], s * x[k] + c * y[k]);
    }
}
