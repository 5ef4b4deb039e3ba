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
