//! One block of a transformer.

use super::{DropPath, FeedForward, FeedForwardConfig};
use crate::autodiff::Var;
use crate::error::{Error, Result};
use crate::init::Rng;
use crate::nn::{
    AttentionConfig, Dropout, KeyValues, Layer, MultiHeadAttention, Norm, NormLayer, Pass,
};
use crate::ops::attention::Mask;
use crate::real::Real;
use serde::{Deserialize, Serialize};

/// A block of a transformer: self-attention, then attention to a memory if it is a decoder's, then a
/// feed-forward layer, each around a residual.
///
/// | order | each part f |
/// |---|---|
/// | pre-norm | x ← x + drop(f(norm x)) |
/// | post-norm | x ← norm(x + drop(f(x))) |
///
/// Vaswani et al., "Attention Is All You Need", NeurIPS 2017, Section 3.1, is post-norm; pre-norm is that of
/// Xiong et al., "On Layer Normalization in the Transformer Architecture", ICML 2020. As PyTorch's
/// `TransformerEncoderLayer` and `TransformerDecoderLayer` with `batch_first`, whose norms have the same
/// numbers; the mask has no default here. `drop` is dropout, then [`DropPath`].
///
/// x and the output have the shape `[.., n, width]`, the memory `[.., m, memory]`.
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
    /// The norm of the feed-forward layer behind cross-attention.
    pub norm3: Option<NormLayer<F>>,
    /// Sizes and options.
    pub config: BlockConfig,
}
crate::module!(TransformerBlock:
    attention as "self_attn",
    cross as "multihead_attn",
    feed_forward as "*",
    norm1,
    norm2,
    norm3
);

/// The configuration of a [`TransformerBlock`]. Start from [`encoder`](Self::encoder) or
/// [`decoder`](Self::decoder), and change fields.
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
    /// Whether the norm stands before each part (pre-norm) or behind each residual (post-norm).
    pub norm_first: bool,
    /// The probability of dropout of what each part adds.
    pub dropout: f64,
    /// The probability of leaving a part out, for each item of a batch.
    pub drop_path: f64,
}

impl BlockConfig {
    /// A block with self-attention of `heads` heads and `hidden` ReLU neurons: PyTorch's
    /// `TransformerEncoderLayer` with `norm_first=True` and without dropout.
    pub fn encoder(width: usize, heads: usize, hidden: usize) -> Self {
        Self {
            attention: AttentionConfig::new(width, heads),
            cross: None,
            feed_forward: FeedForwardConfig::relu(width, hidden),
            norm: Norm::LAYER,
            norm_first: true,
            dropout: 0.0,
            drop_path: 0.0,
        }
    }

    /// The same with attention to a memory of the same width.
    pub fn decoder(width: usize, heads: usize, hidden: usize) -> Self {
        Self {
            cross: Some(AttentionConfig::new(width, heads)),
            ..Self::encoder(width, heads, hidden)
        }
    }

    /// The same with dropout everywhere: of coefficients, of hidden neurons, of what each part adds.
    pub fn with_dropout(mut self, p: f64) -> Self {
        self.attention.dropout = p;
        self.feed_forward.dropout = p;
        if let Some(cross) = &mut self.cross {
            cross.dropout = p;
        }
        Self { dropout: p, ..self }
    }

    /// The same with or without biases in all maps and in the norms.
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
    /// If a part is not valid, the parts do not have the same width, or a probability is not within 0 ≤ p ≤
    /// 1.
    pub fn validate(&self) -> Result<()> {
        self.attention.validate()?;
        self.feed_forward.validate()?;
        self.norm.validate()?;
        let width = self.attention.width;
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
            if found != width {
                let rule = format!("the width {width} of the block");
                return Err(Error::invalid(
                    format!("block: {name}"),
                    rule,
                    found.to_string(),
                ));
            }
        }
        for (name, p) in [("dropout", self.dropout), ("drop_path", self.drop_path)] {
            if !(0.0..=1.0).contains(&p) {
                let rule = "a probability, 0 to 1".to_owned();
                return Err(Error::invalid(
                    format!("block: {name}"),
                    rule,
                    p.to_string(),
                ));
            }
        }
        Ok(())
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
            let x = self.part(pass, x, &self.norm1, attend);
            self.last(pass, x)
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
            let x = self.part(pass, x, &self.norm1, attend);
            let ask = |x| cross.cross(pass, x, memory, memory_mask);
            let x = self.part(pass, x, &self.norm2, ask);
            self.last(pass, x)
        })
    }

    /// The output of a causal block without memory for tokens that follow those in `cache`.
    ///
    /// # Panics
    /// If the shapes do not fit, or the block has attention to a memory.
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
        pass.call(self, &[x], || {
            let attend = |x| self.attention.continued(pass, x, cache);
            let x = self.part(pass, x, &self.norm1, attend);
            self.last(pass, x)
        })
    }

    fn last<'t>(&self, pass: &Pass<'t, '_, F>, x: Var<'t, F>) -> Var<'t, F> {
        let norm = self.norm3.as_ref().unwrap_or(&self.norm2);
        self.part(pass, x, norm, |x| self.feed_forward.forward(pass, x))
    }

    /// One part with its norm and its residual.
    fn part<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        x: Var<'t, F>,
        norm: &NormLayer<F>,
        f: impl FnOnce(Var<'t, F>) -> Var<'t, F>,
    ) -> Var<'t, F> {
        let c = &self.config;
        let (dropout, path) = (Dropout { p: c.dropout }, DropPath { p: c.drop_path });
        let drop = |y| path.forward(pass, dropout.forward(pass, y).var());
        match c.norm_first {
            true => x + drop(f(norm.forward(pass, x))),
            false => norm.forward(pass, x + drop(f(x))),
        }
    }
}

impl<F: Real> Layer<F> for TransformerBlock<F> {}
