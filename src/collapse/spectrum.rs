//! Ranks: the number of directions in which the rows differ.

use super::matrix;
use crate::linalg::{effective_rank_of, svd};
use crate::real::Real;
use crate::tensor::Tensor;
use ndarray::Array1;

/// The singular values of a matrix, and the ranks that are read off them.
///
/// ```
/// use emmy::{collapse::Spectrum, tensor::tensor};
/// // Three rows in one direction: one dimension, though the rows differ.
/// let s = Spectrum::of(&tensor(&[3, 2], vec![1.0, 1.0, -2.0, -2.0, 5.0, 5.0]));
/// assert!((s.effective_rank() - 1.0).abs() < 1e-6 && (s.numerical_rank() - 1.0).abs() < 1e-12);
/// let s = Spectrum::of(&tensor(&[2, 2], vec![0.0, 3.0, -3.0, 0.0]));
/// assert!((s.effective_rank() - 2.0).abs() < 1e-12);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Spectrum {
    /// σ_1 ≥ σ_2 ≥ …, min(n, d) of them.
    pub values: Array1<f64>,
}

impl Spectrum {
    /// The spectrum of a matrix `[n, d]`.
    ///
    /// # Panics
    /// If x is not a matrix, or an entry is not finite.
    #[track_caller]
    pub fn of<F: Real>(x: &Tensor<F>) -> Self {
        Self {
            values: svd(matrix("Spectrum", x).view()).1,
        }
    }

    /// exp(−Σ p_k ln p_k) with p_k = σ_k / Σσ (Definition 3.1; Roy and Vetterli, EUSIPCO 2007): between 1 and
    /// the rank, equal to the rank if all non-zero σ are equal; 0 for a matrix of zeros.
    ///
    /// It does not change with the size of x, with rotations of the features, or with the order of the rows.
    pub fn effective_rank(&self) -> f64 {
        effective_rank_of(self.values.view())
    }

    /// ‖X‖_F² / ‖X‖₂² = Σσ² / σ_1²: between 1 and the rank; 0 for a matrix of zeros.
    ///
    /// The numerical (or stable) rank of Rudelson and Vershynin, "Sampling from large matrices", J. ACM 2007.
    pub fn numerical_rank(&self) -> f64 {
        match self.values.first() {
            Some(&largest) if largest > 0.0 => {
                self.values.iter().map(|s| (s / largest).powi(2)).sum()
            }
            _ => 0.0,
        }
    }
}
