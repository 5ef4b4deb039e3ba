//! Stochastic depth.

use crate::autodiff::Var;
use crate::nn::Pass;
use crate::real::Real;
use crate::tensor::Tensor;
use serde::{Deserialize, Serialize};

/// In a training pass each item of the batch is set to 0 as a whole with probability p, else divided by 1 −
/// p; in an evaluation y = x. With a residual around it, a block is left out for some items.
///
/// Huang et al., "Deep Networks with Stochastic Depth", ECCV 2016, in the inverted form of the vision
/// transformers that use it.
///
/// With p = ½ an item of ones becomes zeros or twos as a whole:
///
/// ```
/// use emmy::{Tape, Tensor, init, nn::{DropPath, Linear, Pass}};
///
/// let (path, model) = (DropPath { p: 0.5 }, Linear::<f64>::new(1, 1, false, &mut init::rng(0)));
/// let tape = Tape::new();
/// let x = tape.constant(Tensor::ones(vec![20, 3]));
/// let y = path.forward(&Pass::train(&tape, &model, 0), x).value();
/// for item in y.rows() {
///     assert!(item[0] == 0.0 || item[0] == 2.0);
///     assert!(item.iter().all(|&y| y == item[0]));
/// }
/// assert_eq!(path.forward(&Pass::eval(&tape, &model), x).value(), x.value());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DropPath {
    /// p.
    pub p: f64,
}

impl DropPath {
    /// y; the items are numbered by the first axis of x `[items, ..]`.
    ///
    /// # Panics
    /// If x has no axis, or p is not within 0 ≤ p ≤ 1.
    #[track_caller]
    pub fn forward<'t, F: Real>(&self, pass: &Pass<'t, '_, F>, x: Var<'t, F>) -> Var<'t, F> {
        let mut shape = x.shape();
        assert!(!shape.is_empty(), "DropPath: x has no axis");
        if self.p == 0.0 {
            return x;
        }
        let Some(seed) = pass.draw() else { return x };
        shape[1..].fill(1);
        let kept = pass.tape().constant(Tensor::ones(&shape[..]));
        x * kept.dropout(self.p, seed)
    }
}
