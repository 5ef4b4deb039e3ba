//! Gradients that are too large, made smaller.

use crate::error::{Result, Rules};
use crate::kernels::update::sum_of_squares;
use crate::real::Real;
use crate::tensor::{Tensor, contiguous};
use serde::{Deserialize, Serialize};

/// How gradients are clipped before a step. The definitions are those of PyTorch's `clip_grad_norm_` and
/// `clip_grad_value_`.
///
/// ```
/// use emmy::optim::Clip;
/// use emmy::tensor::tensor;
/// let mut gradients = [tensor(&[2], vec![3.0_f64, 0.0]), tensor(&[1], vec![4.0])];
/// assert_eq!(Clip::GlobalNorm(1.0).apply(&mut gradients), 5.0);
/// assert!((gradients[1][0] - 0.8).abs() < 1e-6);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Clip {
    /// g ← g · min(1, c / (‖g‖ + 10⁻⁶)), where ‖g‖ is the Euclidean norm of all gradients together: the
    /// direction stays.
    GlobalNorm(f64),
    /// g_i ← min(max(g_i, −c), c) for every entry.
    Value(f64),
}

impl Clip {
    /// Clips the gradients of all parameters; returns ‖g‖ before, summed in `f64` in the order of the
    /// parameters.
    ///
    /// A norm that is not finite gives gradients that are not.
    pub fn apply<F: Real>(&self, gradients: &mut [Tensor<F>]) -> f64 {
        let mut squares = 0.0;
        for g in gradients.iter_mut() {
            if !g.is_standard_layout() {
                *g = contiguous(g);
            }
            squares += sum_of_squares(g.as_slice().expect("contiguous"));
        }
        let norm = squares.sqrt();
        match *self {
            Self::GlobalNorm(c) => {
                let factor = c / (norm + 1e-6);
                // A norm that is no number is not a small one.
                if factor < 1.0 || factor.is_nan() {
                    let factor = F::of(factor);
                    scale(gradients, |x| x * factor);
                }
            }
            Self::Value(c) => {
                let c = F::of(c);
                scale(gradients, |x| {
                    if x > c {
                        c
                    } else if x < -c {
                        -c
                    } else {
                        x
                    }
                });
            }
        }
        norm
    }

    /// Checks that the bound is finite and above 0.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) if it is not.
    pub fn validate(&self) -> Result<()> {
        let (Self::GlobalNorm(c) | Self::Value(c)) = *self;
        Rules("").above_zero("clip", c)
    }
}

fn scale<F: Real>(gradients: &mut [Tensor<F>], f: impl Fn(F) -> F) {
    for g in gradients {
        g.mapv_inplace(&f);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::tensor;

    fn gradients() -> [Tensor<f64>; 2] {
        [
            tensor(&[2, 2], vec![3.0, -1.0, 0.5, 2.0]),
            tensor(&[3], vec![-4.0, 0.0, 1.0]),
        ]
    }

    fn all(g: &[Tensor<f64>]) -> Vec<f64> {
        g.iter().flatten().copied().collect()
    }

    #[test]
    fn a_global_norm_is_that_of_all_parameters_together() {
        // ‖g‖² = 9 + 1 + ¼ + 4 + 16 + 1, and PyTorch's factor is 2 / (‖g‖ + 10⁻⁶).
        let norm = 31.25_f64.sqrt();
        let mut g = gradients();
        assert_eq!(Clip::GlobalNorm(2.0).apply(&mut g), norm);
        let expected: Vec<f64> = all(&gradients())
            .iter()
            .map(|x| x * (2.0 / (norm + 1e-6)))
            .collect();
        assert_eq!(all(&g), expected);
        // What is small enough keeps its bits.
        let mut g = gradients();
        assert_eq!(Clip::GlobalNorm(5.7).apply(&mut g), norm);
        assert_eq!(g, gradients());
    }

    #[test]
    fn values_are_clipped_one_by_one() {
        let mut g = gradients();
        Clip::Value(1.5).apply(&mut g);
        assert_eq!(all(&g), [1.5, -1.0, 0.5, 1.5, -1.5, 0.0, 1.0]);
    }

    #[test]
    fn a_transposed_gradient_is_clipped_where_it_is() {
        let mut g = gradients();
        g[0] = g[0].t().to_owned().into_shared();
        let mut turned = gradients();
        turned[0] = turned[0].clone().reversed_axes();
        let clip = Clip::GlobalNorm(1.0);
        assert_eq!(clip.apply(&mut turned), clip.apply(&mut g));
        assert_eq!(turned, g);
    }

    #[test]
    fn a_gradient_that_is_not_finite_does_not_pass_for_a_small_one() {
        for bad in [f64::NAN, f64::INFINITY] {
            let mut g = [tensor(&[2], vec![bad, 1.0])];
            Clip::GlobalNorm(1.0).apply(&mut g);
            assert!(g[0][0].is_nan() && g[0][1] != 1.0, "{g:?}");
        }
        for c in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(Clip::Value(c).validate().is_err() && Clip::GlobalNorm(c).validate().is_err());
        }
    }
}
