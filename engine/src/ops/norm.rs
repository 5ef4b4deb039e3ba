//! Norms. The gradient of a norm at 0 is 0.

use crate::autodiff::Var;
use crate::real::Real;

impl<F: Real> Var<'_, F> {
    /// y = √(Σ x²) over `axes`,   x̄ = ȳ x / y, and 0 where y = 0. An empty list stands for all axes.
    ///
    /// ```
    /// use emmy::{Tape, autodiff::grad, tensor::tensor};
    /// let tape = Tape::new();
    /// let x = tape.var(tensor(&[2, 2], vec![3.0_f64, 4.0, 0.0, 0.0]));
    /// let y = x.norm(&[1], false);
    /// assert_eq!(y.value(), tensor(&[2], vec![5.0, 0.0]));
    /// // x / y, and 0 for the row of zeros.
    /// let g = &grad(y.sum_all(), &[x])[0];
    /// assert!(g.iter().zip([0.6, 0.8, 0.0, 0.0]).all(|(g, e)| (g - e).abs() < 1e-12));
    /// ```
    ///
    /// # Panics
    /// If an axis is out of range or occurs twice.
    #[track_caller]
    pub fn norm(self, axes: &[isize], keepdims: bool) -> Self {
        let squares = self.square();
        squares.sum_as("norm", axes, keepdims).sqrt_or_zero()
    }

    /// The norm of each row of a matrix, shape `[n, d]` → `[n]`
    ///
    /// # Panics
    /// If x does not have two dimensions.
    #[track_caller]
    pub fn row_norms(self) -> Self {
        self.matrix("row_norms").norm(&[1], false)
    }

    /// The norm of each column of a matrix, shape `[n, d]` → `[d]`
    ///
    /// # Panics
    /// If x does not have two dimensions.
    #[track_caller]
    pub fn column_norms(self) -> Self {
        self.matrix("column_norms").norm(&[0], false)
    }

    /// ‖x‖_F = √(Σ x²) over all elements, shape `[]`
    pub fn frobenius_norm(self) -> Self {
        self.norm(&[], false)
    }

    /// ‖X‖_(∞,2) = maxᵢ ‖xᵢ‖₂ over the rows of a matrix, shape `[n, d]` → `[]`; 0 for a matrix without rows
    ///
    /// Rows that share the maximum share the derivative.
    ///
    /// # Panics
    /// If x does not have two dimensions.
    #[track_caller]
    pub fn inf_2_norm(self) -> Self {
        let rows = self.matrix("inf_2_norm").row_norms();
        if rows.is_empty() {
            return rows.sum_all();
        }
        rows.max_all()
    }

    #[track_caller]
    fn matrix(self, op: &str) -> Self {
        let shape = self.shape();
        assert!(
            shape.len() == 2,
            "{op}: a matrix has two dimensions, not {shape:?}"
        );
        self
    }
}
