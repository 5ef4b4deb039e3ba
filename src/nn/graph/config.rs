//! The configuration of a graph network.

mod presets;
#[cfg(test)]
mod tests;

use super::{AttentionOptions, Conv, Heads};
use crate::error::{Error, Result};
use crate::graph::{Graph, Neighbourhood};
use crate::init;
use crate::nn::{Activation, Module, Norm};
use crate::real::Real;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The most layers of a [`GraphNet`](super::GraphNet): the time to find its laws grows with the square of the
/// number of layers.
pub const MOST_LAYERS: usize = 1 << 12;

/// The most parameters of a [`GraphNet`](super::GraphNet), 2³²: 16 GiB of `f32` before the first gradient.
pub const MOST_PARAMETERS: f64 = 4_294_967_296.0;

/// The linear maps at the two ends of a [`GraphNet`](super::GraphNet), before and after its layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ends {
    /// Whether there is a map from the features to `hidden` neurons before the first layer. Its output is x₀.
    pub input: bool,
    /// Whether σ follows this map.
    pub activated: bool,
    /// Whether there is a map to the classes after the last layer, which is then a hidden layer.
    pub output: bool,
    /// Whether the maps have biases.
    pub bias: bool,
}

impl Ends {
    /// No maps: the layers are the whole network.
    pub const NONE: Self = Self {
        input: false,
        activated: false,
        output: false,
        bias: true,
    };

    /// Both maps with biases, and no activation after the first.
    pub const LINEAR: Self = Self {
        input: true,
        output: true,
        ..Self::NONE
    };

    /// Both maps with biases, and σ after the first.
    pub const ACTIVATED: Self = Self {
        activated: true,
        ..Self::LINEAR
    };

    /// Only the map after the layers.
    pub const OUTPUT: Self = Self {
        output: true,
        ..Self::NONE
    };
}

/// The configuration of a [`GraphNet`](super::GraphNet). Start from the constructor of a kind
/// ([`gcn`](Self::gcn), [`gat`](Self::gat), [`gcnii`](Self::gcnii), ..), and change fields. All kinds but
/// [`sgc`](Self::sgc) have dropout; [`without_dropout`](Self::without_dropout) turns all of it off.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct GraphNetConfig {
    /// Features per node.
    pub inputs: usize,
    /// Width of a hidden layer; with attention, the width of one of its heads.
    pub hidden: usize,
    /// Classes, the width of the output.
    pub classes: usize,
    /// L, the number of layers.
    pub layers: usize,
    /// Kind and options of the layers before the last.
    pub conv: Conv,
    /// Kind and options of the last layer; without effect if there is a linear map after the layers.
    pub last: Conv,
    /// The linear maps before and after the layers.
    pub ends: Ends,
    /// The norm after each hidden layer, before σ.
    pub norm: Option<Norm>,
    /// r: every r hidden layers, the representation of r layers before is added.
    pub residual: Option<usize>,
    /// σ between layers.
    pub activation: Activation,
    /// The probability of dropout of the input of every layer. Attention has a probability of its own, in its
    /// options: `dropout: 0.0` leaves it as it is, [`without_dropout`](GraphNetConfig::without_dropout) does not.
    pub dropout: f64,
    /// Whether dropout also applies to the input of the first layer, the features of the data.
    pub input_dropout: bool,
    /// Whether every node is its own neighbour.
    pub self_loops: bool,
}

impl GraphNetConfig {
    /// The same with this depth: the number of layers, or of the steps of a single layer that propagates
    /// several times.
    pub fn depth(mut self, depth: usize) -> Self {
        let mut stepped = false;
        for conv in [&mut self.conv, &mut self.last] {
            let steps = match conv {
                Conv::Sgc(options) => &mut options.steps,
                Conv::GatedGraph(options) => &mut options.steps,
                _ => continue,
            };
            (*steps, stepped) = (depth, true);
        }
        let layers = if stepped { self.layers } else { depth };
        Self { layers, ..self }
    }

    /// The same with layers of this kind. With attention, hidden layers concatenate their heads, and the last
    /// layer has one head and is set to average heads.
    pub fn of(mut self, conv: Conv) -> Self {
        (self.conv, self.last) = (conv, conv);
        self.heads(conv.heads(), 1)
    }

    /// The same with `hidden` heads per hidden layer, concatenated, and `last` heads in the last layer,
    /// averaged. Layers without attention stay as they are.
    pub fn heads(mut self, hidden: usize, last: usize) -> Self {
        self.conv.set_heads(hidden, Heads::Concatenate);
        self.last.set_heads(last, Heads::Average);
        self
    }

    /// The same with `change` applied to the options of all layers with the attention of GAT or GATv2.
    pub fn attending(mut self, change: impl Fn(&mut AttentionOptions)) -> Self {
        let all = [&mut self.conv, &mut self.last].into_iter();
        all.filter_map(Conv::attention_mut).for_each(change);
        self
    }

    /// The same with this probability of dropping an attention coefficient in all layers that have attention.
    pub fn attention_dropout(mut self, p: f64) -> Self {
        for conv in [&mut self.conv, &mut self.last] {
            if let Conv::Transformer(options) = conv {
                options.dropout = p;
            }
        }
        self.attending(|options| options.dropout = p)
    }

    /// The same without any dropout: of inputs, between layers, and of attention coefficients.
    ///
    /// ```
    /// use emmy::nn::GraphNetConfig;
    /// let config = GraphNetConfig::gat(1433, 7);
    /// // Inputs and attention coefficients are dropped with probability 0.6 each.
    /// assert_eq!(config.dropout, 0.6);
    /// assert_eq!(config.conv.attention().unwrap().dropout, 0.6);
    /// let config = config.without_dropout();
    /// assert_eq!(config.dropout, 0.0);
    /// assert_eq!(config.conv.attention().unwrap().dropout, 0.0);
    /// ```
    pub fn without_dropout(self) -> Self {
        Self {
            dropout: 0.0,
            ..self
        }
        .attention_dropout(0.0)
    }

    /// The same with or without biases of the layers and of the maps before and after them. A gated unit
    /// keeps its biases.
    pub fn biased(mut self, bias: bool) -> Self {
        self.conv.set_bias(bias);
        self.last.set_bias(bias);
        self.ends.bias = bias;
        self
    }

    /// The neighbourhood in which a network of this configuration passes messages: that of the
    /// graph, with self-loops if configured, else without. Prepare it once per graph.
    pub fn neighbourhood<F: Real>(&self, graph: &Graph) -> Neighbourhood<F> {
        Neighbourhood::of(if self.self_loops {
            graph.with_self_loops()
        } else {
            graph.without_self_loops()
        })
    }

    /// The number of parameters, as a floating-point number that is exact up to 2⁵³. So no product of sizes
    /// overflows, and sizes need no bound here.
    pub fn parameter_count(&self) -> f64 {
        let map = |on: bool, input: usize, out: usize| {
            let (input, out) = (input as f64, out as f64);
            if on {
                out * (input + f64::from(self.ends.bias))
            } else {
                0.0
            }
        };
        let width = self.first_width();
        let hidden = |input| parameters_of(self.conv, input, self.hidden);
        let wide = self.conv.output(self.hidden);
        // Hidden layers except the first, which reads another width.
        let (between, last) = match self.ends.output {
            true => (self.layers.saturating_sub(1), 0.0),
            false if self.layers < 2 => (0, parameters_of(self.last, width, self.classes)),
            false => (
                self.layers - 2,
                parameters_of(self.last, wide, self.classes),
            ),
        };
        let count = self.layers.saturating_sub(usize::from(!self.ends.output));
        let first = if count > 0 { hidden(width) } else { 0.0 };
        let norm = self.norm.map_or(0.0, |norm| norm_parameters(norm, wide));
        map(self.ends.input, self.inputs, self.hidden)
            + first
            + between as f64 * hidden(wide)
            + last
            + count as f64 * norm
            + map(self.ends.output, wide, self.classes)
    }

    /// The width of the input of the first layer.
    fn first_width(&self) -> usize {
        if self.ends.input {
            self.hidden
        } else {
            self.inputs
        }
    }

    /// Checks the widths of layers that must be equal to the width before them.
    fn check_widths(&self) -> Result<()> {
        let refuse = |rule: &str, found: &str| {
            let of = format!("network: layers of {:?}", self.conv);
            Err(Error::invalid(of, rule, found))
        };
        if self.conv.needs_first() && !self.ends.input {
            return refuse("a linear map before them, whose output they read", "none");
        }
        let equal = |(conv, input, width): &(Conv, usize, usize)| {
            !conv.needs_equal_widths() || input == width
        };
        // Only the first and the last layer have other widths, so three layers stand for any number.
        let few = Self {
            layers: self.layers.min(3),
            ..*self
        };
        match few.plan().iter().find(|layer| !equal(layer)) {
            Some((_, input, width)) => {
                let found = format!("{input} features and {width} neurons");
                refuse(
                    "as many neurons as features: linear maps before and behind them",
                    &found,
                )
            }
            None => Ok(()),
        }
    }

    /// Checks whether a network can be built from this configuration.
    ///
    /// # Errors
    /// If a size is 0, a probability is not within 0 ≤ p ≤ 1, the last layer does not give one number per
    /// class, a layer's options break a rule, or there are more than [`MOST_LAYERS`] layers or
    /// [`MOST_PARAMETERS`] parameters.
    pub fn validate(&self) -> Result<()> {
        let refuse = |name: &str, rule: String, found: String| {
            Err(Error::invalid(format!("network: {name}"), rule, found))
        };
        let sizes = [
            ("inputs", self.inputs),
            ("hidden", self.hidden),
            ("classes", self.classes),
            ("layers", self.layers),
        ];
        for (name, size) in sizes {
            if size == 0 {
                return refuse(name, "at least 1".into(), "0".into());
            }
        }
        if !(0.0..=1.0).contains(&self.dropout) {
            return refuse(
                "dropout",
                "a probability, 0 to 1".into(),
                self.dropout.to_string(),
            );
        }
        self.conv.validate()?;
        self.last.validate()?;
        self.norm.map_or(Ok(()), |norm| norm.validate())?;
        self.check_widths()?;
        if self.residual == Some(0) {
            return refuse("residual", "a period of at least 1".into(), "0".into());
        }
        let (found, classes) = (self.last.output(self.classes), self.classes);
        if found != classes && !self.ends.output {
            let rule = format!("{classes} numbers per node, one per class: average its heads");
            return refuse("last layer", rule, found.to_string());
        }
        if self.layers > MOST_LAYERS {
            let rule = format!("at most {MOST_LAYERS}");
            return refuse("layers", rule, self.layers.to_string());
        }
        let count = self.parameter_count();
        if count > MOST_PARAMETERS {
            let rule = format!("at most {MOST_PARAMETERS}");
            return refuse("number of parameters", rule, format!("about {count:.1e}"));
        }
        Ok(())
    }

    /// The layers: kind, width of the input, width.
    pub(super) fn plan(&self) -> Vec<(Conv, usize, usize)> {
        let mut input = self.first_width();
        let layer = |l: usize| {
            let (conv, width) = match l + 1 == self.layers && !self.ends.output {
                true => (self.last, self.classes),
                false => (self.conv, self.hidden),
            };
            (
                conv,
                std::mem::replace(&mut input, conv.output(width)),
                width,
            )
        };
        (0..self.layers).map(layer).collect()
    }
}

/// Like a derived `Debug`, but fields that were added later are left out if they have no effect: the
/// descriptions of runs that were saved before contain this text.
impl fmt::Debug for GraphNetConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            inputs,
            hidden,
            classes,
            layers,
            conv,
            last,
            ends,
            norm,
            residual,
            activation,
            dropout,
            input_dropout,
            self_loops,
        } = self;
        let mut all = f.debug_struct("GraphNetConfig");
        (all.field("inputs", inputs))
            .field("hidden", hidden)
            .field("classes", classes)
            .field("layers", layers)
            .field("conv", conv)
            .field("last", last)
            .field("activation", activation)
            .field("dropout", dropout)
            .field("input_dropout", input_dropout)
            .field("self_loops", self_loops);
        if *ends != Ends::NONE {
            all.field("ends", ends);
        }
        if let Some(norm) = norm {
            all.field("norm", norm);
        }
        if let Some(period) = residual {
            all.field("residual", period);
        }
        all.finish()
    }
}

/// The number of parameters of a layer. It is linear in the input and in the number of heads, and quadratic
/// in the width, so layers with sizes 1, 2 and 3 determine it.
fn parameters_of(mut conv: Conv, input: usize, width: usize) -> f64 {
    along(conv.heads(), &mut |heads| {
        conv.set_heads(heads, conv.join());
        along(width, &mut |width| {
            along(input, &mut |input| {
                size(&conv.build::<f32>(input, width, &mut init::rng(0)))
            })
        })
    })
}

/// The number of parameters of a norm.
fn norm_parameters(norm: Norm, width: usize) -> f64 {
    along(width, &mut |width| {
        size(&norm.build::<f32>(width, &mut init::rng(0)))
    })
}

/// The value at `size` of the polynomial of degree 2 that agrees with `at` at 1, 2 and 3.
fn along(size: usize, at: &mut dyn FnMut(usize) -> f64) -> f64 {
    let [one, two, three] = [at(1), at(2), at(3)];
    let (step, bend) = (two - one, three - 2.0 * two + one);
    let more = size as f64 - 1.0;
    one + more * step + more * (more - 1.0) / 2.0 * bend
}

fn size(module: &impl Module<f32>) -> f64 {
    let sizes = module.tensors().into_iter().map(|t| t.len());
    sizes.sum::<usize>() as f64
}
