//! What a graph network is made of.

use super::GraphLayer;
use crate::error::{Error, Result};
use crate::graph::Graph;
use crate::init;
use crate::nn::{Activation, AttentionOptions, GatConv, Gatv2Conv, GcnConv, Heads, Omega};
use crate::real::Real;
use crate::sparse::Csr;
use serde::{Deserialize, Serialize};

/// The kind of layer a network is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Conv {
    /// [`GcnConv`].
    Gcn,
    /// [`GatConv`].
    Gat,
    /// [`Gatv2Conv`].
    Gatv2 {
        /// Whether sources and targets share one weight.
        shared: bool,
    },
}

/// What a [`GraphNet`](super::GraphNet) is made of. Start from [`gcn`](Self::gcn), [`gat`](Self::gat) or [`gatv2`](Self::gatv2) and change fields.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct GraphNetConfig {
    /// The kind of layer.
    pub conv: Conv,
    /// Features a node.
    pub inputs: usize,
    /// Width of a hidden layer; with attention, of one head of it.
    pub hidden: usize,
    /// Classes, the width of the last layer.
    pub classes: usize,
    /// L, the number of layers.
    pub layers: usize,
    /// Heads of a hidden layer, put side by side. Not for GCN.
    pub heads: usize,
    /// Heads of the last layer, averaged. Not for GCN.
    pub output_heads: usize,
    /// σ between layers.
    pub activation: Activation,
    /// Dropout of the input of every layer.
    pub dropout: f64,
    /// Whether the input of the first layer, the features of the data, is dropped as well.
    pub input_dropout: bool,
    /// Dropout of attention coefficients. Not for GCN.
    pub attention_dropout: f64,
    /// Whether layers have biases.
    pub bias: bool,
    /// Whether each layer adds x Vᵀ to its output. Not for GCN.
    pub residual: bool,
    /// ω of every layer, with which a GAT is an ωGAT. Not for GCN.
    pub omega: Option<Omega>,
    /// Whether every node is its own neighbour.
    pub self_loops: bool,
    /// The slope of the LeakyReLU in attention scores. Not for GCN.
    pub slope: f64,
}

impl GraphNetConfig {
    /// Kipf and Welling's model for citation graphs: 2 layers, 16 hidden neurons, ReLU, dropout 0.5.
    pub fn gcn(inputs: usize, classes: usize) -> Self {
        Self {
            conv: Conv::Gcn,
            inputs,
            hidden: 16,
            classes,
            layers: 2,
            heads: 1,
            output_heads: 1,
            activation: Activation::Relu,
            dropout: 0.5,
            input_dropout: true,
            attention_dropout: 0.0,
            bias: true,
            residual: false,
            omega: None,
            self_loops: true,
            slope: 0.2,
        }
    }

    /// Veličković et al.'s model for Cora and CiteSeer: 2 layers, 8 heads of 8 neurons, ELU, dropout 0.6 of inputs and attention.
    pub fn gat(inputs: usize, classes: usize) -> Self {
        Self {
            conv: Conv::Gat,
            hidden: 8,
            heads: 8,
            activation: Activation::Elu,
            dropout: 0.6,
            attention_dropout: 0.6,
            ..Self::gcn(inputs, classes)
        }
    }

    /// The same with GATv2 layers of separate weights.
    pub fn gatv2(inputs: usize, classes: usize) -> Self {
        Self {
            conv: Conv::Gatv2 { shared: false },
            ..Self::gat(inputs, classes)
        }
    }

    /// The matrix a network of this configuration passes messages with: D^-½ Â D^-½ of the graph, with self-loops if configured.
    /// Attention layers read only which entries exist. Prepare it once a graph.
    pub fn adjacency<F: Real>(&self, graph: &Graph) -> Csr<F> {
        if self.self_loops {
            graph.gcn_norm()
        } else {
            graph.without_self_loops().symmetric_norm()
        }
    }

    /// Whether a network can be made of it.
    ///
    /// # Errors
    /// If a size is 0, a probability is not within 0 ≤ p ≤ 1, or the slope is not finite.
    pub fn validate(&self) -> Result<()> {
        let sizes = [
            ("inputs", self.inputs),
            ("hidden", self.hidden),
            ("classes", self.classes),
            ("layers", self.layers),
            ("heads", self.heads),
            ("output heads", self.output_heads),
        ];
        for (name, size) in sizes {
            if size == 0 {
                return Err(Error::invalid(
                    format!("network: {name}"),
                    "at least 1",
                    "0",
                ));
            }
        }
        for (name, p) in [
            ("dropout", self.dropout),
            ("attention dropout", self.attention_dropout),
        ] {
            if !(0.0..=1.0).contains(&p) {
                let found = p.to_string();
                return Err(Error::invalid(
                    format!("network: {name}"),
                    "a probability, 0 to 1",
                    found,
                ));
            }
        }
        if !self.slope.is_finite() {
            let found = self.slope.to_string();
            return Err(Error::invalid("network: slope", "a finite number", found));
        }
        Ok(())
    }

    /// The width of what layer `l` is fed with.
    fn input_of(&self, l: usize) -> usize {
        match (l, self.conv) {
            (0, _) => self.inputs,
            (_, Conv::Gcn) => self.hidden,
            _ => self.heads * self.hidden,
        }
    }

    /// Layer `l` with freshly drawn parameters.
    pub(super) fn layer<F: Real>(&self, l: usize, rng: &mut init::Rng) -> GraphLayer<F> {
        let (input, last) = (self.input_of(l), l + 1 == self.layers);
        let width = if last { self.classes } else { self.hidden };
        let options = AttentionOptions {
            heads: if last { self.output_heads } else { self.heads },
            join: if last {
                Heads::Average
            } else {
                Heads::Concatenate
            },
            bias: self.bias,
            residual: self.residual,
            omega: self.omega,
            slope: self.slope,
            dropout: self.attention_dropout,
        };
        match self.conv {
            Conv::Gcn => GraphLayer::Gcn(GcnConv::new(input, width, self.bias, rng)),
            Conv::Gat => GraphLayer::Gat(GatConv::new(input, width, options, rng)),
            Conv::Gatv2 { shared } => {
                GraphLayer::Gatv2(Gatv2Conv::new(input, width, shared, options, rng))
            }
        }
    }
}
