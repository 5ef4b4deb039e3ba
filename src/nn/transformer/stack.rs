//! Blocks one after the other.

use super::{BlockConfig, TransformerBlock};
use crate::autodiff::Var;
use crate::error::{Error, Result};
use crate::init::Rng;
use crate::nn::{KeyValues, Layer, NormLayer, Pass};
use crate::ops::attention::Mask;
use crate::real::Real;

/// Blocks one after the other, and a last norm if the blocks are pre-norm: an encoder, a causal decoder (with
/// the mask [`Mask::causal`]), or a decoder that attends to a memory.
///
/// ```
/// use emmy::{Tape, init, nn::{BlockConfig, Pass, Transformer}, ops::attention::Mask};
///
/// let net = Transformer::<f32>::new(2, BlockConfig::pre_norm_encoder(8, 2, 32), &mut init::rng(0))?;
/// let tape = Tape::new();
/// let x = tape.constant(init::normal(&[3, 5, 8], 1.0, &mut init::rng(1)));
/// let y = net.forward(&Pass::eval(&tape, &net), x, &Mask::lengths(&[5, 2, 4]));
/// assert_eq!(y.shape(), [3, 5, 8]);
/// # Ok::<(), emmy::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Transformer<F: Real> {
    /// The blocks, first to last.
    pub layers: Vec<TransformerBlock<F>>,
    /// The last norm.
    pub norm: Option<NormLayer<F>>,
}
crate::module!(Transformer: layers, norm);

impl<F: Real> Transformer<F> {
    /// `layers` blocks of the same configuration, with freshly drawn weights.
    ///
    /// # Errors
    /// If the configuration is not [valid](BlockConfig::validate), or there is no layer.
    pub fn new(layers: usize, config: BlockConfig, rng: &mut Rng) -> Result<Self> {
        if layers == 0 {
            let what = "transformer: layers".to_owned();
            return Err(Error::invalid(what, "at least 1", "0"));
        }
        let blocks = (0..layers).map(|_| TransformerBlock::new(config, rng));
        Ok(Self {
            layers: blocks.collect::<Result<_>>()?,
            norm: (config.norm_first).then(|| config.norm.build(config.attention.width, rng)),
        })
    }

    /// The output of blocks without memory.
    ///
    /// # Panics
    /// If the shapes do not fit, or the blocks attend to a memory.
    #[track_caller]
    pub fn forward<'t>(&self, pass: &Pass<'t, '_, F>, x: Var<'t, F>, mask: &Mask) -> Var<'t, F> {
        pass.call(self, &[x], || {
            let each = |x, block: &TransformerBlock<F>| block.forward(pass, x, mask);
            self.end(pass, self.layers.iter().fold(x, each), mask)
        })
    }

    /// The tokens after each block, before the last norm, and the coefficients of its self-attention,
    /// `[.., H, n, n]`: for measures per layer.
    ///
    /// # Panics
    /// As [`forward`](Self::forward).
    #[track_caller]
    pub fn by_layer<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        x: Var<'t, F>,
        mask: &Mask,
    ) -> Vec<(Var<'t, F>, Var<'t, F>)> {
        let mut x = x;
        let each = self.layers.iter().map(|block| {
            let (y, alpha) = block.with_coefficients(pass, x, mask);
            x = y;
            (y, alpha)
        });
        each.collect()
    }

    /// The output of blocks that attend to `memory`.
    ///
    /// # Panics
    /// If the shapes do not fit, or the blocks have no attention to a memory.
    #[track_caller]
    pub fn with_memory<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        x: Var<'t, F>,
        mask: &Mask,
        memory: Var<'t, F>,
        memory_mask: &Mask,
    ) -> Var<'t, F> {
        pass.call(self, &[x, memory], || {
            let each = |x, block: &TransformerBlock<F>| {
                block.with_memory(pass, x, mask, memory, memory_mask)
            };
            self.end(pass, self.layers.iter().fold(x, each), mask)
        })
    }

    /// The output of causal blocks for tokens that follow those in `caches`, one cache per block.
    ///
    /// # Panics
    /// If the shapes do not fit, or there is not one cache per block.
    #[track_caller]
    pub fn continued<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        x: Var<'t, F>,
        caches: &mut [KeyValues<F>],
    ) -> Var<'t, F> {
        let (found, blocks) = (caches.len(), self.layers.len());
        assert!(
            found == blocks,
            "Transformer: {found} caches for {blocks} blocks"
        );
        pass.call(self, &[x], || {
            let layers = self.layers.iter().zip(caches);
            let y = layers.fold(x, |x, (block, cache)| block.continued(pass, x, cache));
            self.end(pass, y, &Mask::causal())
        })
    }

    fn end<'t>(&self, pass: &Pass<'t, '_, F>, x: Var<'t, F>, mask: &Mask) -> Var<'t, F> {
        match &self.norm {
            Some(norm) => norm.masked(pass, x, mask),
            None => x,
        }
    }
}

impl<F: Real> Layer<F> for Transformer<F> {}
