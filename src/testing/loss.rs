//! Losses for tests: laws hold for each of them.

use crate::autodiff::Var;
use crate::init;
use crate::kernels::random::mix;
use crate::real::Real;
use crate::tensor::Tensor;

/// A loss of the outputs of a model; labels, targets and weights follow from a seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// The cross-entropy of every row, `[n, C]`.
    CrossEntropy,
    /// The cross-entropy of every second row, `[n, C]`.
    Masked,
    /// The mean of (y − t)².
    SquaredError,
    /// Σ sin(a y + b) + ln(1 + Σ y²): smooth, not a sum over outputs, of any shape.
    Smooth,
    /// Three tasks at once, `[n, C]`.
    Tasks,
}

impl Loss {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::CrossEntropy,
        Self::Masked,
        Self::SquaredError,
        Self::Smooth,
        Self::Tasks,
    ];

    /// Whether the loss is unchanged when all outputs of a row are shifted alike.
    pub fn ignores_shifts(self) -> bool {
        matches!(self, Self::CrossEntropy | Self::Masked)
    }

    /// Its value for the outputs y.
    ///
    /// ```
    /// use emmy::{Tape, init, testing::Loss};
    /// let tape = Tape::new();
    /// let y = tape.var(init::normal::<f64>(&[4, 3], 1.0, &mut init::rng(0)));
    /// assert!(Loss::ALL.iter().all(|loss| loss.of(y, 7).item().is_finite()));
    /// ```
    ///
    /// # Panics
    /// If the outputs have another shape than the loss needs.
    #[track_caller]
    pub fn of<'t, F: Real>(self, y: Var<'t, F>, seed: u64) -> Var<'t, F> {
        let shape = y.shape();
        let draw = |k: u64| -> Tensor<F> {
            init::normal(&shape, 1.0, &mut init::rng(seed.wrapping_add(k)))
        };
        let constant = |k: u64| y.tape().constant(draw(k));
        let labels = || -> Vec<usize> {
            let &[rows, classes] = &shape[..] else {
                panic!("{self:?}: outputs of shape {shape:?}, a row of logits per label is needed");
            };
            let label = |i: usize| mix(seed, i as u64) as usize % classes;
            (0..rows).map(label).collect()
        };
        let half = || -> Vec<bool> { (0..shape[0]).map(|i| i % 2 == 0).collect() };
        match self {
            Self::CrossEntropy => y.cross_entropy(&labels(), None),
            Self::Masked => y.cross_entropy(&labels(), Some(&half())),
            Self::SquaredError => y.mse(constant(1)),
            Self::Smooth => {
                let waves = (y * constant(1) + constant(2)).sin();
                waves.sum_all() + (y * y).sum_all().add_scalar(F::one()).ln()
            }
            Self::Tasks => {
                let flags = draw(3).mapv(|x| if x > F::zero() { F::one() } else { F::zero() });
                let flags = y.tape().constant(flags.into_shared());
                y.cross_entropy(&labels(), Some(&half()))
                    + y.tanh().mse(constant(1)).scale(F::of(0.7))
                    + y.bce_with_logits(flags)
            }
        }
    }
}
