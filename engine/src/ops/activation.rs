//! The choice of an activation, as options and files of layers have it.

use crate::autodiff::Var;
use crate::real::Real;
use serde::{Deserialize, Serialize};

/// A function applied to each element; the formulas are given at the operations of the same names
/// ([`crate::ops`]).
///
/// The first four are positively homogeneous ([`degree`](Self::degree)). The conservation laws of
/// neurons rely on this property.
///
/// ```
/// use emmy::{Tape, nn::Activation, tensor::tensor};
/// let tape = Tape::new();
/// let x = tape.var(vec![-1.0_f64, 3.0]);
/// let y = Activation::ReluSquared.apply(x);
/// assert_eq!(y.value(), tensor(&[2], vec![0.0, 9.0]));
/// // Twice the argument, four times the value.
/// assert_eq!(Activation::ReluSquared.apply(x * 2.0).value(), tensor(&[2], vec![0.0, 36.0]));
/// assert_eq!(Activation::ReluSquared.degree(), Some(2));
/// assert_eq!(Activation::Tanh.degree(), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Activation {
    /// x
    Identity,
    /// max(x, 0)
    Relu,
    /// x for x > 0, slope · x elsewhere
    LeakyRelu {
        /// The slope for negative arguments.
        slope: f64,
    },
    /// max(x, 0)², So et al., "Primer", NeurIPS 2021
    ReluSquared,
    /// x for x > 0, eˣ − 1 elsewhere
    Elu,
    /// x Φ(x)
    Gelu,
    /// x / (1 + e⁻ˣ)
    Silu,
    /// ln(1 + eˣ)
    Softplus,
    /// tanh x
    Tanh,
    /// 1 / (1 + e⁻ˣ)
    Sigmoid,
    /// x tanh(ln(1 + eˣ))
    Mish,
    /// x limited to −1 ≤ y ≤ 1
    HardTanh,
}

impl Activation {
    /// y = σ(x), element by element.
    pub fn apply<F: Real>(self, x: Var<'_, F>) -> Var<'_, F> {
        match self {
            Self::Identity => x,
            Self::Relu => x.relu(),
            Self::LeakyRelu { slope } => x.leaky_relu(F::of(slope)),
            Self::ReluSquared => {
                let y = x.relu();
                y * y
            }
            Self::Elu => x.elu(F::one()),
            Self::Gelu => x.gelu(),
            Self::Silu => x.silu(),
            Self::Softplus => x.softplus(),
            Self::Tanh => x.tanh(),
            Self::Sigmoid => x.sigmoid(),
            Self::Mish => x.mish(),
            Self::HardTanh => x.hardtanh(),
        }
    }

    /// y = σ(x) for an x that no other operation reads: if the derivative reads y alone, the value of x is
    /// [forgotten](Var::forget).
    pub fn consume<F: Real>(self, x: Var<'_, F>) -> Var<'_, F> {
        let y = self.apply(x);
        match self {
            Self::Relu | Self::ReluSquared | Self::Tanh | Self::Sigmoid => x.forget(),
            _ => {}
        }
        y
    }

    /// k if σ(λx) = λᵏ σ(x) for all λ > 0 and all x; `None` if there is no such k.
    pub fn degree(self) -> Option<u32> {
        match self {
            Self::Identity | Self::Relu | Self::LeakyRelu { .. } => Some(1),
            Self::ReluSquared => Some(2),
            Self::Elu
            | Self::Gelu
            | Self::Silu
            | Self::Softplus
            | Self::Tanh
            | Self::Sigmoid
            | Self::Mish
            | Self::HardTanh => None,
        }
    }
}
