//! Layers over graphs, and the network that composes them.
//!
//! Each layer is one file, with a struct, its forward function, its ports and [`GraphConv`], and
//! one line in the list below. This line makes the layer a kind that a configuration can name.

mod config;
mod gat;
mod gatv2;
mod gcn;
mod heads;
mod network;
mod omega;
mod sage;

pub use config::{GraphNetConfig, MOST_LAYERS, MOST_PARAMETERS};
pub use gat::GatConv;
pub use gatv2::{Gatv2Conv, Gatv2Options};
pub use gcn::{GcnConv, GcnOptions};
pub use heads::{AttentionOptions, Heads};
pub use network::GraphNet;
pub use omega::Omega;
pub use sage::{SageConv, SageOptions};

use super::{Fields, Input, Layer, Module, Params, Pass};
use crate::autodiff::Var;
use crate::error::Result;
use crate::graph::Neighbourhood;
use crate::init::Rng;
use crate::real::Real;
use crate::symmetry::Ports;
use crate::tensor::Tensor;
use serde::{Deserialize, Serialize};

/// A layer of which a [`GraphNet`] can be built.
pub trait GraphConv<F: Real>: Layer<F> + Sized {
    /// The options of the layer in a configuration, besides its widths.
    type Options;

    /// A layer with freshly drawn parameters, from `input` features to neurons of the given width.
    fn build(input: usize, width: usize, options: Self::Options, rng: &mut Rng) -> Self;

    /// The width of the output of a layer of the given width; with attention `width` is that of one head.
    fn output(width: usize, options: &Self::Options) -> usize {
        let _ = options;
        width
    }

    /// Checks whether a layer can be built with these options.
    ///
    /// # Errors
    /// If an option breaks its rule; the message names the option.
    fn validate(options: &Self::Options) -> Result<()> {
        let _ = options;
        Ok(())
    }

    /// Sets whether the layer has biases.
    fn set_bias(options: &mut Self::Options, bias: bool);

    /// The output `[n, out]` on a graph.
    ///
    /// # Panics
    /// If the shapes do not fit.
    fn on<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        x: Input<'t, F>,
        neighbours: &Neighbourhood<F>,
    ) -> Var<'t, F>;
}

/// From one line per layer, makes two enums: the kinds of layers that a configuration can name, and
/// the layers of these kinds.
macro_rules! graph_layers {
    ($($(#[$doc:meta])* $kind:ident($layer:ident, $options:ident),)*) => {
        /// A kind of layer with its options, as a configuration holds it.
        #[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum Conv {
            $($(#[$doc])* $kind($options),)*
        }

        /// One layer of a [`GraphNet`].
        #[derive(Debug, Clone)]
        pub enum GraphLayer<F: Real> {
            $($(#[$doc])* $kind($layer<F>),)*
        }

        impl Conv {
            /// A layer of this kind with freshly drawn parameters.
            pub fn build<F: Real>(&self, input: usize, width: usize, rng: &mut Rng) -> GraphLayer<F> {
                match *self {
                    $(Self::$kind(options) => GraphLayer::$kind($layer::build(input, width, options, rng)),)*
                }
            }

            /// The width of the output of a layer of the given width; with attention `width` is that of one
            /// head.
            pub fn output(&self, width: usize) -> usize {
                match self {
                    $(Self::$kind(options) => $layer::<f64>::output(width, options),)*
                }
            }

            /// Checks whether a layer can be built with these options.
            ///
            /// # Errors
            /// If an option breaks its rule; the message names the option.
            pub fn validate(&self) -> Result<()> {
                match self {
                    $(Self::$kind(options) => $layer::<f64>::validate(options),)*
                }
            }
        }

        impl Conv {
            /// Sets whether layers of this kind have biases.
            pub fn set_bias(&mut self, bias: bool) {
                match self {
                    $(Self::$kind(options) => $layer::<f64>::set_bias(options, bias),)*
                }
            }
        }

        impl<F: Real> GraphLayer<F> {
            /// The layer's output, `[n, out]`.
            ///
            /// # Panics
            /// If the shapes do not fit.
            #[track_caller]
            pub fn forward<'t>(
                &self,
                pass: &Pass<'t, '_, F>,
                x: impl Into<Input<'t, F>>,
                neighbours: &Neighbourhood<F>,
            ) -> Var<'t, F> {
                match self {
                    $(Self::$kind(layer) => layer.on(pass, x.into(), neighbours),)*
                }
            }
        }

        impl<F: Real> Module<F> for GraphLayer<F> {
            fn collect<'a>(&'a self, out: &mut Fields<&'a Tensor<F>>) {
                match self {
                    $(Self::$kind(layer) => layer.collect(out),)*
                }
            }

            fn collect_mut<'a>(&'a mut self, out: &mut Fields<&'a mut Tensor<F>>) {
                match self {
                    $(Self::$kind(layer) => layer.collect_mut(out),)*
                }
            }
        }

        impl<F: Real> Layer<F> for GraphLayer<F> {
            fn ports(&self, params: &Params<'_, F>) -> Option<Ports> {
                match self {
                    $(Self::$kind(layer) => layer.ports(params),)*
                }
            }
        }
    };
}

graph_layers! {
    /// Graph convolution, [`GcnConv`].
    Gcn(GcnConv, GcnOptions),
    /// Graph attention, [`GatConv`].
    Gat(GatConv, AttentionOptions),
    /// Graph attention, version 2, [`Gatv2Conv`].
    Gatv2(Gatv2Conv, Gatv2Options),
    /// GraphSAGE with the mean, [`SageConv`].
    Sage(SageConv, SageOptions),
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

    /// The options of the attention, if the layer has attention.
    pub fn attention(&self) -> Option<&AttentionOptions> {
        match self {
            Self::Gat(options) => Some(options),
            Self::Gatv2(options) => Some(&options.attention),
            _ => None,
        }
    }

    /// The options of the attention, as a mutable reference.
    pub fn attention_mut(&mut self) -> Option<&mut AttentionOptions> {
        match self {
            Self::Gat(options) => Some(options),
            Self::Gatv2(options) => Some(&mut options.attention),
            _ => None,
        }
    }
}
