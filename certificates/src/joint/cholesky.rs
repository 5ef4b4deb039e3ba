//! Symmetric matrices of blocks, of which most may be zero: their Cholesky factor and inverse, as fast as the
//! products of blocks are. Nothing here is a proof.

use crate::kernels::gemm::matmul;
use ndarray::{Array2, ArrayView2, ArrayViewMut2, s};
use std::collections::BTreeMap;
use std::ops::Range;

/// A symmetric matrix by its blocks on and below the diagonal; blocks that are absent are zero.
#[derive(Clone)]
pub(super) struct Blocks {
    /// The first row of each block, and the number of all rows.
    starts: Vec<usize>,
    /// The blocks of each column of blocks, by their row.
    columns: Vec<BTreeMap<usize, Array2<f64>>>,
}

impl Blocks {
    pub fn zeros(sizes: &[usize]) -> Self {
        Self {
            starts: starts(sizes),
            columns: vec![BTreeMap::new(); sizes.len()],
        }
    }

    /// The rows of block i.
    pub fn rows(&self, i: usize) -> Range<usize> {
        self.starts[i]..self.starts[i + 1]
    }

    /// Block (i, j), i ≥ j; zero if it was absent.
    pub fn at(&mut self, i: usize, j: usize) -> &mut Array2<f64> {
        let shape = (self.rows(i).len(), self.rows(j).len());
        self.columns[j]
            .entry(i)
            .or_insert_with(|| Array2::zeros(shape))
    }

    /// The matrix with its diagonal raised by this part of it.
    pub fn damped(&self, by: f64) -> Self {
        let mut damped = self.clone();
        for k in 0..self.columns.len() {
            damped.at(k, k).diag_mut().mapv_inplace(|x| x * (1.0 + by));
        }
        damped
    }

    /// The factor; `None` if the matrix is not positive definite, as far as this computation shows.
    pub fn cholesky(mut self) -> Option<Factor> {
        let mut inverses = Vec::with_capacity(self.columns.len());
        for k in 0..self.columns.len() {
            let mut column = std::mem::take(&mut self.columns[k]);
            let inverse = factor_block(column.get_mut(&k)?.view_mut())?;
            for (_, block) in column.range_mut(k + 1..) {
                *block = matmul(block.view(), inverse.t());
            }
            for (j, right) in column.range(k + 1..) {
                for (i, left) in column.range(j..) {
                    *self.at(*i, *j) -= &matmul(left.view(), right.t());
                }
            }
            inverses.push(inverse);
            self.columns[k] = column;
        }
        Some(Factor {
            lower: self,
            inverses,
        })
    }
}

/// The lower triangle L with L Lᵀ = A.
pub(super) struct Factor {
    lower: Blocks,
    /// The inverses of the blocks on the diagonal of L.
    inverses: Vec<Array2<f64>>,
}

impl Factor {
    /// ln det A.
    pub fn log_det(&self) -> f64 {
        let pivots = self
            .lower
            .columns
            .iter()
            .enumerate()
            .flat_map(|(k, column)| column[&k].diag().to_vec());
        2.0 * pivots.map(f64::ln).sum::<f64>()
    }

    /// x ← A⁻¹ x.
    pub fn solve(&self, x: &mut Array2<f64>) {
        let count = self.inverses.len();
        for k in 0..count {
            let solved = matmul(self.inverses[k].view(), x.slice(s![self.lower.rows(k), ..]));
            for (i, block) in self.lower.columns[k].range(k + 1..) {
                let mut rest = x.slice_mut(s![self.lower.rows(*i), ..]);
                rest -= &matmul(block.view(), solved.view());
            }
            x.slice_mut(s![self.lower.rows(k), ..]).assign(&solved);
        }
        for k in (0..count).rev() {
            let mut rest = x.slice(s![self.lower.rows(k), ..]).to_owned();
            for (i, block) in self.lower.columns[k].range(k + 1..) {
                rest -= &matmul(block.t(), x.slice(s![self.lower.rows(*i), ..]));
            }
            let solved = matmul(self.inverses[k].t(), rest.view());
            x.slice_mut(s![self.lower.rows(k), ..]).assign(&solved);
        }
    }

    /// A⁻¹ = S. From L Lᵀ S = 1 follows S L = L⁻ᵀ, whose blocks below the diagonal are 0. So with B_i = L_ik
    /// L_kk⁻¹ for the blocks below the diagonal of column k, from the last column to the first:
    /// S_jk = −Σ_i S_ji B_i for j > k, and S_kk = L_kk⁻ᵀ L_kk⁻¹ − Σ_i B_iᵀ S_ik.
    pub fn inverse(&self) -> Array2<f64> {
        let n = self.lower.starts[self.inverses.len()];
        let mut all = Array2::zeros((n, n));
        for (k, own) in self.inverses.iter().enumerate().rev() {
            let (rows, column) = (self.lower.rows(k), &self.lower.columns[k]);
            let factors: Vec<_> = column
                .range(k + 1..)
                .map(|(i, block)| (self.lower.rows(*i), matmul(block.view(), own.view())))
                .collect();
            let mut below = Array2::zeros((n - rows.end, rows.len()));
            for (i, b) in &factors {
                below -= &matmul(all.slice(s![rows.end.., i.clone()]), b.view());
            }
            let mut corner = matmul(own.t(), own.view());
            for (i, b) in &factors {
                let of_i = below.slice(s![i.start - rows.end..i.end - rows.end, ..]);
                corner -= &matmul(b.t(), of_i);
            }
            all.slice_mut(s![rows.end.., rows.clone()]).assign(&below);
            all.slice_mut(s![rows.clone(), rows.end..])
                .assign(&below.t());
            all.slice_mut(s![rows.clone(), rows]).assign(&corner);
        }
        all
    }
}

/// Where each of several blocks begins, and the end.
pub(super) fn starts(sizes: &[usize]) -> Vec<usize> {
    let ends = sizes.iter().scan(0, |end, n| {
        *end += n;
        Some(*end)
    });
    [0].into_iter().chain(ends).collect()
}

/// Blocks of at most so many rows are factored entry by entry, larger ones by halves.
const SMALL: usize = 48;

/// L of one block, in place, and its inverse; `None` if a pivot is not positive.
///
/// By halves: L₁₁ L₁₁ᵀ = A₁₁, L₂₁ = A₂₁ L₁₁⁻ᵀ, L₂₂ L₂₂ᵀ = A₂₂ − L₂₁ L₂₁ᵀ, and block (2, 1) of the inverse is
/// −L₂₂⁻¹ L₂₁ L₁₁⁻¹.
fn factor_block(mut a: ArrayViewMut2<'_, f64>) -> Option<Array2<f64>> {
    let n = a.nrows();
    if n <= SMALL {
        factor_small(&mut a)?;
        return Some(inverse_of_lower(a.view()));
    }
    let half = n / 2;
    let first = factor_block(a.slice_mut(s![..half, ..half]))?;
    let below = matmul(a.slice(s![half.., ..half]), first.t());
    a.slice_mut(s![..half, half..]).fill(0.0);
    let mut rest = a.slice_mut(s![half.., half..]);
    rest -= &matmul(below.view(), below.t());
    let second = factor_block(rest)?;
    let mut inverse = Array2::zeros((n, n));
    let corner = matmul(second.view(), matmul(below.view(), first.view()).view());
    inverse.slice_mut(s![half.., ..half]).assign(&-corner);
    inverse.slice_mut(s![..half, ..half]).assign(&first);
    inverse.slice_mut(s![half.., half..]).assign(&second);
    a.slice_mut(s![half.., ..half]).assign(&below);
    Some(inverse)
}

/// L, entry by entry, in place.
fn factor_small(a: &mut ArrayViewMut2<'_, f64>) -> Option<()> {
    for i in 0..a.nrows() {
        for j in 0..=i {
            let rest = a[[i, j]] - a.slice(s![i, ..j]).dot(&a.slice(s![j, ..j]));
            if i != j {
                a[[i, j]] = rest / a[[j, j]];
            } else if rest > 0.0 && rest.is_finite() {
                a[[i, i]] = rest.sqrt();
            } else {
                return None;
            }
        }
        a.slice_mut(s![i, i + 1..]).fill(0.0);
    }
    Some(())
}

/// L⁻¹ of a lower triangle L, row by row: row i of L⁻¹ is (e_i − Σ_{k<i} L_ik · row k) / L_ii.
fn inverse_of_lower(l: ArrayView2<'_, f64>) -> Array2<f64> {
    let mut inverse = Array2::zeros(l.dim());
    for i in 0..l.nrows() {
        inverse[[i, i]] = 1.0;
        for k in 0..i {
            let (above, mut row) = inverse.multi_slice_mut((s![k, ..=k], s![i, ..=k]));
            row.scaled_add(-l[[i, k]], &above);
        }
        inverse
            .slice_mut(s![i, ..=i])
            .mapv_inplace(|x| x / l[[i, i]]);
    }
    inverse
}
