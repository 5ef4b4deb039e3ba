//! The options of a graph layer: how a layer is built from them, and where in a network.

use super::GraphConv;
use crate::error::{Result, Rules};
use crate::init::Rng;
use crate::real::Real;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The most layers of a [`GraphNet`](super::GraphNet): the time to find its laws grows with the square of the
/// number of layers.
pub const MOST_LAYERS: usize = 1 << 12;

/// How the outputs of H heads of width C are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Heads {
    /// They are concatenated: width H·C, column h·C + c for neuron c of head h.
    Concatenate,
    /// Their mean is taken: width C.
    Average,
}

/// Where a layer stands in its network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Site {
    /// The number of the layer, counted from 1.
    pub layer: usize,
    /// The width of its input.
    pub input: usize,
    /// Its width; with attention, that of one head.
    pub width: usize,
    /// Whether the network has a linear map before its layers, whose output is x₀.
    pub first: bool,
}

impl Site {
    /// Checks that the layer is as wide as its input.
    ///
    /// # Errors
    /// If it is not; the message names the layer by its options.
    pub fn check_equal_widths(&self, options: &impl fmt::Debug) -> Result<()> {
        Rules("network").hold(
            self.input == self.width,
            &format!("layers of {options:?}"),
            "as many neurons as features: linear maps before and behind them",
            format!("{} features and {} neurons", self.input, self.width),
        )
    }

    /// Checks that there is x₀.
    ///
    /// # Errors
    /// If there is none; the message names the layer by its options.
    pub fn check_first(&self, options: &impl fmt::Debug) -> Result<()> {
        let rule = "a linear map before them, whose output they read";
        Rules("network").hold(self.first, &format!("layers of {options:?}"), rule, "none")
    }
}

/// Options that several kinds have, each a reference into the options of a kind; a kind leaves out what it
/// does not have. Functions of [`GraphNetConfig`](super::GraphNetConfig) such as
/// [`without_dropout`](super::GraphNetConfig::without_dropout) change them in all layers.
#[derive(Debug, Default)]
pub struct CommonOptions<'a> {
    /// H, the number of heads, and how they are joined.
    pub heads: Option<(&'a mut usize, &'a mut Heads)>,
    /// Whether there are biases.
    pub bias: Option<&'a mut bool>,
    /// The probability of dropping an attention coefficient in training.
    pub dropout: Option<&'a mut f64>,
    /// The number of steps of a layer that propagates several times.
    pub steps: Option<&'a mut usize>,
}

/// The options of a kind of graph layers, and how a layer is built from them.
///
/// Only the layer's type and [`build`](Self::build) are required.
pub trait ConvOptions: fmt::Debug + Send + Sync + 'static {
    /// The layer.
    type Layer<F: Real>: GraphConv<F>;

    /// A layer with freshly drawn parameters, for a place that [`validate`](Self::validate) accepted.
    fn build<F: Real>(&self, at: Site, rng: &mut Rng) -> Self::Layer<F>;

    /// Checks whether a layer can be built with these options at this place.
    ///
    /// # Errors
    /// If an option breaks its rule, or a width does not fit; the message names the option.
    fn validate(&self, at: Site) -> Result<()> {
        let _ = at;
        Ok(())
    }

    /// H, the number of heads; 1 without attention.
    fn heads(&self) -> usize {
        1
    }

    /// How the heads are joined.
    fn join(&self) -> Heads {
        Heads::Concatenate
    }

    /// The width of the output of a layer of the given width; with attention, `width` is that of one head.
    fn output(&self, width: usize) -> usize {
        match self.join() {
            Heads::Concatenate => self.heads().saturating_mul(width),
            Heads::Average => width,
        }
    }

    /// How many weights of the size `[H·C, in]` a layer has, or more. A configuration counts with it before
    /// anything is built.
    fn weights(&self) -> usize {
        1
    }

    /// The options that other kinds have too, to be changed.
    fn common(&mut self) -> CommonOptions<'_> {
        CommonOptions::default()
    }
}
