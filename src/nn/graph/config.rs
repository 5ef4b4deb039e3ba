//! The configuration of a graph network.

use super::{AttentionOptions, Conv, Gatv2Options, Heads, SageOptions};
use crate::error::{Error, Result};
use crate::graph::{Graph, Neighbourhood};
use crate::nn::Activation;
use crate::real::Real;
use serde::{Deserialize, Serialize};

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

    /// Checks whether a network can be built from this configuration.
    ///
    /// # Errors
    /// If a size is 0, a probability is not within 0 ≤ p ≤ 1, the last layer does not give one number per
    /// class, or a layer's options break a rule.
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
