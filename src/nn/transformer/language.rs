//! A causal language model.

use super::{BlockConfig, Transformer, start};
use crate::autodiff::{Tape, Var};
use crate::error::{Result, Rules};
use crate::init;
use crate::nn::contra::{Between, Terms};
use crate::nn::{Dropout, Embedding, KeyValues, Layer, Linear, Norm, Pass, Sampling, sinusoidal};
use crate::ops::attention::Mask;
use crate::real::Real;
use serde::{Deserialize, Serialize};

/// How the place of a token in the sequence enters the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Positions {
    /// A learnt vector per place, added to the token's.
    Learned,
    /// A fixed vector per place, added to the token's ([`sinusoidal`]).
    Sinusoidal,
    /// Nothing is added. The attention is rotary, or the order has an effect only through the mask.
    None,
}

/// The configuration of a [`LanguageModel`]. Start from [`gpt`](Self::gpt), and change fields.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LanguageConfig {
    /// The number of symbols.
    pub symbols: usize,
    /// The longest sequence.
    pub context: usize,
    /// The number of blocks.
    pub layers: usize,
    /// The blocks.
    pub block: BlockConfig,
    /// Positions that are added to the tokens.
    pub positions: Positions,
    /// Whether the table of symbols is also the weight of the output: Press and Wolf, "Using the Output
    /// Embedding to Improve Language Models", EACL 2017.
    pub tied: bool,
}

impl LanguageConfig {
    /// GPT-2's form without biases: pre-norm blocks with GELU and 4 × `width` hidden neurons, learnt
    /// positions, tied output.
    pub fn gpt(symbols: usize, context: usize, layers: usize, heads: usize, width: usize) -> Self {
        let mut block =
            BlockConfig::pre_norm_encoder(width, heads, width.saturating_mul(4)).biased(false);
        block.feed_forward.activation = crate::nn::Activation::Gelu;
        Self {
            symbols,
            context,
            layers,
            block,
            positions: Positions::Learned,
            tied: true,
        }
    }

    /// Checks whether a model can be built.
    ///
    /// # Errors
    /// If a size is 0, the blocks are not [valid](BlockConfig::validate) blocks without memory, their norm
    /// has statistics over rows, or their ContraNorm compares features or takes products. A norm of another
    /// crate is trusted to let no symbol see those after it.
    pub fn validate(&self) -> Result<()> {
        let rules = Rules("language model");
        rules.sizes(&[
            ("symbols", self.symbols),
            ("context", self.context),
            ("layers", self.layers),
        ])?;
        let alone = self.block.cross.is_none();
        let rule = "none: a language model attends to its own tokens";
        rules.hold(alone, "cross-attention", rule, "one")?;
        self.block.validate()?;
        let (norm, over_rows) = match self.block.norm {
            Norm::Contra(config) => (Some(config), false),
            Norm::Batch { .. } | Norm::Graph { .. } | Norm::Pair(_) => (None, true),
            Norm::Layer { .. } | Norm::Rms { .. } | Norm::Registered(_) => (None, false),
        };
        let rule = "one of each symbol alone, or ContraNorm: a symbol must not see those after it";
        let found = "statistics over all symbols";
        rules.hold(!over_rows, "norm", rule, found)?;
        let norms: Vec<_> = norm
            .into_iter()
            .chain(self.block.contra.map(|c| c.norm))
            .collect();
        let softmax = norms.iter().all(|config| config.terms != Terms::Products);
        let rule = "a softmax, whose rows a mask can hide";
        rules.hold(softmax, "ContraNorm", rule, "products without a softmax")?;
        let of_rows = norms.iter().all(|config| config.between == Between::Rows);
        let rule = "comparison of rows: a symbol must not see those after it";
        let found = "comparison of features, which are those of all symbols";
        rules.hold(of_rows, "ContraNorm", rule, found)
    }
}

/// Logits of the next symbol at every place of a sequence: token and position, causal blocks, a map to
/// symbols.
///
/// Radford et al., "Language Models are Unsupervised Multitask Learners" (GPT-2), 2019. Weights start as
/// there: N(0, 0.02²), and N(0, 0.02²/(2L)) for those that add to the residual stream.
///
/// ```
/// use emmy::{Tape, nn::{LanguageConfig, LanguageModel, Pass}};
///
/// let model = LanguageModel::<f32>::new(LanguageConfig::gpt(10, 8, 2, 2, 16), 0)?;
/// let tape = Tape::new();
/// // Two sequences of three symbols.
/// let logits = model.forward(&Pass::eval(&tape, &model), &[1, 2, 3, 4, 5, 6], 2);
/// assert_eq!(logits.shape(), [2, 3, 10]);
/// # Ok::<(), emmy::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct LanguageModel<F: Real> {
    /// A vector per symbol.
    pub tokens: Embedding<F>,
    /// A vector per place.
    pub positions: Option<Embedding<F>>,
    /// The blocks.
    pub blocks: Transformer<F>,
    /// The map to symbols; `None` if it is the table of symbols.
    pub head: Option<Linear<F>>,
    /// Sizes and options.
    pub config: LanguageConfig,
}
crate::module!(LanguageModel: tokens, positions, blocks, head);

impl<F: Real> LanguageModel<F> {
    /// A model with freshly drawn weights.
    ///
    /// # Errors
    /// If the configuration is not [valid](LanguageConfig::validate).
    pub fn new(config: LanguageConfig, seed: u64) -> Result<Self> {
        config.validate()?;
        let rng = &mut init::rng(seed);
        let width = config.block.attention.width;
        let learnt = config.positions == Positions::Learned;
        let mut model = Self {
            tokens: Embedding::new(config.symbols, width, rng),
            positions: learnt.then(|| Embedding::new(config.context, width, rng)),
            blocks: Transformer::new(config.layers, config.block, rng)?,
            head: (!config.tied).then(|| Linear::new(width, config.symbols, false, rng)),
            config,
        };
        let std = 0.02;
        let parts = 2.0 * config.layers as f64;
        start::normal(&mut model, std, std / parts.sqrt(), rng);
        Ok(model)
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
            let x = self.embed(pass, symbols, sequences, 0);
            self.read(pass, self.blocks.forward(pass, x, &Mask::causal()))
        })
    }

    /// The logits `[.., length, symbols]` of tokens `[.., length, width]` that are embedded already, with
    /// their positions: the model as a function of real numbers, for derivatives and Lipschitz constants.
    ///
    /// # Panics
    /// If the shapes do not fit.
    #[track_caller]
    pub fn of_embedded<'t>(&self, pass: &Pass<'t, '_, F>, x: Var<'t, F>) -> Var<'t, F> {
        pass.call(self, &[x], || {
            self.read(pass, self.blocks.forward(pass, x, &Mask::causal()))
        })
    }

    /// The embedding of `sequences` sequences, with positions, `[sequences, length, width]`: the input of
    /// [`of_embedded`](Self::of_embedded).
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
        self.embed(pass, symbols, sequences, 0)
    }

    /// The logits at the places of symbols that follow those in `cache`, in one sequence; shape
    /// `[1, length, symbols]`.
    ///
    /// # Panics
    /// If the sequence becomes longer than the context, or a symbol is unknown.
    #[track_caller]
    pub fn continued<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        symbols: &[usize],
        cache: &mut Vec<KeyValues<F>>,
    ) -> Var<'t, F> {
        cache.resize_with(self.config.layers, KeyValues::new);
        pass.call(self, &[], || {
            let x = self.embed(pass, symbols, 1, cache[0].len());
            self.read(pass, self.blocks.continued(pass, x, cache))
        })
    }

    /// `count` symbols that continue a prompt, one after the other, each drawn from the logits after all
    /// symbols before it. Keys and values are computed once per symbol, except when the context is full: then
    /// the model reads the last half of its symbols again.
    ///
    /// ```
    /// use emmy::nn::{LanguageConfig, LanguageModel, Sampling};
    ///
    /// let model = LanguageModel::<f32>::new(LanguageConfig::gpt(10, 8, 2, 2, 16), 0)?;
    /// let how = Sampling { temperature: 0.8, top_k: Some(5), seed: 0 };
    /// let written = model.generate(&[1, 2, 3], 20, &how);
    /// assert_eq!(written.len(), 20);
    /// assert_eq!(model.generate(&[1, 2, 3], 20, &how), written);
    /// # Ok::<(), emmy::Error>(())
    /// ```
    ///
    /// # Panics
    /// If the prompt is empty or has an unknown symbol, the options of `how` are outside their ranges, or a
    /// logit is NaN.
    #[track_caller]
    pub fn generate(&self, prompt: &[usize], count: usize, how: &Sampling) -> Vec<usize> {
        let mut cache = Vec::new();
        how.continuation(prompt, count, Some(self.config.context), |symbols, anew| {
            if anew {
                cache.clear();
            }
            self.next_logits(symbols, &mut cache)
        })
    }

    /// The logits after the last of symbols that follow those in `cache`, without derivatives.
    ///
    /// # Panics
    /// As [`continued`](Self::continued), or if there is no symbol.
    #[track_caller]
    pub fn next_logits(&self, symbols: &[usize], cache: &mut Vec<KeyValues<F>>) -> Vec<F> {
        assert!(
            !symbols.is_empty(),
            "LanguageModel: there must be a symbol to continue"
        );
        let tape = Tape::new();
        let logits = self.continued(&Pass::eval(&tape, self), symbols, cache);
        let last = logits.slice(1, symbols.len() - 1..symbols.len());
        last.value().iter().copied().collect()
    }

    #[track_caller]
    fn embed<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        symbols: &[usize],
        sequences: usize,
        start: usize,
    ) -> Var<'t, F> {
        let (count, context) = (symbols.len(), self.config.context);
        assert!(
            sequences > 0 && count.is_multiple_of(sequences),
            "LanguageModel: {count} symbols are not {sequences} sequences of equal length"
        );
        let length = count / sequences;
        assert!(
            start + length <= context,
            "LanguageModel: a sequence of {} symbols, the context holds {context}",
            start + length
        );
        let width = self.config.block.attention.width;
        let x = self.tokens.forward(pass, symbols);
        let mut x = x.reshape(&[sequences, length, width]);
        let places: Vec<usize> = (start..start + length).collect();
        match &self.positions {
            Some(table) => x = x + table.forward(pass, &places),
            None if self.config.positions == Positions::Sinusoidal => {
                let all = sinusoidal(start + length, width);
                x = x + pass.tape().constant(all).slice(0, start..start + length);
            }
            None => {}
        }
        let dropout = Dropout {
            p: self.config.block.dropout,
        };
        dropout.forward(pass, x).var()
    }

    fn read<'t>(&self, pass: &Pass<'t, '_, F>, x: Var<'t, F>) -> Var<'t, F> {
        match &self.head {
            Some(head) => head.forward(pass, x),
            None => x.linear(pass.param(&self.tokens.weight)),
        }
    }
}

impl<F: Real> Layer<F> for LanguageModel<F> {}
