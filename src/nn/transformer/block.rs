//! One block of a transformer.

use super::{BlockContra, ContraPlace, DropPath, FeedForward, FeedForwardConfig};
use crate::autodiff::Var;
use crate::error::{Result, Rules};
use crate::init::Rng;
use crate::nn::{
    AttentionConfig, ContraNorm, Dropout, KeyValues, Layer, MultiHeadAttention, Norm, NormLayer,
    Pass,
};
use crate::ops::attention::Mask;
use crate::real::Real;
use serde::{Deserialize, Serialize};

/// A block of a transformer: self-attention, then attention to a memory in a decoder, then a feed-forward
/// layer, each with a residual.
///
/// | order | each part f |
/// |---|---|
/// | pre-norm | x ← x + drop(f(norm x)) |
/// | post-norm | x ← norm(x + drop(f(x))) |
///
/// Vaswani et al., "Attention Is All You Need", NeurIPS 2017, Section 3.1, is post-norm; pre-norm is that of
/// Xiong et al., "On Layer Normalization in the Transformer Architecture", ICML 2020. As PyTorch's
/// `TransformerEncoderLayer` and `TransformerDecoderLayer` with `batch_first`, whose norms are numbered in
/// the same way; the mask has no default here. `drop` is dropout, then [`DropPath`]. [`BlockContra`] adds
/// ContraNorm to the self-attention; [`Norm::Contra`] uses it in place of every norm. In both roles it
/// compares the tokens that the mask of the self-attention lets see each other.
///
/// x and the output have the shape `[.., n, width]`, the memory `[.., m, memory]`.
///
/// Each part adds to its input. If the last weight of both parts is 0, a pre-norm block is the identity:
///
/// ```
/// use emmy::nn::{BlockConfig, Pass, TransformerBlock};
/// use emmy::{Tape, init, ops::attention::Mask};
///
/// let config = BlockConfig::pre_norm_encoder(4, 2, 8);
/// let mut block = TransformerBlock::<f64>::new(config, &mut init::rng(0))?;
/// let tape = Tape::new();
/// // Two items of three tokens.
/// let x = tape.constant(init::normal(&[2, 3, 4], 1.0, &mut init::rng(1)));
/// let y = block.forward(&Pass::eval(&tape, &block), x, &Mask::causal());
/// assert_eq!(y.shape(), [2, 3, 4]);
/// block.attention.output.weight.fill(0.0);
/// block.feed_forward.down.weight.fill(0.0);
/// let y = block.forward(&Pass::eval(&tape, &block), x, &Mask::causal());
/// assert_eq!(y.value(), x.value());
/// # Ok::<(), emmy::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct TransformerBlock<F: Real> {
    /// Attention of the tokens to each other.
    pub attention: MultiHeadAttention<F>,
    /// Attention of the tokens to a memory.
    pub cross: Option<MultiHeadAttention<F>>,
    /// The feed-forward layer.
    pub feed_forward: FeedForward<F>,
    /// The norm of the self-attention.
    pub norm1: NormLayer<F>,
    /// The norm of the second part: cross-attention, or else the feed-forward layer.
    pub norm2: NormLayer<F>,
    /// The norm of the feed-forward layer after cross-attention.
    pub norm3: Option<NormLayer<F>>,
    /// ContraNorm of the self-attention.
    pub contra: Option<ContraNorm<F>>,
    /// Sizes and options.
    pub config: BlockConfig,
}
crate::module!(TransformerBlock:
    attention as "self_attn",
    cross as "multihead_attn",
    feed_forward as "*",
    norm1,
    norm2,
    norm3,
    contra
);

/// The configuration of a [`TransformerBlock`]. Start from a constructor, and change fields:
///
/// | | pre-norm | post-norm, PyTorch's default |
/// |---|---|---|
/// | self-attention | [`pre_norm_encoder`](Self::pre_norm_encoder) | [`post_norm_encoder`](Self::post_norm_encoder) |
/// | and attention to a memory | [`pre_norm_decoder`](Self::pre_norm_decoder) | [`post_norm_decoder`](Self::post_norm_decoder) |
///
/// All are without dropout; PyTorch's default is 0.1 ([`with_dropout`](Self::with_dropout)).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BlockConfig {
    /// The self-attention.
    pub attention: AttentionConfig,
    /// The attention to a memory, if there is one.
    pub cross: Option<AttentionConfig>,
    /// The feed-forward layer.
    pub feed_forward: FeedForwardConfig,
    /// The norms.
    pub norm: Norm,
    /// Whether the norm is before each part (pre-norm) or after each residual (post-norm).
    pub norm_first: bool,
    /// The probability of dropout of the output of each part, before it is added.
    pub dropout: f64,
    /// The probability of leaving a part out, for each item of a batch.
    pub drop_path: f64,
    /// ContraNorm of the self-attention, and its place.
    #[serde(default)]
    pub contra: Option<BlockContra>,
}

impl BlockConfig {
    /// A block with self-attention of `heads` heads and `hidden` ReLU neurons: PyTorch's
    /// `TransformerEncoderLayer` with `norm_first=True` and without dropout.
    pub fn pre_norm_encoder(width: usize, heads: usize, hidden: usize) -> Self {
        Self {
            attention: AttentionConfig::new(width, heads),
            cross: None,
            feed_forward: FeedForwardConfig::relu(width, hidden),
            norm: Norm::LAYER,
            norm_first: true,
            dropout: 0.0,
            drop_path: 0.0,
            contra: None,
        }
    }

    /// The same with `norm_first=False`.
    pub fn post_norm_encoder(width: usize, heads: usize, hidden: usize) -> Self {
        Self {
            norm_first: false,
            ..Self::pre_norm_encoder(width, heads, hidden)
        }
    }

    /// [`pre_norm_encoder`](Self::pre_norm_encoder) with attention to a memory of the same width: PyTorch's
    /// `TransformerDecoderLayer` with `norm_first=True` and without dropout.
    pub fn pre_norm_decoder(width: usize, heads: usize, hidden: usize) -> Self {
        Self {
            cross: Some(AttentionConfig::new(width, heads)),
            ..Self::pre_norm_encoder(width, heads, hidden)
        }
    }

    /// The same with `norm_first=False`.
    pub fn post_norm_decoder(width: usize, heads: usize, hidden: usize) -> Self {
        Self {
            norm_first: false,
            ..Self::pre_norm_decoder(width, heads, hidden)
        }
    }

    /// The same with dropout of coefficients, of hidden neurons, and of the output of each part.
    pub fn with_dropout(mut self, p: f64) -> Self {
        self.attention.dropout = p;
        self.feed_forward.dropout = p;
        if let Some(cross) = &mut self.cross {
            cross.dropout = p;
        }
        Self { dropout: p, ..self }
    }

    /// The same with or without biases in all maps and in LayerNorm; other norms keep what they have.
    pub fn biased(mut self, on: bool) -> Self {
        self.attention.bias = on;
        self.feed_forward.bias = on;
        if let Some(cross) = &mut self.cross {
            cross.bias = on;
        }
        if let Norm::Layer { bias, .. } = &mut self.norm {
            *bias = on;
        }
        self
    }

    /// Checks whether a block can be built.
    ///
    /// # Errors
    /// If a part is not valid, the parts do not have the same width, a probability is not within 0 ≤ p ≤ 1,
    /// or a ContraNorm leaves neighbours out.
    pub fn validate(&self) -> Result<()> {
        self.attention.validate()?;
        self.feed_forward.validate()?;
        let (rules, width) = (Rules("block"), self.attention.width);
        self.norm.validate(width)?;
        self.contra.map_or(Ok(()), |c| c.norm.validate())?;
        let norm = match self.norm {
            Norm::Contra(config) => Some(config),
            _ => None,
        };
        let mut norms = norm.into_iter().chain(self.contra.map(|c| c.norm));
        let compared = !norms.any(|config| config.without_neighbours);
        let rule = "comparison with all tokens, which have no neighbours";
        rules.hold(
            compared,
            "ContraNorm",
            rule,
            "comparison without neighbours",
        )?;
        let mut widths = vec![
            ("attention: memory", self.attention.memory),
            ("attention: out", self.attention.out),
            ("feed-forward: width", self.feed_forward.width),
        ];
        if let Some(cross) = &self.cross {
            cross.validate()?;
            widths.push(("cross-attention: width", cross.width));
            widths.push(("cross-attention: out", cross.out));
        }
        for (name, found) in widths {
            let rule = format!("the width {width} of the block");
            rules.hold(found == width, name, rule, found)?;
        }
        rules.probability("dropout", self.dropout)?;
        rules.probability("drop_path", self.drop_path)
    }
}

impl<F: Real> TransformerBlock<F> {
    /// A block with freshly drawn weights.
    ///
    /// # Errors
    /// If the configuration is not [valid](BlockConfig::validate).
    pub fn new(config: BlockConfig, rng: &mut Rng) -> Result<Self> {
        config.validate()?;
        let cross = config.cross.map(|c| MultiHeadAttention::new(c, rng));
        let attention = MultiHeadAttention::new(config.attention, rng)?;
        let feed_forward = FeedForward::new(config.feed_forward, rng)?;
        let mut norm = || config.norm.build(config.attention.width, rng);
        Ok(Self {
            attention,
            norm1: norm(),
            norm2: norm(),
            norm3: cross.is_some().then(norm),
            cross: cross.transpose()?,
            feed_forward,
            contra: config.contra.map(|c| c.norm.build(config.attention.width)),
            config,
        })
    }

    /// The output of a block without memory.
    ///
    /// # Panics
    /// If the shapes do not fit, or the block has attention to a memory.
    #[track_caller]
    pub fn forward<'t>(&self, pass: &Pass<'t, '_, F>, x: Var<'t, F>, mask: &Mask) -> Var<'t, F> {
        assert!(
            self.cross.is_none(),
            "TransformerBlock: it attends to a memory; call with_memory"
        );
        pass.call(self, &[x], || {
            let attend = |x| self.attention.forward(pass, x, mask);
            let x = self.part(pass, 0, x, mask, attend);
            self.last(pass, x, mask)
        })
    }

    /// The same, and the coefficients of the self-attention before dropout, `[.., H, n, n]`
    /// ([`MultiHeadAttention::with_coefficients`]).
    ///
    /// # Panics
    /// As [`forward`](Self::forward).
    #[track_caller]
    pub fn with_coefficients<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        x: Var<'t, F>,
        mask: &Mask,
    ) -> (Var<'t, F>, Var<'t, F>) {
        assert!(
            self.cross.is_none(),
            "TransformerBlock: it attends to a memory; call with_memory"
        );
        pass.call(self, &[x], || {
            let mut alpha = None;
            let attend = |x| {
                let (y, found) = self.attention.with_coefficients(pass, x, x, mask);
                alpha = Some(found);
                y
            };
            let x = self.part(pass, 0, x, mask, attend);
            let y = self.last(pass, x, mask);
            (y, alpha.expect("the part has attended"))
        })
    }

    /// The output of a block that attends to `memory`.
    ///
    /// # Panics
    /// If the shapes do not fit, or the block has no attention to a memory.
    #[track_caller]
    pub fn with_memory<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        x: Var<'t, F>,
        mask: &Mask,
        memory: Var<'t, F>,
        memory_mask: &Mask,
    ) -> Var<'t, F> {
        let Some(cross) = &self.cross else {
            panic!("TransformerBlock: it has no attention to a memory; call forward")
        };
        pass.call(self, &[x, memory], || {
            let attend = |x| self.attention.forward(pass, x, mask);
            let x = self.part(pass, 0, x, mask, attend);
            let ask = |x| cross.cross(pass, x, memory, memory_mask);
            let x = self.part(pass, 1, x, mask, ask);
            self.last(pass, x, mask)
        })
    }

    /// The output of a causal block without memory for tokens that follow those in `cache`.
    ///
    /// # Panics
    /// If the shapes do not fit, or the block has attention to a memory, ContraNorm, or a norm that
    /// [mixes rows](crate::nn::Normalizer::mixes_rows).
    #[track_caller]
    pub fn continued<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        x: Var<'t, F>,
        cache: &mut KeyValues<F>,
    ) -> Var<'t, F> {
        assert!(
            self.cross.is_none(),
            "TransformerBlock: it attends to a memory, which a cache does not hold"
        );
        assert!(
            self.contra.is_none() && !self.norm1.mixes_rows(),
            "TransformerBlock: its norm reads all tokens before, which a cache does not hold"
        );
        pass.call(self, &[x], || {
            let attend = |x| self.attention.continued(pass, x, cache);
            let x = self.part(pass, 0, x, &Mask::causal(), attend);
            self.last(pass, x, &Mask::causal())
        })
    }

    fn last<'t>(&self, pass: &Pass<'t, '_, F>, x: Var<'t, F>, mask: &Mask) -> Var<'t, F> {
        let k = if self.norm3.is_some() { 2 } else { 1 };
        self.part(pass, k, x, mask, |x| self.feed_forward.forward(pass, x))
    }

    /// Part k with its norm and its residual; part 0 is the self-attention, which may have ContraNorm.
    #[track_caller]
    fn part<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        k: usize,
        x: Var<'t, F>,
        mask: &Mask,
        f: impl FnOnce(Var<'t, F>) -> Var<'t, F>,
    ) -> Var<'t, F> {
        let c = &self.config;
        let norms = [Some(&self.norm1), Some(&self.norm2), self.norm3.as_ref()];
        let norm = norms[k].expect("a norm per part");
        let at = |place, x| match (&self.contra, c.contra) {
            (Some(contra), Some(found)) if k == 0 && found.place == place => {
                contra.masked(pass, x, mask)
            }
            _ => x,
        };
        let (dropout, path) = (Dropout { p: c.dropout }, DropPath { p: c.drop_path });
        let add = |x: Var<'t, F>, y| {
            let y = at(ContraPlace::BeforeResidual, dropout.forward(pass, y).var());
            at(ContraPlace::AfterResidual, x + path.forward(pass, y))
        };
        match c.norm_first {
            true => add(x, f(norm.masked(pass, x, mask))),
            false => norm.masked(pass, add(x, f(x)), mask),
        }
    }
}

impl<F: Real> Layer<F> for TransformerBlock<F> {}
