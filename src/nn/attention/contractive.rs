//! Attention that contracts.

use super::{AttentionConfig, MultiHeadAttention};
use crate::autodiff::Var;
use crate::error::{Error, Result};
use crate::init::Rng;
use crate::lipschitz::{Lp, Upper};
use crate::nn::{Layer, Pass};
use crate::ops::attention::Mask;
use crate::real::Real;

/// y = c F(x) / L(θ, n): L2 attention F divided by its Lipschitz bound L, so that its constant in the norm
/// ‖·‖_p is at most c.
///
/// Kim et al., "The Lipschitz Constant of Self-Attention", ICML 2021, Section 5.1. With c < 1, x + y can be
/// inverted ([`crate::lipschitz::invert`]); at c = 1 it need not be, which the paper leaves out. L depends on
/// the weights and on the number of tokens n; derivatives flow through it, unless they are stopped.
///
/// | letter | shape |
/// |---|---|
/// | x, y | `[.., n, width]` |
#[derive(Debug, Clone)]
pub struct Contractive<F: Real> {
    /// F.
    pub attention: MultiHeadAttention<F>,
    /// c.
    pub factor: f64,
    /// p, 2 or ∞.
    pub p: Lp,
    /// Whether L is a constant for derivatives.
    pub stop_gradient: bool,
}
crate::module!(Contractive: attention);

impl<F: Real> Contractive<F> {
    /// Attention of tokens with `width` features in `heads` heads ([`AttentionConfig::l2`]).
    ///
    /// # Errors
    /// If the configuration is not valid, p is 1, or c is not above 0.
    pub fn new(width: usize, heads: usize, factor: f64, p: Lp, rng: &mut Rng) -> Result<Self> {
        let refuse = |what: &str, rule: &str, found: String| {
            Error::invalid(format!("contractive attention: {what}"), rule, found)
        };
        if p == Lp::One {
            return Err(refuse("p", "2 or ∞", p.to_string()));
        }
        if !(factor > 0.0 && factor.is_finite()) {
            return Err(refuse("factor", "a number above 0", factor.to_string()));
        }
        Ok(Self {
            attention: MultiHeadAttention::new(AttentionConfig::l2(width, heads), rng)?,
            factor,
            p,
            stop_gradient: false,
        })
    }

    /// y.
    ///
    /// # Panics
    /// If the shapes do not fit, or the attention was replaced by one without a Lipschitz constant.
    #[track_caller]
    pub fn forward<'t>(&self, pass: &Pass<'t, '_, F>, x: Var<'t, F>, mask: &Mask) -> Var<'t, F> {
        pass.call(self, &[x], || {
            let y = self.attention.forward(pass, x, mask);
            let n = x.shape()[x.ndim() - 2];
            let bound = self.attention.lipschitz(pass, n, self.p);
            let bound = bound.and_then(|b| b.var().ok());
            let Some(mut bound) = bound else {
                panic!("Contractive: this attention has no Lipschitz constant")
            };
            if self.stop_gradient {
                bound = bound.detach();
            }
            // Gram iteration rounds: the quotient is c up to the accuracy of the type.
            // Where all weights are 0, so is y.
            let bound = bound.add_scalar(F::min_positive_value());
            y * bound.powf(-F::one()).scale(F::of(self.factor))
        })
    }

    /// c, from above: the constant of this layer in the norm ‖·‖_p, up to the rounding of L in the type of
    /// the model. [`Trace::lipschitz`](crate::nn::Trace::lipschitz) certifies a model that contains it.
    pub fn constant(&self) -> Upper {
        Upper::rounded(self.factor, 16.0 * F::epsilon().as_f64())
    }
}

impl<F: Real> Layer<F> for Contractive<F> {}
