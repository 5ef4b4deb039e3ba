//! Layers over graphs, and the network that composes them.
//!
//! Each layer is one file, with a struct, its forward function, its ports and [`GraphConv`], and
//! one line in the list below. This line makes the layer a kind that a configuration can name.

mod config;
mod gat;
mod gatv2;
mod gcn;
mod gcnii;
mod ggnn;
mod gin;
mod heads;
mod network;
mod omega;
mod sage;
mod sgc;
mod transformer;

pub use config::{Ends, GraphNetConfig, MOST_LAYERS, MOST_PARAMETERS};
pub use gat::GatConv;
pub use gatv2::{Gatv2Conv, Gatv2Options};
pub use gcn::{GcnConv, GcnOptions};
pub use gcnii::{GcniiConv, GcniiOptions};
pub use ggnn::{GatedGraphConv, GatedGraphOptions};
pub use gin::{GinConv, GinOptions};
pub use heads::{AttentionOptions, Heads};
pub use network::GraphNet;
pub use omega::Omega;
pub use sage::{SageConv, SageOptions};
pub use sgc::{SgcConv, SgcOptions};
pub use transformer::{TransformerConv, TransformerOptions};

use super::{Fields, Input, Layer, Module, Params, Pass};
use crate::autodiff::Var;
use crate::error::Result;
use crate::graph::Neighbourhood;
use crate::init::Rng;
use crate::ops::Sparse;
use crate::real::Real;
use crate::sparse::Pattern;
use crate::symmetry::Ports;
use crate::tensor::Tensor;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

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

    /// Whether the input of the layer must be as wide as its output.
    fn needs_equal_widths() -> bool {
        false
    }

    /// Whether the layer reads the first hidden representation of its network.
    fn needs_first() -> bool {
        false
    }

    /// Tells the layer its number in a network, counted from 1.
    fn place(&mut self, layer: usize) {
        let _ = layer;
    }

    /// The output `[n, out]` on a graph.
    ///
    /// # Panics
    /// If the shapes do not fit, or the layer needs the first hidden representation and there is none.
    fn on<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        x: Input<'t, F>,
        around: Around<'_, 't, F>,
    ) -> Var<'t, F>;
}

/// What a layer of a network may read besides its input.
#[derive(Debug, Clone, Copy)]
pub struct Around<'a, 't, F: Real> {
    /// The edges: which nodes receive messages from which.
    pub neighbours: &'a Neighbourhood<F>,
    /// x₀, the first hidden representation of the network: the output of the linear map before its layers.
    pub first: Option<Var<'t, F>>,
}

impl<'a, F: Real> From<&'a Neighbourhood<F>> for Around<'a, '_, F> {
    fn from(neighbours: &'a Neighbourhood<F>) -> Self {
        Self {
            neighbours,
            first: None,
        }
    }
}

/// The matrix of ones at the edges: a product with it sums over the neighbours.
fn sum_over<'t, F: Real>(pass: &Pass<'t, '_, F>, edges: &Arc<Pattern>) -> Sparse<'t, F> {
    let ones = Tensor::ones(vec![edges.nnz()]);
    Sparse::new(edges, pass.tape().constant(ones))
}

/// Makes two enums from one line per layer: the kinds of layers that a configuration can name, and the layers
/// of these kinds.
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
            /// Whether the input of a layer of this kind must be as wide as its output.
            pub fn needs_equal_widths(&self) -> bool {
                match self {
                    $(Self::$kind(_) => $layer::<f64>::needs_equal_widths(),)*
                }
            }

            /// Whether a layer of this kind reads the first hidden representation of its network.
            pub fn needs_first(&self) -> bool {
                match self {
                    $(Self::$kind(_) => $layer::<f64>::needs_first(),)*
                }
            }

            /// Sets whether layers of this kind have biases.
            pub fn set_bias(&mut self, bias: bool) {
                match self {
                    $(Self::$kind(options) => $layer::<f64>::set_bias(options, bias),)*
                }
            }
        }

        impl<F: Real> GraphLayer<F> {
            /// The layer's output, `[n, out]`. `around` is a [`Neighbourhood`], alone or with the other
            /// inputs of the layer.
            ///
            /// # Panics
            /// If the shapes do not fit, or the layer needs the first hidden representation and there is
            /// none.
            #[track_caller]
            pub fn forward<'a, 't>(
                &self,
                pass: &Pass<'t, '_, F>,
                x: impl Into<Input<'t, F>>,
                around: impl Into<Around<'a, 't, F>>,
            ) -> Var<'t, F> {
                let around = around.into();
                match self {
                    $(Self::$kind(layer) => layer.on(pass, x.into(), around),)*
                }
            }

            /// Tells the layer its number in a network, counted from 1.
            pub fn place(&mut self, number: usize) {
                match self {
                    $(Self::$kind(layer) => layer.place(number),)*
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
    /// Simple graph convolution, [`SgcConv`].
    Sgc(SgcConv, SgcOptions),
    /// Graph isomorphism network, [`GinConv`].
    Gin(GinConv, GinOptions),
    /// Graph convolution with initial residual and identity map, [`GcniiConv`].
    Gcnii(GcniiConv, GcniiOptions),
    /// The graph transformer, [`TransformerConv`].
    Transformer(TransformerConv, TransformerOptions),
    /// Gated graph network, [`GatedGraphConv`].
    GatedGraph(GatedGraphConv, GatedGraphOptions),
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

    /// H, the number of heads of a layer of this kind; 1 without attention.
    pub fn heads(&self) -> usize {
        match self {
            Self::Transformer(options) => options.heads,
            _ => self.attention().map_or(1, |options| options.heads),
        }
    }

    /// How the heads of a layer of this kind are joined; without attention it has no meaning.
    pub fn join(&self) -> Heads {
        match self {
            Self::Transformer(options) => options.join,
            _ => self.attention().map_or(Heads::Concatenate, |o| o.join),
        }
    }

    /// Sets the number of heads and how they are joined; layers without attention stay as they are.
    pub fn set_heads(&mut self, heads: usize, join: Heads) {
        if let Self::Transformer(options) = self {
            (options.heads, options.join) = (heads, join);
        } else if let Some(options) = self.attention_mut() {
            (options.heads, options.join) = (heads, join);
        }
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
}
