//! A constant sparse matrix: a pattern and its values.

use super::Pattern;
use crate::error::Result;
use crate::real::Real;
use crate::tensor::{Tensor, tensor};
use sprs::CsMat;
use std::sync::Arc;

/// A constant sparse matrix of shape `[n, m]`: a shared [`Pattern`] and one value per entry.
///
/// Features of a data set and normalised adjacencies are of this kind; as leaves on the tape they are
/// multiplied without ever being made dense.
#[derive(Debug, Clone, PartialEq)]
pub struct Csr<F: Real> {
    /// Which entries exist.
    pub pattern: Arc<Pattern>,
    /// Their values, shape `[nnz]`, in the order of the pattern.
    pub values: Tensor<F>,
}

impl<F: Real> Csr<F> {
    /// A matrix from its structure and values.
    ///
    /// # Panics
    /// If there is not exactly one value per entry.
    #[track_caller]
    pub fn new(pattern: Arc<Pattern>, values: Vec<F>) -> Self {
        let values = tensor(&[pattern.nnz()], values);
        Self { pattern, values }
    }

    /// The matrix of a sprs matrix that is compressed by rows or by columns.
    ///
    /// # Errors
    /// If a size exceeds 2³² − 1.
    pub fn from_sprs(matrix: &CsMat<F>) -> Result<Self> {
        let csr = matrix.to_csr();
        Ok(Self::new(Pattern::from_sprs(&csr)?, csr.data().to_vec()))
    }

    /// A copy as a sprs matrix, compressed by rows.
    pub fn to_sprs(&self) -> CsMat<F> {
        self.pattern.to_sprs(self.values.iter().copied().collect())
    }

    /// The non-zero elements of a dense matrix.
    ///
    /// # Panics
    /// If `dense` does not have two dimensions, or one of them exceeds 2³² − 1.
    #[track_caller]
    pub fn from_dense(dense: &Tensor<F>) -> Self {
        let [n, m] = dense.shape() else {
            panic!(
                "Csr::from_dense: a matrix has two dimensions, not {:?}",
                dense.shape()
            )
        };
        let (n, m) = (*n, *m);
        let mut indptr = vec![0];
        let (mut indices, mut values) = (Vec::new(), Vec::new());
        for i in 0..n {
            for j in 0..m {
                let x = dense[[i, j]];
                if x != F::zero() {
                    indices.push(j as u32);
                    values.push(x);
                }
            }
            indptr.push(indices.len());
        }
        let pattern =
            Pattern::new(n, m, indptr, indices).unwrap_or_else(|e| panic!("Csr::from_dense: {e}"));
        Self::new(pattern, values)
    }

    /// The matrix with its zeros written out, shape `[n, m]`.
    pub fn to_dense(&self) -> Tensor<F> {
        let mut out = Tensor::zeros(vec![self.pattern.rows(), self.pattern.cols()]);
        for (e, &x) in self.values.iter().enumerate() {
            let (i, j) = (self.pattern.rows_of()[e], self.pattern.indices()[e]);
            out[[i as usize, j as usize]] = x;
        }
        out
    }

    /// The given rows, one after the other.
    ///
    /// # Panics
    /// If there is no row with a given number, or the result has more than 2³² − 1 entries.
    #[track_caller]
    pub fn select_rows(&self, rows: &[usize]) -> Self {
        let mut indptr = vec![0];
        let (mut indices, mut values) = (Vec::new(), Vec::new());
        for &i in rows {
            let count = self.pattern.rows();
            assert!(i < count, "select_rows: row {i}, there are {count}");
            let entries = self.pattern.row(i);
            indices.extend_from_slice(&self.pattern.indices()[entries.clone()]);
            values.extend(entries.map(|e| self.values[[e]]));
            indptr.push(indices.len());
        }
        let pattern = Pattern::new(rows.len(), self.pattern.cols(), indptr, indices)
            .unwrap_or_else(|e| panic!("select_rows: {e}"));
        Self::new(pattern, values)
    }

    /// The same matrix in the other float type.
    pub fn cast<G: Real>(&self) -> Csr<G> {
        Csr {
            pattern: Arc::clone(&self.pattern),
            values: self.values.mapv(|x| G::of(x.as_f64())).into_shared(),
        }
    }
}
