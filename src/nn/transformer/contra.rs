//! ContraNorm in a block of a transformer.

use crate::autodiff::Var;
use crate::error::Result;
use crate::nn::{ContraConfig, ContraNorm, Pass};
use crate::ops::attention::Mask;
use crate::real::Real;
use serde::{Deserialize, Serialize};

/// Where ContraNorm stands in a [`TransformerBlock`](super::TransformerBlock).
///
/// With f the self-attention, drop its dropout and C ContraNorm:
///
/// | place | pre-norm | post-norm |
/// |---|---|---|
/// | before the residual | x + C(drop(f(norm x))) | norm(x + C(drop(f(x)))) |
/// | after the residual | C(x + drop(f(norm x))) | norm(C(x + drop(f(x)))) |
/// | before the norms | x + drop(f(norm C(x))) | norm(C(x + drop(f(x)))) |
///
/// The first two are those of Guo et al., "ContraNorm", ICLR 2023, Appendix E, Eq. (26) to (28), for a
/// post-norm block: between (26) and (27), and between (27) and (28). Their ContraNorm belongs to the
/// self-attention alone. The third is that of their code for vision transformers: every norm of the model has
/// one in front of it, the last norm behind pre-norm blocks too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ContraPlace {
    /// On what self-attention adds.
    BeforeResidual,
    /// On the sum of self-attention and its residual.
    AfterResidual,
    /// In front of every norm.
    BeforeNorms,
}

/// ContraNorm in a block: which one, and where.
///
/// It sees what the self-attention sees: padding is left out, a token of a causal block sees those before it.
/// The published code for BERT lets padding take part.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BlockContra {
    /// The layer.
    pub norm: ContraConfig,
    /// Its place.
    pub place: ContraPlace,
}

impl BlockContra {
    /// Checks the options of the layer.
    ///
    /// # Errors
    /// If they are not [valid](ContraConfig::validate).
    pub fn validate(&self) -> Result<()> {
        self.norm.validate()
    }

    /// The layers of a block with so many parts.
    pub(super) fn of_block<F: Real>(&self, width: usize, parts: usize) -> Vec<ContraNorm<F>> {
        let count = match self.place {
            ContraPlace::BeforeNorms => parts,
            ContraPlace::BeforeResidual | ContraPlace::AfterResidual => 1,
        };
        (0..count).map(|_| self.norm.build(width)).collect()
    }

    /// The layer in front of the last norm of pre-norm blocks.
    pub(super) fn of_end<F: Real>(&self, width: usize) -> Option<ContraNorm<F>> {
        (self.place == ContraPlace::BeforeNorms).then(|| self.norm.build(width))
    }
}

/// ContraNorm of one part of a block, if it has one.
pub(super) struct Spread<'a, F: Real> {
    pub norm: Option<&'a ContraNorm<F>>,
    pub place: Option<ContraPlace>,
    pub mask: &'a Mask,
}

impl<F: Real> Spread<'_, F> {
    /// C(x) if this is its place, else x.
    #[track_caller]
    pub fn at<'t>(&self, place: ContraPlace, pass: &Pass<'t, '_, F>, x: Var<'t, F>) -> Var<'t, F> {
        match self.norm.filter(|_| self.place == Some(place)) {
            Some(norm) => norm.forward_masked(pass, x, self.mask),
            None => x,
        }
    }
}
