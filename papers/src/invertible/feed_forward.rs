//! A feed-forward layer that is a contraction.

use emmy::Var;
use emmy::error::{Error, Result};
use emmy::init::Rng;
use emmy::lipschitz::{Bound, Lp, Upper};
use emmy::nn::{FeedForward, FeedForwardConfig, Layer, Pass};
use emmy::real::Real;

/// y = c g(x) / (‖W_down‖₂ ‖W_up‖₂): a feed-forward layer g with ReLU divided by a bound of its constant, so
/// that the constant of y in the 2-norm is at most c.
///
/// | letter | shape |
/// |---|---|
/// | x, y | `[.., width]` |
#[derive(Debug, Clone)]
pub struct ContractiveFeedForward<F: Real> {
    /// g.
    pub feed_forward: FeedForward<F>,
    /// c.
    pub factor: f64,
    /// Whether the divisor is a constant for derivatives.
    pub stop_gradient: bool,
}
emmy::module!(ContractiveFeedForward: feed_forward);

impl<F: Real> ContractiveFeedForward<F> {
    /// A layer of `hidden` neurons with biases.
    ///
    /// # Errors
    /// If a size is 0, or c is not above 0.
    pub fn new(width: usize, hidden: usize, factor: f64, rng: &mut Rng) -> Result<Self> {
        if !(factor > 0.0 && factor.is_finite()) {
            let what = "contractive feed-forward: factor";
            return Err(Error::invalid(what, "a number above 0", factor.to_string()));
        }
        Ok(Self {
            feed_forward: FeedForward::new(FeedForwardConfig::relu(width, hidden), rng)?,
            factor,
            stop_gradient: false,
        })
    }

    /// y.
    ///
    /// # Panics
    /// If the last axis of x does not have `width` features.
    #[track_caller]
    pub fn forward<'t>(&self, pass: &Pass<'t, '_, F>, x: Var<'t, F>) -> Var<'t, F> {
        pass.call(self, &[x], || {
            let y = self.feed_forward.forward(pass, x);
            let norm = |w| Bound::norm(Lp::Two, pass.param(w));
            let bound = norm(&self.feed_forward.down.weight) * norm(&self.feed_forward.up.weight);
            let mut bound = bound.var().expect("a bound for all inputs");
            if self.stop_gradient {
                bound = bound.detach();
            }
            // If all weights are 0, y is constant: the bias.
            let bound = bound.add_scalar(F::min_positive_value());
            y * bound.powf(-F::one()).scale(F::of(self.factor))
        })
    }

    /// An upper bound of c, up to the rounding of the divisor in the type of the model.
    pub fn constant(&self) -> Upper {
        Upper::rounded(self.factor, 16.0 * F::epsilon().as_f64())
    }
}

impl<F: Real> Layer<F> for ContractiveFeedForward<F> {}
