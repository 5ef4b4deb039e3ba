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
    /// With [`GlobalNorm`](Self::GlobalNorm), a norm that is not finite gives gradients that are not;
    /// [`Value`](Self::Value) clips what is infinite, and NaN stays.
    pub fn apply<F: Real>(&self, gradients: &mut [Tensor<F>]) -> f64 {
        let mut squares = 0.0;
        for g in gradients.iter_mut() {
            if !g.is_standard_layout() {
                *g = contiguous(g);
            }
            squares += sum_of_squares(g.as_slice().expect("contiguous"));
        }
        let norm = match squares {
            f64::INFINITY => scaled_norm(gradients),
            _ => squares.sqrt(),
        };
        match *self {
            Self::GlobalNorm(c) => {
                let factor = c / (norm + 1e-6);
                // If the norm is NaN, so is the factor, and the gradients become NaN instead of passing
                // unclipped.
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

/// The norm of gradients whose squares are too large to be summed; infinite if an entry is.
fn scaled_norm<F: Real>(gradients: &[Tensor<F>]) -> f64 {
    let all = || gradients.iter().flatten().map(|g| g.as_f64().abs());
    let largest = all().fold(0.0, f64::max);
    if largest.is_infinite() {
        return largest;
    }
    largest * all().map(|g| (g / largest).powi(2)).sum::<f64>().sqrt()
}

fn scale<F: Real>(gradients: &mut [Tensor<F>], f: impl Fn(F) -> F) {
    for g in gradients {
        g.mapv_inplace(&f);
    }
}
