//! Normalisers.
//!
//! | layer | mean and size of | effect on symmetries |
//! |---|---|---|
//! | [`LayerNorm`] | each row | removes a shift of all neurons |
//! | [`RmsNorm`] | each row, only the size | rotates with its input |
//! | [`BatchNorm`], [`GraphNorm`] | each feature over the rows | removes a neuron's offset and factor |
//! | [`PairNorm`] | all rows together | rotates with its input, and removes an offset |
//! | [`ContraNorm`] | no size: moves each row away from similar rows | the step rotates with its input |
//!
//! Factors are removed only if ε = 0. [`Norm`] names one of these norms in a configuration, and a network
//! holds it as a [`NormLayer`]. A norm of another crate has [`Normalizer`], as these norms have, and its
//! options [`NormOptions`]; [`Norm::register`] gives them a name. There are two more layers: [`ActNorm`] is
//! an affine map whose parameters start from data, [`Spectral`] is a weight divided by an estimate of its
//! norm.

mod act_norm;
mod batch_norm;
mod config;
pub mod contra;
mod graph_norm;
mod layer_norm;
mod normalizer;
mod pair_norm;
mod rms_norm;
mod spectral;

pub use act_norm::ActNorm;
pub use batch_norm::{BatchNorm, Running};
pub use config::{Norm, NormOptions};
pub use contra::{ContraConfig, ContraNorm};
pub use graph_norm::GraphNorm;
pub use layer_norm::LayerNorm;
pub use normalizer::{AnyNorm, NormContext, Normalizer};
pub use pair_norm::{PairEps, PairMode, PairNorm};
pub use rms_norm::RmsNorm;
pub use spectral::Spectral;

use super::{Params, Pass};
use crate::autodiff::Var;
use crate::real::Real;
use crate::symmetry::{Passage, Ports};
use crate::tensor::Tensor;

/// A norm of any kind, as a network holds it.
pub type NormLayer<F> = Box<dyn Normalizer<F>>;

/// The ports of γ ⊙ z + β, where z is the input after a norm with this `passage` (its effect on symmetries).
/// With γ, the output is a new stream. Without γ, it is the stream of the input after the norm; a β without γ
/// ends the laws of that stream.
fn behind<F: Real>(
    params: &Params<'_, F>,
    passage: Passage,
    gain: Option<&Tensor<F>>,
    bias: Option<&Tensor<F>>,
) -> Ports {
    let Some(gain) = gain else {
        return match bias {
            None => Ports::passing(passage),
            Some(_) => Ports::passing(passage.then(Passage::BREAKS)),
        };
    };
    let written = std::iter::once(gain).chain(bias);
    Ports::writes(written.map(|p| params.rows(p))).reads_after(passage, [params.rows(gain)])
}

/// γ ⊙ z + β, each of the two if it is there.
fn affine<'t, F: Real>(
    pass: &Pass<'t, '_, F>,
    z: Var<'t, F>,
    gain: Option<&Tensor<F>>,
    bias: Option<&Tensor<F>>,
) -> Var<'t, F> {
    let y = gain.map_or(z, |gain| z * pass.param(gain));
    bias.map_or(y, |bias| y + pass.param(bias))
}

/// Refuses an input whose last axis does not have the size of the parameters.
#[track_caller]
fn check_width<F: Real>(layer: &str, shape: &[usize], parameters: &[(&str, Option<&Tensor<F>>)]) {
    assert!(!shape.is_empty(), "{layer}: x has no axis");
    for (name, p) in parameters {
        if let Some(p) = p {
            assert!(
                shape.last() == p.shape().first(),
                "{layer}: x has shape {shape:?}, {name} {:?}: the last axes must be equal",
                p.shape()
            );
        }
    }
}

/// The axes that number the rows: all but the last.
#[track_caller]
fn row_axes(layer: &str, shape: &[usize]) -> Vec<isize> {
    assert!(
        shape.len() >= 2,
        "{layer}: x has shape {shape:?}, it must be [.., rows, features]"
    );
    (0..shape.len() as isize - 1).collect()
}
