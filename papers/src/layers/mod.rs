//! Layers that only a table or a figure needs, written as any crate can write them: on the open traits of
//! `emmy`.
//!
//! A configuration names a layer of another crate by a registered name, whose options do not change. Here
//! the name is the text of the options, so that equal options are one kind.

mod diff_group_norm;
mod omega;
mod published;

pub use diff_group_norm::{DiffGroupNorm, DiffGroupOptions};
pub use omega::{Omega, OmegaConv, OmegaOptions};
pub use published::{
    PublishedGatConv, PublishedOptions, PublishedTransformerConv, of_edges, published,
};

use emmy::nn::{AttentionOptions, Conv, ConvOptions, Heads, Input, Norm, NormOptions, Pass};
use emmy::ops::attention::EdgeAttention;
use emmy::sparse::Pattern;
use emmy::{Real, Tensor, Var};
use std::sync::Arc;

/// The kind of layers with these options.
fn conv(options: impl ConvOptions) -> Conv {
    let name = format!("{options:?}");
    // The last attempt is for another thread that was faster.
    (Conv::registered(&name).or_else(|_| Conv::register(&name, options)))
        .or_else(|_| Conv::registered(&name))
        .expect("a text, registered now or before")
}

/// The kind of norms with these options.
fn norm(options: impl NormOptions) -> Norm {
    let name = format!("{options:?}");
    (Norm::registered(&name).or_else(|_| Norm::register(&name, options)))
        .or_else(|_| Norm::registered(&name))
        .expect("a text, registered now or before")
}

/// The attention of one pass; with dropout of coefficients, this draws the seed of its mask.
fn edge_attention<F: Real>(pass: &Pass<'_, '_, F>, p: f64, edges: &Arc<Pattern>) -> EdgeAttention {
    let dropped = Some(p).filter(|&p| p > 0.0);
    EdgeAttention {
        pattern: Arc::clone(edges),
        dropout: dropped.and_then(|p| Some((p, pass.draw()?))),
    }
}

/// `[n, H·C]` seen as `[n, H, C]`.
fn heads_of<F: Real>(z: Var<'_, F>, heads: usize) -> Var<'_, F> {
    let shape = z.shape();
    z.reshape(&[shape[0], heads, shape[1] / heads])
}

/// The output of a layer from its heads `[n, H, C]`: they are joined, the residual x Vᵀ and the bias are
/// added.
fn finished<'t, F: Real>(
    pass: &Pass<'t, '_, F>,
    options: &AttentionOptions,
    y: Var<'t, F>,
    (residual, bias): (Option<&Tensor<F>>, Option<&Tensor<F>>),
    x: &Input<'t, F>,
) -> Var<'t, F> {
    let shape = y.shape();
    let y = match options.join {
        Heads::Average if options.heads > 1 => y.mean(&[1], false),
        _ => y.reshape(&[shape[0], shape[1] * shape[2]]),
    };
    let y = residual.map_or(y, |v| y + x.linear(pass.param(v)));
    bias.map_or(y, |b| y + pass.param(b))
}
