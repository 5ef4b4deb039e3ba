//! ContraNorm in a block of a transformer.

use crate::nn::ContraConfig;
use serde::{Deserialize, Serialize};

/// The place of ContraNorm in a [`TransformerBlock`](super::TransformerBlock).
///
/// With f the self-attention, drop its dropout and C ContraNorm:
///
/// | place | pre-norm | post-norm |
/// |---|---|---|
/// | before the residual | x + C(drop(f(norm x))) | norm(x + C(drop(f(x)))) |
/// | after the residual | C(x + drop(f(norm x))) | norm(C(x + drop(f(x)))) |
///
/// Guo, Wang, Du and Wang, "ContraNorm", ICLR 2023, Appendix E, Eq. (26) to (28), for a post-norm block:
/// between (26) and (27), and between (27) and (28). If [`DropPath`](super::DropPath) leaves the attention
/// out, it leaves out a C before the residual too, but not a C after it.
///
/// In their code for images it is in front of every LayerNorm of a pre-norm model, also of the last one. That
/// is not a place here: use [`Norm::Contra`](crate::nn::Norm::Contra) with [`ContraConfig::vision_code`] as
/// the norm of the blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ContraPlace {
    /// On the output of self-attention, before it is added.
    BeforeResidual,
    /// On the sum of self-attention and its residual.
    AfterResidual,
}

/// ContraNorm of the self-attention of a block: which one, and where.
///
/// The LayerNorm that ends Eq. (9) of the paper is that of the block, so forms without a norm of their own
/// fit here, such as [`ContraConfig::text_code`] and [`ContraConfig::stopped`]. It compares the tokens that
/// the mask lets see each other; the published code for text includes padding.
///
/// A pre-norm block whose two parts add 0, with ContraNorm after the residual: the output is ContraNorm of x,
/// which takes away the part 2 that both rows share.
///
/// ```
/// use emmy::nn::{BlockConfig, BlockContra, ContraConfig, ContraPlace, Pass, TransformerBlock};
/// use emmy::{Tape, init, ops::attention::Mask, tensor::tensor};
///
/// let mut config = BlockConfig::pre_norm_encoder(2, 1, 4);
/// let place = ContraPlace::AfterResidual;
/// config.contra = Some(BlockContra { norm: ContraConfig::stopped(1.0), place });
/// let mut block = TransformerBlock::<f64>::new(config, &mut init::rng(0))?;
/// block.attention.output.weight.fill(0.0);
/// block.feed_forward.down.weight.fill(0.0);
/// let tape = Tape::new();
/// let x = tape.constant(tensor(&[2, 2], vec![2.0, 1.0, 2.0, -1.0]));
/// let y = block.forward(&Pass::eval(&tape, &block), x, &Mask::none()).value();
/// assert!(y[[0, 0]].abs() < 1e-12 && y[[1, 0]].abs() < 1e-12);
/// assert!((y[[0, 1]] - 2.0 / (2_f64.exp() + 1.0)).abs() < 1e-12);
/// # Ok::<(), emmy::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BlockContra {
    /// The layer.
    pub norm: ContraConfig,
    /// Its place.
    pub place: ContraPlace,
}
