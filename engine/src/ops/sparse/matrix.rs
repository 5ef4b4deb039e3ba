//! A sparse matrix as one object: pattern and values, with the operations on them as methods.

use super::{
    Orientation, product_shape, segment_softmax, segment_sum, segment_sum_columns, spmm, spmm_t,
};
use crate::autodiff::{Tape, Var};
use crate::real::Real;
use crate::sparse::{Csr, Pattern};
use std::sync::Arc;

/// A sparse matrix on the tape.
///
/// ```
/// use emmy::{Tape, sparse::Csr, tensor::tensor};
/// let dense = tensor(&[2, 2], vec![1.0_f64, 2.0, 0.0, 3.0]);
/// let tape = Tape::new();
/// let s = tape.sparse(&Csr::from_dense(&dense));
/// assert_eq!(s.values.shape(), [3]);
/// let x = tape.constant(tensor(&[2, 1], vec![1.0, 10.0]));
/// assert_eq!(s.matmul(x).value(), tensor(&[2, 1], vec![21.0, 30.0]));
/// assert_eq!(s.t_matmul(x).value(), tensor(&[2, 1], vec![1.0, 32.0]));
/// assert_eq!(s.row_sums().value(), tensor(&[2], vec![3.0, 3.0]));
/// assert_eq!(s.to_dense().value(), dense);
/// ```
#[derive(Clone, Debug)]
pub struct Sparse<'t, F: Real> {
    /// Which entries exist.
    pub pattern: Arc<Pattern>,
    /// Their values, shape `[nnz]` or `[nnz, H]`.
    pub values: Var<'t, F>,
}

impl<F: Real> Tape<F> {
    /// A constant sparse matrix: a leaf that is multiplied without being made dense.
    ///
    /// # Panics
    /// If `matrix` does not have one value per entry.
    #[track_caller]
    pub fn sparse(&self, matrix: &Csr<F>) -> Sparse<'_, F> {
        let matrix = Sparse {
            pattern: Arc::clone(&matrix.pattern),
            values: self.constant(matrix.values.clone()),
        };
        matrix.check("sparse");
        matrix
    }
}

impl<'t, F: Real> Sparse<'t, F> {
    /// A matrix of a pattern and values, shape `[nnz]` or `[nnz, H]`.
    ///
    /// # Panics
    /// If there is not one value (one row of values) per entry.
    #[track_caller]
    pub fn new(pattern: &Arc<Pattern>, values: Var<'t, F>) -> Self {
        let matrix = Self {
            pattern: Arc::clone(pattern),
            values,
        };
        matrix.check("Sparse::new");
        matrix
    }

    /// Refuses values that do not belong to the pattern. The fields are public, so every operation that has
    /// no check of its own calls this one.
    #[track_caller]
    fn check(&self, op: &str) {
        let shape = self.values.shape();
        assert!(
            matches!(shape.len(), 1 | 2) && shape[0] == self.pattern.nnz(),
            "{op}: {} entries need values of shape [nnz] or [nnz, H], not {shape:?}",
            self.pattern.nnz()
        );
    }

    /// S x; see [`spmm`].
    ///
    /// # Panics
    /// If the shapes do not fit.
    #[track_caller]
    pub fn matmul(&self, x: Var<'t, F>) -> Var<'t, F> {
        product_shape(
            "Sparse::matmul",
            &self.pattern,
            Orientation::Plain,
            self.values,
            x,
        );
        spmm(&self.pattern, self.values, x)
    }

    /// Sᵀ x; see [`spmm_t`].
    ///
    /// # Panics
    /// If the shapes do not fit.
    #[track_caller]
    pub fn t_matmul(&self, x: Var<'t, F>) -> Var<'t, F> {
        product_shape(
            "Sparse::t_matmul",
            &self.pattern,
            Orientation::Transposed,
            self.values,
            x,
        );
        spmm_t(&self.pattern, self.values, x)
    }

    /// y = S Wᵀ for a dense weight `[out, m]`: sparse features through a layer, `[n, out]`.
    ///
    /// # Panics
    /// If the shapes do not fit, or the matrix has heads.
    #[track_caller]
    pub fn linear(&self, w: Var<'t, F>) -> Var<'t, F> {
        let (values, shape) = (self.values.shape(), w.shape());
        let (nnz, inputs) = (self.pattern.nnz(), self.pattern.cols());
        assert!(
            values == [nnz] && shape.len() == 2 && shape[1] == inputs,
            "Sparse::linear: values {values:?} and weight {shape:?}: they must be [{nnz}] and [out, {inputs}]"
        );
        w.tape().accept("Sparse::linear", &[self.values]);
        spmm(&self.pattern, self.values, w.t())
    }

    /// Sᵀ, its entries in the order of the transposed pattern.
    ///
    /// # Panics
    /// If there is not one value (one row of values) per entry.
    #[track_caller]
    pub fn t(&self) -> Self {
        self.check("Sparse::t");
        let transposed = self.pattern.transposed();
        let order: Vec<usize> = transposed.entry.iter().map(|&e| e as usize).collect();
        Self::new(&transposed.pattern, self.values.index_select(0, order))
    }

    /// The sum of each row, shape `[n]` or `[n, H]`.
    ///
    /// # Panics
    /// If there is not one value (one row of values) per entry.
    #[track_caller]
    pub fn row_sums(&self) -> Var<'t, F> {
        self.check("Sparse::row_sums");
        segment_sum(&self.pattern, self.values)
    }

    /// The sum of each column, shape `[m]` or `[m, H]`.
    ///
    /// # Panics
    /// If there is not one value (one row of values) per entry.
    #[track_caller]
    pub fn column_sums(&self) -> Var<'t, F> {
        self.check("Sparse::column_sums");
        segment_sum_columns(&self.pattern, self.values)
    }

    /// The softmax of each row over its entries.
    ///
    /// # Panics
    /// If there is not one value (one row of values) per entry.
    #[track_caller]
    pub fn softmax(&self) -> Self {
        self.check("Sparse::softmax");
        Self::new(&self.pattern, segment_softmax(&self.pattern, self.values))
    }

    /// The matrix with its zeros written out, shape `[n, m]` or `[n, m, H]`.
    ///
    /// # Panics
    /// If there is not one value (one row of values) per entry.
    #[track_caller]
    pub fn to_dense(&self) -> Var<'t, F> {
        self.check("Sparse::to_dense");
        let (n, m) = self.pattern.shape();
        let entries = self.pattern.rows_of().iter().zip(self.pattern.indices());
        let places: Vec<usize> = entries
            .map(|(&i, &j)| i as usize * m + j as usize)
            .collect();
        let mut shape = self.values.shape();
        shape.splice(0..1, [n, m]);
        self.values.index_add(0, places, n * m).reshape(&shape)
    }
}
