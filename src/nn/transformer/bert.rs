//! An encoder of text in both directions.

use super::{BlockConfig, Transformer, start};
use crate::autodiff::Var;
use crate::error::{Result, Rules};
use crate::init;
use crate::nn::{Activation, Dropout, Embedding, Layer, Linear, Norm, NormLayer, Pass};
use crate::ops::attention::Mask;
use crate::real::Real;
use serde::{Deserialize, Serialize};

/// The configuration of a [`Bert`]. Start from [`new`](Self::new), and change fields.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BertConfig {
    /// The number of symbols.
    pub symbols: usize,
    /// The longest sequence.
    pub context: usize,
    /// The number of kinds of segments.
    pub segments: usize,
    /// The number of blocks.
    pub layers: usize,
    /// The blocks.
    pub block: BlockConfig,
}

impl BertConfig {
    /// Post-norm blocks with GELU, 4 × `width` hidden neurons, ε = 10⁻¹² and dropout 0.1; two segments.
    pub fn new(symbols: usize, context: usize, layers: usize, heads: usize, width: usize) -> Self {
        let mut block = BlockConfig::pre_norm_encoder(width, heads, width.saturating_mul(4));
        block.feed_forward.activation = Activation::Gelu;
        block.norm_first = false;
        block.norm = Norm::Layer {
            eps: 1e-12,
            gain: true,
            bias: true,
        };
        block.attention.dropout = 0.1;
        block.dropout = 0.1;
        Self {
            symbols,
            context,
            segments: 2,
            layers,
            block,
        }
    }

    /// Checks whether a model can be built.
    ///
    /// # Errors
    /// If a size is 0, or the blocks are not [valid](BlockConfig::validate) blocks without memory.
    pub fn validate(&self) -> Result<()> {
        let rules = Rules("BERT");
        rules.sizes(&[
            ("symbols", self.symbols),
            ("context", self.context),
            ("segments", self.segments),
            ("layers", self.layers),
        ])?;
        rules.hold(self.block.cross.is_none(), "cross-attention", "none", "one")?;
        self.block.validate()
    }
}

/// The vectors of token, place and segment are added and normalised; then come blocks that see the whole
/// sequence, and a summary of the first token.
///
/// Devlin et al., "BERT", NAACL 2019, Section 3. Weights start as N(0, 0.02²), as in BERT, whose code also
/// cuts off the tails.
///
/// The blocks are post-norm, so each token of the output has the mean 0 and the variance 1 as long as γ = 1
/// and β = 0.
///
/// ```
/// use emmy::{Tape, nn::{Bert, BertConfig, Pass}, ops::attention::Mask};
///
/// // Ten symbols, at most eight per sequence; one block of two heads, width 4.
/// let model = Bert::<f64>::new(BertConfig::new(10, 8, 1, 2, 4), 0)?;
/// let tape = Tape::new();
/// let pass = Pass::eval(&tape, &model);
/// let tokens = model.forward(&pass, &[1, 2, 3], &[0, 0, 1], 1, &Mask::none());
/// assert_eq!(tokens.shape(), [1, 3, 4]);
/// assert!(tokens.mean(&[-1], false).abs().max_all().item() < 1e-12);
/// assert!((tokens.var(&[-1], false) - 1.0).abs().max_all().item() < 1e-6);
/// assert_eq!(model.pooled(&pass, tokens).shape(), [1, 4]);
/// # Ok::<(), emmy::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Bert<F: Real> {
    /// A vector per symbol.
    pub tokens: Embedding<F>,
    /// A vector per place.
    pub positions: Embedding<F>,
    /// A vector per kind of segment.
    pub segments: Embedding<F>,
    /// The norm of their sum.
    pub norm: NormLayer<F>,
    /// The blocks.
    pub blocks: Transformer<F>,
    /// The map whose tanh summarises the first token.
    pub pooler: Linear<F>,
    /// Sizes and options.
    pub config: BertConfig,
}
crate::module!(Bert: tokens, positions, segments, norm, blocks, pooler);

impl<F: Real> Bert<F> {
    /// A model with freshly drawn weights.
    ///
    /// # Errors
    /// If the configuration is not [valid](BertConfig::validate).
    pub fn new(config: BertConfig, seed: u64) -> Result<Self> {
        config.validate()?;
        let rng = &mut init::rng(seed);
        let width = config.block.attention.width;
        let mut model = Self {
            tokens: Embedding::new(config.symbols, width, rng),
            positions: Embedding::new(config.context, width, rng),
            segments: Embedding::new(config.segments, width, rng),
            norm: config.block.norm.build(width, rng),
            blocks: Transformer::new(config.layers, config.block, rng)?,
            pooler: Linear::new(width, width, true, rng),
            config,
        };
        start::normal(&mut model, 0.02, 0.02, rng);
        Ok(model)
    }

    /// The tokens after the last block, `[sequences, length, width]`, for sequences of equal length one after
    /// the other in `symbols`; `segments` has the kind of each token, and `mask` hides padding
    /// ([`Mask::lengths`]).
    ///
    /// # Panics
    /// If the symbols are not sequences of equal length, there is not one segment per symbol, a sequence is
    /// longer than the context, or a symbol or segment is unknown.
    #[track_caller]
    pub fn forward<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        symbols: &[usize],
        segments: &[usize],
        sequences: usize,
        mask: &Mask,
    ) -> Var<'t, F> {
        pass.call(self, &[], || {
            let x = self.embedded(pass, symbols, segments, sequences, mask);
            self.blocks.forward(pass, x, mask)
        })
    }

    /// The tokens before the first block, `[sequences, length, width]`; the mask matters only to a norm that
    /// compares tokens.
    ///
    /// # Panics
    /// As [`forward`](Self::forward).
    #[track_caller]
    pub fn embedded<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        symbols: &[usize],
        segments: &[usize],
        sequences: usize,
        mask: &Mask,
    ) -> Var<'t, F> {
        let (count, context) = (symbols.len(), self.config.context);
        assert!(
            sequences > 0 && count.is_multiple_of(sequences) && segments.len() == count,
            "Bert: {count} symbols and {} segments are not {sequences} sequences of equal length",
            segments.len()
        );
        let length = count / sequences;
        assert!(
            length <= context,
            "Bert: a sequence of {length} symbols, the context holds {context}"
        );
        let sum = self.tokens.forward(pass, symbols) + self.segments.forward(pass, segments);
        let x = sum.reshape(&[sequences, length, self.config.block.attention.width]);
        let places: Vec<usize> = (0..length).collect();
        let x = x + self.positions.forward(pass, &places);
        let dropout = Dropout {
            p: self.config.block.dropout,
        };
        dropout.forward(pass, self.norm.masked(pass, x, mask)).var()
    }

    /// tanh(W x + b) of the first token of each sequence, `[sequences, width]`, from the tokens of
    /// [`forward`](Self::forward).
    ///
    /// # Panics
    /// If the tokens do not have the shape `[sequences, length, width]`, length at least 1.
    #[track_caller]
    pub fn pooled<'t>(&self, pass: &Pass<'t, '_, F>, tokens: Var<'t, F>) -> Var<'t, F> {
        let first = tokens.slice(1, 0..1).squeeze(1);
        self.pooler.forward(pass, first).tanh()
    }
}

impl<F: Real> Layer<F> for Bert<F> {}
