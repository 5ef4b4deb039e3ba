//! The kinds of graph layers that a configuration can name.

use super::options::{CommonOptions, ConvOptions, Site};
use super::{
    AnyGraphConv, AttentionOptions, GatedGraphOptions, Gatv2Options, GcnOptions, GcniiOptions,
    GinOptions, GraphLayer, SageOptions, SgcOptions, TransformerOptions,
};
use crate::error::Result;
use crate::init::Rng;
use crate::real::Real;
use crate::registry::{Family, Registered, Registry, same_type};
use serde::{Deserialize, Serialize};
use std::fmt;

/// [`ConvOptions`] of any type.
pub trait AnyConvOptions: fmt::Debug + Send + Sync {
    fn build_f32(&self, at: Site, rng: &mut Rng) -> GraphLayer<f32>;
    fn build_f64(&self, at: Site, rng: &mut Rng) -> GraphLayer<f64>;
    fn validate(&self, at: Site) -> Result<()>;
    fn heads(&self) -> usize;
    fn output(&self, width: usize) -> usize;
    fn weights(&self) -> usize;
    fn common(&mut self) -> CommonOptions<'_>;
}

impl<O: ConvOptions> AnyConvOptions for O {
    fn build_f32(&self, at: Site, rng: &mut Rng) -> GraphLayer<f32> {
        self.build::<f32>(at, rng).boxed()
    }

    fn build_f64(&self, at: Site, rng: &mut Rng) -> GraphLayer<f64> {
        self.build::<f64>(at, rng).boxed()
    }

    fn validate(&self, at: Site) -> Result<()> {
        ConvOptions::validate(self, at)
    }

    fn heads(&self) -> usize {
        ConvOptions::heads(self)
    }

    fn output(&self, width: usize) -> usize {
        ConvOptions::output(self, width)
    }

    fn weights(&self) -> usize {
        ConvOptions::weights(self)
    }

    fn common(&mut self) -> CommonOptions<'_> {
        ConvOptions::common(self)
    }
}

/// A kind of layer with its options, as a configuration holds it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Conv {
    /// Graph convolution, [`GcnConv`](super::GcnConv).
    Gcn(GcnOptions),
    /// Graph attention, [`GatConv`](super::GatConv).
    Gat(AttentionOptions),
    /// Graph attention, version 2, [`Gatv2Conv`](super::Gatv2Conv).
    Gatv2(Gatv2Options),
    /// GraphSAGE with the mean, [`SageConv`](super::SageConv).
    Sage(SageOptions),
    /// Simple graph convolution, [`SgcConv`](super::SgcConv).
    Sgc(SgcOptions),
    /// Graph isomorphism network, [`GinConv`](super::GinConv).
    Gin(GinOptions),
    /// Graph convolution with initial residual and identity map, [`GcniiConv`](super::GcniiConv).
    Gcnii(GcniiOptions),
    /// The graph transformer, [`TransformerConv`](super::TransformerConv).
    Transformer(TransformerOptions),
    /// Gated graph network, [`GatedGraphConv`](super::GatedGraphConv).
    GatedGraph(GatedGraphOptions),
    /// A layer of another crate, under the name that [`Conv::register`] gave it.
    Registered(Registered<dyn AnyConvOptions>),
}

impl Conv {
    /// Graph convolution with biases.
    pub const GCN: Self = Self::Gcn(GcnOptions { bias: true });

    /// Graph attention with the default options.
    pub const GAT: Self = Self::Gat(AttentionOptions::DEFAULT);

    /// Graph attention, version 2, with the default options; sources and targets have shared or
    /// separate weights.
    pub const fn gatv2(shared: bool) -> Self {
        Self::Gatv2(Gatv2Options {
            shared,
            attention: AttentionOptions::DEFAULT,
        })
    }

    fn options(&self) -> &dyn AnyConvOptions {
        match self {
            Self::Gcn(options) => options,
            Self::Gat(options) => options,
            Self::Gatv2(options) => options,
            Self::Sage(options) => options,
            Self::Sgc(options) => options,
            Self::Gin(options) => options,
            Self::Gcnii(options) => options,
            Self::Transformer(options) => options,
            Self::GatedGraph(options) => options,
            Self::Registered(kind) => kind.options(),
        }
    }

    /// The options; those of a registered kind do not change.
    fn options_mut(&mut self) -> Option<&mut dyn AnyConvOptions> {
        Some(match self {
            Self::Gcn(options) => options,
            Self::Gat(options) => options,
            Self::Gatv2(options) => options,
            Self::Sage(options) => options,
            Self::Sgc(options) => options,
            Self::Gin(options) => options,
            Self::Gcnii(options) => options,
            Self::Transformer(options) => options,
            Self::GatedGraph(options) => options,
            Self::Registered(_) => return None,
        })
    }

    /// A layer of this kind with freshly drawn parameters.
    // Not inlined: a program that calls it would compile all kinds of layers again.
    #[inline(never)]
    pub fn build<F: Real>(&self, at: Site, rng: &mut Rng) -> GraphLayer<F> {
        match size_of::<F>() {
            4 => same_type(self.options().build_f32(at, rng)),
            _ => same_type(self.options().build_f64(at, rng)),
        }
    }

    /// Checks whether a layer of this kind can be built at this place.
    ///
    /// # Errors
    /// If an option breaks its rule, or a width does not fit; the message names the option.
    pub fn validate(&self, at: Site) -> Result<()> {
        self.options().validate(at)
    }

    /// The width of the output of a layer of the given width; with attention `width` is that of one
    /// head.
    pub fn output(&self, width: usize) -> usize {
        self.options().output(width)
    }

    /// H, the number of heads of a layer of this kind; 1 without attention.
    pub fn heads(&self) -> usize {
        self.options().heads()
    }

    /// How many weights of the size `[H·C, in]` a layer of this kind has, or more.
    pub fn weights(&self) -> usize {
        self.options().weights()
    }

    /// The options that other kinds have too, to be changed; those of a registered kind do not change.
    pub fn common(&mut self) -> CommonOptions<'_> {
        self.options_mut().map(|o| o.common()).unwrap_or_default()
    }

    /// The options of GAT's attention, if the layer has one.
    pub fn attention(&self) -> Option<&AttentionOptions> {
        match self {
            Self::Gat(options) => Some(options),
            Self::Gatv2(options) => Some(&options.attention),
            _ => None,
        }
    }

    /// The options of GAT's attention, as a mutable reference.
    pub fn attention_mut(&mut self) -> Option<&mut AttentionOptions> {
        match self {
            Self::Gat(options) => Some(options),
            Self::Gatv2(options) => Some(&mut options.attention),
            _ => None,
        }
    }

    /// Gives a kind of layers of another crate a name. A configuration names the kind by the result; a saved
    /// configuration holds the name alone, so the options belong to the name, and a program that loads the
    /// configuration registers the same name with the same options before. Names and options stay for the
    /// life of the process.
    ///
    /// # Errors
    /// If the name is empty, or registered already.
    pub fn register(name: impl Into<String>, options: impl ConvOptions) -> Result<Self> {
        let kind = REGISTRY.add(name, Box::new(options))?;
        Ok(Self::Registered(kind))
    }

    /// The kind that was registered under this name.
    ///
    /// # Errors
    /// If there is none; the message lists those that are registered.
    pub fn registered(name: &str) -> Result<Self> {
        REGISTRY.find(name).map(Self::Registered)
    }
}

static REGISTRY: Registry<dyn AnyConvOptions> = Registry::new("graph layers", "Conv::register");

impl Family for dyn AnyConvOptions {
    fn registry() -> &'static Registry<Self> {
        &REGISTRY
    }
}
