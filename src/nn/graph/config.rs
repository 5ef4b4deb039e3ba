//! The configuration of a graph network.

use super::{AttentionOptions, Conv, Gatv2Options, Heads, SageOptions};
use crate::error::{Error, Result};
use crate::graph::{Graph, Neighbourhood};
use crate::init;
use crate::nn::{Activation, Module};
use crate::real::Real;
use serde::{Deserialize, Serialize};

/// The most layers of a [`GraphNet`](super::GraphNet): its laws are found in a time that grows with their
/// square.
pub const MOST_LAYERS: usize = 1 << 12;

/// The most parameters of a [`GraphNet`](super::GraphNet), 2³²: 16 GiB of `f32` before the first gradient.
pub const MOST_PARAMETERS: f64 = 4_294_967_296.0;

/// The configuration of a [`GraphNet`](super::GraphNet). Start from [`gcn`](Self::gcn),
/// [`gat`](Self::gat), [`gatv2`](Self::gatv2) or [`sage`](Self::sage), and change fields.
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
    /// Kind and options of the last layer.
    pub last: Conv,
    /// σ between layers.
    pub activation: Activation,
    /// The probability of dropout of the input of every layer.
    pub dropout: f64,
    /// Whether dropout also applies to the input of the first layer, the features of the data.
    pub input_dropout: bool,
    /// Whether every node is its own neighbour.
    pub self_loops: bool,
}

impl GraphNetConfig {
    /// Kipf and Welling's model for citation graphs: 2 layers, 16 hidden neurons, ReLU, dropout 0.5.
    pub fn gcn(inputs: usize, classes: usize) -> Self {
        Self {
            inputs,
            hidden: 16,
            classes,
            layers: 2,
            conv: Conv::GCN,
            last: Conv::GCN,
            activation: Activation::Relu,
            dropout: 0.5,
            input_dropout: true,
            self_loops: true,
        }
    }

    /// Veličković et al.'s model for Cora and CiteSeer: 2 layers, 8 heads of 8 neurons, one head in
    /// the last layer, ELU, dropout 0.6 of inputs and attention.
    pub fn gat(inputs: usize, classes: usize) -> Self {
        let options = AttentionOptions {
            heads: 8,
            dropout: 0.6,
            ..AttentionOptions::default()
        };
        Self {
            hidden: 8,
            activation: Activation::Elu,
            dropout: 0.6,
            ..Self::gcn(inputs, classes).of(Conv::Gat(options))
        }
    }

    /// [`gat`](Self::gat) with GATv2 layers, which have separate weights for sources and targets.
    pub fn gatv2(inputs: usize, classes: usize) -> Self {
        let gat = Self::gat(inputs, classes);
        let attention = *gat.conv.attention().expect("that of GAT");
        gat.of(Conv::Gatv2(Gatv2Options {
            shared: false,
            attention,
        }))
    }

    /// [`gcn`](Self::gcn) with GraphSAGE layers; a node is not among its own neighbours.
    pub fn sage(inputs: usize, classes: usize) -> Self {
        Self {
            self_loops: false,
            ..Self::gcn(inputs, classes).of(Conv::Sage(SageOptions { bias: true }))
        }
    }

    /// The same with layers of this kind. With attention, hidden layers put their heads side by
    /// side, and the last layer has one head and is set to average heads.
    pub fn of(mut self, conv: Conv) -> Self {
        (self.conv, self.last) = (conv, conv);
        self.heads(conv.attention().map_or(1, |a| a.heads), 1)
    }

    /// The same with `hidden` heads per hidden layer, put side by side, and `last` heads in the
    /// last layer, averaged. Layers without attention stay as they are.
    pub fn heads(mut self, hidden: usize, last: usize) -> Self {
        if let Some(options) = self.conv.attention_mut() {
            (options.heads, options.join) = (hidden, Heads::Concatenate);
        }
        if let Some(options) = self.last.attention_mut() {
            (options.heads, options.join) = (last, Heads::Average);
        }
        self
    }

    /// The same after `change` of the attention options of all layers that have attention.
    pub fn attending(mut self, change: impl Fn(&mut AttentionOptions)) -> Self {
        let all = [&mut self.conv, &mut self.last].into_iter();
        all.filter_map(Conv::attention_mut).for_each(change);
        self
    }

    /// The same with or without biases.
    pub fn biased(mut self, bias: bool) -> Self {
        self.conv.set_bias(bias);
        self.last.set_bias(bias);
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

    /// The number of parameters. A floating-point number, exact up to 2⁵³: sizes are not bounded here, and no
    /// product of them overflows.
    pub fn parameter_count(&self) -> f64 {
        let hidden = |input| parameters_of(self.conv, input, self.hidden);
        let wide = self.conv.output(self.hidden);
        match self.layers {
            0 => 0.0,
            1 => parameters_of(self.last, self.inputs, self.classes),
            l => {
                let between = (l - 2) as f64 * hidden(wide);
                hidden(self.inputs) + between + parameters_of(self.last, wide, self.classes)
            }
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
        let (found, classes) = (self.last.output(self.classes), self.classes);
        if found != classes {
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
        let mut input = self.inputs;
        let layer = |l: usize| {
            let (conv, width) = match l + 1 == self.layers {
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

/// The number of parameters of a layer. No tensor of a layer has two axes of one size, so the number is
/// linear in the input, in the width and in the number of heads; layers with sizes 1 and 2 determine it.
fn parameters_of(mut conv: Conv, input: usize, width: usize) -> f64 {
    let along = |size: usize, at: &mut dyn FnMut(usize) -> f64| {
        let (one, two) = (at(1), at(2));
        one + (size as f64 - 1.0) * (two - one)
    };
    let heads = conv.attention().map_or(1, |a| a.heads);
    along(heads, &mut |heads| {
        if let Some(options) = conv.attention_mut() {
            options.heads = heads;
        }
        along(width, &mut |width| {
            along(input, &mut |input| {
                let layer = conv.build::<f32>(input, width, &mut init::rng(0));
                let sizes = layer.tensors().into_iter().map(|t| t.len());
                sizes.sum::<usize>() as f64
            })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::{GraphNet, Omega};

    /// The parameters of every kind of layer with every option, counted and built.
    #[test]
    fn parameters_are_counted_as_they_are_built() {
        let (inputs, classes) = (7, 3);
        let kinds = [
            GraphNetConfig::gcn(inputs, classes),
            GraphNetConfig::sage(inputs, classes),
            GraphNetConfig::gat(inputs, classes).heads(3, 2),
            GraphNetConfig::gatv2(inputs, classes).heads(2, 4),
            GraphNetConfig::gcn(inputs, classes).of(Conv::gatv2(true)),
        ];
        let omegas = [None, Some(Omega::Layer), Some(Omega::Channel)];
        for (layers, hidden) in [(1, 5), (2, 5), (3, 4), (6, 1)] {
            for (kind, bias) in kinds.into_iter().flat_map(|k| [(k, true), (k, false)]) {
                for (omega, residual) in omegas.into_iter().flat_map(|o| [(o, true), (o, false)]) {
                    let config = GraphNetConfig {
                        layers,
                        hidden,
                        ..kind
                    }
                    .biased(bias)
                    .attending(|a| (a.omega, a.residual) = (omega, residual));
                    let net = GraphNet::<f32>::new(config, 0).unwrap();
                    let built: usize = net.tensors().into_iter().map(|t| t.len()).sum();
                    assert_eq!(config.parameter_count(), built as f64, "{config:?}");
                }
            }
        }
    }

    #[test]
    fn sizes_beyond_all_bounds_are_refused_and_nothing_overflows() {
        let base = GraphNetConfig::gatv2(34, 2);
        let huge = [1_000_000_000, usize::MAX];
        for size in huge {
            for config in [
                GraphNetConfig {
                    layers: size,
                    ..base
                },
                GraphNetConfig {
                    hidden: size,
                    ..base
                },
                GraphNetConfig {
                    inputs: size,
                    ..base
                },
                GraphNetConfig {
                    classes: size,
                    ..base
                },
                base.heads(size, 1),
                base.heads(8, size),
                GraphNetConfig {
                    layers: size,
                    hidden: size,
                    ..base
                }
                .heads(size, size),
            ] {
                let error = config.validate().unwrap_err().to_string();
                assert!(error.contains("expected at most"), "{error}");
                assert!(GraphNet::<f32>::new(config, 0).is_err());
            }
        }
        let most = GraphNetConfig {
            layers: MOST_LAYERS,
            hidden: 1,
            ..base
        };
        most.validate().unwrap();
        let more = GraphNetConfig {
            layers: MOST_LAYERS + 1,
            ..most
        };
        let error = more.validate().unwrap_err().to_string();
        assert_eq!(error, "network: layers: expected at most 4096, found 4097");
    }
}
