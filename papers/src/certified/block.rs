//! A residual block whose constant is known without its weights.

use super::AlmostOrthogonal;
use emmy::Var;
use emmy::error::Result;
use emmy::init::Rng;
use emmy::lipschitz::Lp;
use emmy::nn::{AttentionConfig, Contraction, Layer, MultiHeadAttention, Pass};
use emmy::ops::attention::Mask;
use emmy::real::Real;
use emmy::tensor::Tensor;

/// x ← x + c_a a(x), x ← x + c_g g(x), with contractive attention a (optional) and the normalised
/// feed-forward layer g(x) = V₂ relu(V₁ x + b). The constants of a and g are at most 1, so the constant of
/// the block is at most (1 + |c_a|) (1 + |c_g|) in the 2-norm.
///
/// The factors are learnt: c = f γ with a number f and a gain γ that starts at 1. So the relative change of c
/// in a step of Adam does not depend on f. Kim et al., "The Lipschitz Constant of Self-Attention", ICML 2021,
/// Section 5.2, with the feed-forward layer of Prach and Lampert ([`AlmostOrthogonal`]); there c = 1.
///
/// | letter | shape |
/// |---|---|
/// | x | `[.., n, width]` |
/// | V₁, V₂ | `[hidden, width]`, `[width, hidden]` |
#[derive(Debug, Clone)]
pub struct CertifiedBlock<F: Real> {
    /// a.
    pub attention: Option<MultiHeadAttention<F>>,
    /// V₁ and b.
    pub up: AlmostOrthogonal<F>,
    /// V₂.
    pub down: AlmostOrthogonal<F>,
    /// γ of the attention, `[1]`; unused in a block without attention.
    pub attention_gain: Option<Tensor<F>>,
    /// γ of the feed-forward layer, `[1]`.
    pub gain: Tensor<F>,
    /// f of the attention and of the feed-forward layer.
    pub factors: [f64; 2],
}
emmy::module!(CertifiedBlock: attention, up, down, attention_gain = Gain, gain = Gain);

impl<F: Real> CertifiedBlock<F> {
    /// A block for causal sequences of at most `context` tokens, with `sizes` = \[features, hidden neurons\],
    /// the given number of `heads` of attention (`None` for a block without attention), and `factors` f.
    ///
    /// # Errors
    /// If a size is 0, or the heads do not divide the features.
    pub fn new(
        context: usize,
        sizes: [usize; 2],
        heads: Option<usize>,
        factors: [f64; 2],
        rng: &mut Rng,
    ) -> Result<Self> {
        let [width, hidden] = sizes;
        let attention = heads.map(|heads| {
            let config = AttentionConfig {
                contraction: Some(Contraction {
                    tokens: Some(context),
                    ..Contraction::new(1.0, Lp::Two)
                }),
                ..AttentionConfig::l2(width, heads)
            };
            MultiHeadAttention::new(config, rng)
        });
        let attention = attention.transpose()?;
        Ok(Self {
            attention_gain: attention
                .is_some()
                .then(|| Tensor::from_elem(vec![1], F::one())),
            attention,
            up: AlmostOrthogonal::new(width, hidden, true, rng),
            down: AlmostOrthogonal::new(hidden, width, true, rng),
            gain: Tensor::from_elem(vec![1], F::one()),
            factors,
        })
    }

    /// The output, and (1 + |c_a|)(1 + |c_g|), shape `[1]`.
    ///
    /// # Panics
    /// If the shapes do not fit.
    #[track_caller]
    pub fn forward<'t>(&self, pass: &Pass<'t, '_, F>, x: Var<'t, F>) -> (Var<'t, F>, Var<'t, F>) {
        let factor = |gain: &Tensor<F>, f: f64| pass.param(gain).scale(F::of(f));
        let constant = |c: Var<'t, F>| c.abs().add_scalar(F::one());
        pass.call(self, &[x], || {
            let c = factor(&self.gain, self.factors[1]);
            let (mut x, mut bound) = (x, constant(c));
            if let (Some(a), Some(gain)) = (&self.attention, &self.attention_gain) {
                let c = factor(gain, self.factors[0]);
                x = x + a.forward(pass, x, &Mask::causal()) * c;
                bound = bound * constant(c);
            }
            let hidden = self.up.forward(pass, x).relu();
            (x + self.down.forward(pass, hidden) * c, bound)
        })
    }
}

impl<F: Real> Layer<F> for CertifiedBlock<F> {}
