//! The configuration of a graph network.

mod presets;

use super::{AttentionOptions, Conv, Heads, MOST_LAYERS, Site};
use crate::error::{Result, Rules};
use crate::graph::{Graph, Neighbourhood};
use crate::nn::{Activation, Norm};
use crate::real::Real;
use serde::{Deserialize, Serialize};

/// The most entries that the weights of a [`GraphNet`](super::GraphNet) have, 2³²: 16 GiB of `f32` before the
/// first gradient. [`GraphNetConfig::weight_count`] is compared with it before anything is built;
/// [`parameter_count`](crate::nn::parameter_count) counts what was built.
pub const MOST_WEIGHTS: f64 = 4_294_967_296.0;

/// The linear maps at the two ends of a [`GraphNet`](super::GraphNet), before and after its layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndMaps {
    /// Whether there is a map from the features to `hidden` neurons before the first layer. Its output is x₀.
    pub input: bool,
    /// Whether σ follows this map.
    pub activated: bool,
    /// Whether there is a map to the classes after the last layer, which is then a hidden layer.
    pub output: bool,
    /// Whether the maps have biases.
    pub bias: bool,
}

impl EndMaps {
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
///
/// ```
/// use emmy::nn::{GraphNet, GraphNetConfig};
/// let config = GraphNetConfig { layers: 4, hidden: 32, ..GraphNetConfig::gcn(10, 3) };
/// assert_eq!(GraphNet::<f32>::new(config.without_dropout(), 0)?.layers.len(), 4);
/// # Ok::<(), emmy::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
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
    pub ends: EndMaps,
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
            if let Some(steps) = conv.common().steps {
                (*steps, stepped) = (depth, true);
            }
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
        let ends = [
            (&mut self.conv, hidden, Heads::Concatenate),
            (&mut self.last, last, Heads::Average),
        ];
        for (conv, number, join) in ends {
            if let Some(heads) = conv.common().heads {
                (*heads.0, *heads.1) = (number, join);
            }
        }
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
            conv.common().dropout.into_iter().for_each(|q| *q = p);
        }
        self
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
        for conv in [&mut self.conv, &mut self.last] {
            conv.common().bias.into_iter().for_each(|b| *b = bias);
        }
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

    /// The width of the input of the first layer.
    fn first_width(&self) -> usize {
        if self.ends.input {
            self.hidden
        } else {
            self.inputs
        }
    }

    /// The entries of the weights, or more, without building them: those of the two maps, and per layer
    /// [`Conv::weights`] times H·C·in. As a floating-point number: no product of sizes overflows.
    pub fn weight_count(&self) -> f64 {
        let of = |input: usize, out: usize| input as f64 * out as f64;
        let layer = |(conv, at): (Conv, Site)| {
            of(at.input, at.width) * conv.heads() as f64 * conv.weights() as f64
        };
        let map = |on: bool, input, out| if on { of(input, out) } else { 0.0 };
        self.plan().map(layer).sum::<f64>()
            + map(self.ends.input, self.inputs, self.hidden)
            + map(
                self.ends.output,
                self.conv.output(self.hidden),
                self.classes,
            )
    }

    /// Checks whether a network can be built from this configuration.
    ///
    /// # Errors
    /// If a size is 0, a probability is not within 0 ≤ p ≤ 1, the last layer does not give one number per
    /// class, a layer's options break a rule, or there are more than [`MOST_LAYERS`] layers or
    /// [`MOST_WEIGHTS`] entries of weights.
    pub fn validate(&self) -> Result<()> {
        let rules = Rules("network");
        rules.sizes(&[
            ("inputs", self.inputs),
            ("hidden", self.hidden),
            ("classes", self.classes),
            ("layers", self.layers),
        ])?;
        rules.probability("dropout", self.dropout)?;
        let period = self.residual.unwrap_or(1);
        rules.hold(period > 0, "residual", "a period of at least 1", period)?;
        let most = format!("at most {MOST_LAYERS}");
        rules.hold(self.layers <= MOST_LAYERS, "layers", most, self.layers)?;
        for (conv, at) in self.plan() {
            conv.validate(at)?;
        }
        // Also where no layer is the last: options without effect are kept valid.
        self.last.validate(Site {
            layer: self.layers,
            input: self.classes,
            width: self.classes,
            first: true,
        })?;
        let wide = self.conv.output(self.hidden);
        self.norm.map_or(Ok(()), |norm| norm.validate(wide))?;
        let (found, classes) = (self.last.output(self.classes), self.classes);
        let rule = format!("{classes} numbers per node, one per class: average its heads");
        let fits = found == classes || self.ends.output;
        rules.hold(fits, "last layer", rule, found)?;
        let (weights, most) = (self.weight_count(), format!("at most {MOST_WEIGHTS}"));
        let found = format!("about {weights:.1e}");
        rules.hold(weights <= MOST_WEIGHTS, "entries of weights", most, found)
    }

    /// The layers: kind and place.
    pub(super) fn plan(&self) -> impl Iterator<Item = (Conv, Site)> {
        let mut input = self.first_width();
        (1..=self.layers).map(move |layer| {
            let (conv, width) = match layer == self.layers && !self.ends.output {
                true => (self.last, self.classes),
                false => (self.conv, self.hidden),
            };
            let at = Site {
                layer,
                input,
                width,
                first: self.ends.input,
            };
            input = conv.output(width);
            (conv, at)
        })
    }
}
