//! The model as a whole.

use super::{AlmostOrthogonal, CertifiedBlock};
use emmy::error::{Error, Result, Rules};
use emmy::init;
use emmy::lipschitz::{Domain, Lp, Upper, bound};
use emmy::nn::{Dropout, Embedding, Layer, Pass};
use emmy::real::Real;
use emmy::tensor::Tensor;
use emmy::{Tape, Var};
use serde::{Deserialize, Serialize};

/// The configuration of a [`CertifiedLanguageModel`]. Start from [`new`](Self::new), and change fields.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CertifiedConfig {
    /// The number of symbols.
    pub symbols: usize,
    /// The longest sequence.
    pub context: usize,
    /// Features of an embedded symbol.
    pub features: usize,
    /// k: the vectors of so many symbols are concatenated before the first block.
    pub window: usize,
    /// Features after the first map.
    pub width: usize,
    /// Hidden neurons of a feed-forward layer.
    pub hidden: usize,
    /// The number of blocks.
    pub layers: usize,
    /// The number of blocks with attention: the last ones.
    pub attentive: usize,
    /// Heads of attention.
    pub heads: usize,
    /// L: the constant is at most this number in the 2-norm.
    pub constant: f64,
    /// f of attention and of feed-forward layers: the factors of the residuals start at these numbers.
    pub factors: [f64; 2],
    /// The factor of the logits at the start.
    pub sharpness: f64,
    /// The probability of dropout before the first block.
    pub dropout: f64,
}

impl CertifiedConfig {
    /// Windows of 10 symbols, `width` / 4 features per symbol, 2 `width` hidden neurons, attention of 4 heads
    /// in the last block, L = 2, factors 30 and 20, sharpness 20.
    pub fn new(symbols: usize, context: usize, layers: usize, width: usize) -> Self {
        Self {
            symbols,
            context,
            features: (width / 4).max(1),
            window: 10,
            width,
            hidden: width.saturating_mul(2),
            layers,
            attentive: 1,
            heads: 4,
            constant: 2.0,
            factors: [30.0, 20.0],
            sharpness: 20.0,
            dropout: 0.0,
        }
    }

    /// K, by which the vectors of the table are multiplied: with it the logits start with the factor
    /// `sharpness`, and the constant is still at most L.
    pub fn scale(&self) -> f64 {
        let [attention, feed_forward] = self.factors.map(|f| 1.0 + f.abs());
        let attentive = self.attentive.min(self.layers) as i32;
        let blocks = attention.powi(attentive) * feed_forward.powi(self.layers as i32);
        self.sharpness * (self.window as f64).sqrt() * blocks / self.constant
    }

    /// Checks whether a model can be built.
    ///
    /// # Errors
    /// If a size is 0, the heads do not divide the width, a number is not above 0, or dropout is no
    /// probability.
    pub fn validate(&self) -> Result<()> {
        let rules = Rules("certified language model");
        rules.sizes(&[
            ("symbols", self.symbols),
            ("context", self.context),
            ("features", self.features),
            ("window", self.window),
            ("width", self.width),
            ("hidden", self.hidden),
            ("layers", self.layers),
            ("heads", self.heads),
        ])?;
        let divides = self.attentive == 0 || self.width.is_multiple_of(self.heads);
        let rule = format!("a multiple of the {} heads", self.heads);
        rules.hold(divides, "width", rule, self.width)?;
        let [attention, feed_forward] = self.factors;
        rules.above_zero("constant", self.constant)?;
        rules.above_zero("sharpness", self.sharpness)?;
        rules.above_zero("factor of attention", attention)?;
        rules.above_zero("factor of feed-forward layers", feed_forward)?;
        let scale = self.scale();
        let rule = "factors whose product the type of the model resolves, K at most 1e12";
        rules.hold(scale.is_finite() && scale <= 1e12, "factors", rule, scale)?;
        let below = (0.0..1.0).contains(&self.dropout);
        rules.hold(below, "dropout", "a probability below 1", self.dropout)
    }
}

/// A causal language model whose logits move by at most L ‖x − x′‖₂ if its embedded input moves from x to x′,
/// for all inputs and all weights:
///
/// ```text
/// x_i = K e_i                                  the vector of symbol i from a table, times K
/// h   = V_0 [x_i, x_(i−1), .., x_(i−k+1)] / K  at most √k / K
/// h   ← blocks(h)                              at most Π (1 + |c|) (CertifiedBlock)
/// z   = s V_z h + b                            at most 1, times s
/// ```
///
/// with s = L K₀ / (√k Π (1 + |c|)), which is computed in every pass. A model starts with K = K₀. Then the
/// product of all constants is L (less a thousandth, for the rounding of f32), also during the training. All
/// V are [`AlmostOrthogonal`], attention is that of Kim et al., "The Lipschitz Constant of Self-Attention",
/// ICML 2021, divided by its bound. There is no LayerNorm, whose constant is 1/√ε.
///
/// **K is free.** If the input is multiplied by K and the model divides it by K, the constant is K times
/// smaller and no prediction changes. So a constant has a meaning only together with the size of the input. L
/// K does not depend on this choice: it says how far the logits can move if a vector of the table moves by 1.
/// After training, [`tighten`](Self::tighten) makes K as small as the certificate allows.
///
/// | letter | shape |
/// |---|---|
/// | x | `[.., n, features]` |
/// | V₀ | `[width, k features]` |
/// | V_z | `[symbols, width]` |
/// | z | `[.., n, symbols]` |
///
/// ```
/// use emmy::lipschitz::Lp;
/// use emmy::nn::{Pass, Trace};
/// use papers::certified::{CertifiedConfig, CertifiedLanguageModel};
/// use emmy::Tape;
/// let model = CertifiedLanguageModel::<f64>::new(CertifiedConfig::new(10, 8, 1, 16), 0)?;
/// let tape = Tape::new();
/// let x = model.embedded(&Pass::eval(&tape, &model), &[1, 2, 3, 4], 1).value();
/// let trace = Trace::at(&model, &x, |pass, x| model.of_embedded(pass, x));
/// assert!(trace.lipschitz(Lp::Two)?.upper.get() <= 2.0);
/// # Ok::<(), emmy::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct CertifiedLanguageModel<F: Real> {
    /// e.
    pub tokens: Embedding<F>,
    /// V₀.
    pub input: AlmostOrthogonal<F>,
    /// The blocks.
    pub blocks: Vec<CertifiedBlock<F>>,
    /// V_z.
    pub head: AlmostOrthogonal<F>,
    /// b.
    pub bias: Tensor<F>,
    /// K, `[1]`, as state: it is not trained.
    pub scale: Tensor<F>,
    /// Sizes and options.
    pub config: CertifiedConfig,
}
emmy::module!(CertifiedLanguageModel: tokens, input, blocks, head, bias = Bias; state scale);

/// The part of L that is reserved for rounding errors.
const MARGIN: f64 = 1e-3;

impl<F: Real> CertifiedLanguageModel<F> {
    /// A model with freshly drawn weights; the vectors of the table have lengths near 1.
    ///
    /// # Errors
    /// If the configuration is not [valid](CertifiedConfig::validate).
    pub fn new(config: CertifiedConfig, seed: u64) -> Result<Self> {
        config.validate()?;
        let rng = &mut init::rng(seed);
        let c = &config;
        let std = (c.features as f64).sqrt().recip();
        let first = c.layers - c.attentive.min(c.layers);
        let block = |k: usize, rng: &mut init::Rng| {
            let heads = (k >= first).then_some(c.heads);
            CertifiedBlock::new(c.context, [c.width, c.hidden], heads, c.factors, rng)
        };
        Ok(Self {
            tokens: Embedding {
                weight: init::normal(&[c.symbols, c.features], std, rng),
            },
            input: AlmostOrthogonal::new(c.window * c.features, c.width, true, rng),
            blocks: (0..c.layers)
                .map(|k| block(k, rng))
                .collect::<Result<_>>()?,
            head: AlmostOrthogonal::new(c.width, c.symbols, false, rng),
            bias: init::zeros(&[c.symbols]),
            scale: Tensor::from_elem(vec![1], F::of(c.scale())),
            config,
        })
    }

    /// The logits of `sequences` sequences of equal length, one after the other in `symbols`; shape
    /// `[sequences, length, symbols]`.
    ///
    /// # Panics
    /// If the symbols are not sequences of equal length, a sequence is longer than the context, or a symbol
    /// is unknown.
    #[track_caller]
    pub fn forward<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        symbols: &[usize],
        sequences: usize,
    ) -> Var<'t, F> {
        pass.call(self, &[], || {
            let x = self.embedded(pass, symbols, sequences);
            self.read(pass, x)
        })
    }

    /// x, `[sequences, length, features]`: the input of [`of_embedded`](Self::of_embedded).
    ///
    /// # Panics
    /// As [`forward`](Self::forward).
    #[track_caller]
    pub fn embedded<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        symbols: &[usize],
        sequences: usize,
    ) -> Var<'t, F> {
        let count = symbols.len();
        assert!(
            sequences > 0 && count.is_multiple_of(sequences),
            "CertifiedLanguageModel: {count} symbols are not {sequences} sequences of equal length"
        );
        let x = self.tokens.forward(pass, symbols) * pass.state(&self.scale);
        x.reshape(&[sequences, count / sequences, self.config.features])
    }

    /// z as a function of x.
    ///
    /// # Panics
    /// If the shapes do not fit, or a sequence is longer than the context.
    #[track_caller]
    pub fn of_embedded<'t>(&self, pass: &Pass<'t, '_, F>, x: Var<'t, F>) -> Var<'t, F> {
        pass.call(self, &[x], || self.read(pass, x))
    }

    #[track_caller]
    fn read<'t>(&self, pass: &Pass<'t, '_, F>, x: Var<'t, F>) -> Var<'t, F> {
        let c = &self.config;
        let n = x.shape()[x.ndim() - 2];
        assert!(
            n <= c.context,
            "CertifiedLanguageModel: a sequence of {n} symbols, the context holds {}",
            c.context
        );
        // Zeros stand before the first symbol.
        let earlier = |j: usize| match j {
            0 => x,
            _ => x.pad(-2, j, 0).slice(-2, 0..n),
        };
        let side_by_side: Vec<_> = (0..c.window).map(earlier).collect();
        let x = Var::concat(&side_by_side, -1) * pass.state(&self.scale).powf(-F::one());
        let mut h = self.input.forward(pass, x);
        h = Dropout { p: c.dropout }.forward(pass, h).var();
        let size = c.constant * (1.0 - MARGIN) * c.scale() / (c.window as f64).sqrt();
        let mut s = pass
            .tape()
            .constant(Tensor::from_elem(vec![1], F::of(size)));
        for block in &self.blocks {
            let (next, constant) = block.forward(pass, h);
            (h, s) = (next, s / constant);
        }
        self.head.forward(pass, h) * s + pass.param(&self.bias)
    }

    /// The certificate: an upper bound of the constant of the logits of n symbols as a function of x, in the
    /// 2-norm, computed from the present weights. It is at most L, and less if the maps are not orthogonal.
    ///
    /// # Errors
    /// If a weight is not a finite number.
    ///
    /// # Panics
    /// If n is larger than the context.
    #[track_caller]
    pub fn certificate(&self, n: usize) -> Result<Upper> {
        let tape = Tape::new();
        let pass = Pass::eval(&tape, self);
        let x = tape.var(init::zeros(&[1, n, self.config.features]));
        let z = self.of_embedded(&pass, x);
        Ok(bound(z, x, Lp::Two, Domain::Everywhere)?.upper())
    }

    /// Makes K as small as the certificate for the whole context allows, so that the certified constant is L.
    /// Predictions change only by rounding errors. Returns the new K.
    ///
    /// # Errors
    /// If a weight is not a finite number.
    pub fn tighten(&mut self) -> Result<f64> {
        let found = self.certificate(self.config.context)?.get();
        let share = found / (self.config.constant * (1.0 - MARGIN));
        if !(share > 0.0 && share.is_finite()) {
            let rule = "a finite number above 0";
            return Err(Error::invalid(
                "certified constant",
                rule,
                found.to_string(),
            ));
        }
        let scale = self.scale[[0]].as_f64() * share;
        self.scale = Tensor::from_elem(vec![1], F::of(scale));
        Ok(scale)
    }
}

impl<F: Real> Layer<F> for CertifiedLanguageModel<F> {}
