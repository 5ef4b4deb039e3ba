//! The networks of the papers that introduced the layers.

use super::{EndMaps, GraphNetConfig};
use crate::nn::Activation;
use crate::nn::graph::{
    AttentionOptions, Conv, GatedGraphOptions, Gatv2Options, GcniiOptions, GinOptions, SageOptions,
    SgcOptions, TransformerOptions,
};

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
            ends: EndMaps::NONE,
            norm: None,
            residual: None,
            activation: Activation::Relu,
            dropout: 0.5,
            input_dropout: true,
            self_loops: true,
        }
    }

    /// Veličković et al.'s model for Cora and CiteSeer: 2 layers, 8 heads of 8 neurons, one head in
    /// the last layer, ELU, dropout 0.6 of the inputs of layers and dropout 0.6 of attention coefficients.
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

    /// [`gat`](Self::gat) with GATv2 layers, which have separate weights for sources and targets; with the same
    /// two dropouts of 0.6.
    pub fn gatv2(inputs: usize, classes: usize) -> Self {
        let gat = Self::gat(inputs, classes);
        let attention = *gat.conv.attention().expect("that of GAT");
        gat.of(Conv::Gatv2(Gatv2Options {
            shared: false,
            attention,
        }))
    }

    /// [`gcn`](Self::gcn) with GraphSAGE layers, dropout 0.5; a node is not among its own neighbours.
    pub fn sage(inputs: usize, classes: usize) -> Self {
        Self {
            self_loops: false,
            ..Self::gcn(inputs, classes).of(Conv::Sage(SageOptions { bias: true }))
        }
    }

    /// Wu et al.'s model: two propagations and one linear map, without dropout.
    pub fn sgc(inputs: usize, classes: usize) -> Self {
        let options = SgcOptions {
            steps: 2,
            bias: true,
        };
        Self {
            layers: 1,
            dropout: 0.0,
            ..Self::gcn(inputs, classes).of(Conv::Sgc(options))
        }
    }

    /// Xu et al.'s layers of width 64 with trained ε, and a linear map to the classes after them; a node is
    /// not among its own neighbours. Dropout 0.5. The paper classifies graphs, with 5 layers.
    pub fn gin(inputs: usize, classes: usize) -> Self {
        let options = GinOptions {
            eps: true,
            bias: true,
        };
        Self {
            hidden: 64,
            ends: EndMaps::OUTPUT,
            self_loops: false,
            ..Self::gcn(inputs, classes).of(Conv::Gin(options))
        }
    }

    /// Chen et al.'s model for Cora: 64 layers of 64 neurons between two linear maps, α = 0.1, θ = 0.5,
    /// ReLU, dropout 0.6.
    pub fn gcnii(inputs: usize, classes: usize) -> Self {
        Self {
            hidden: 64,
            layers: 64,
            dropout: 0.6,
            ends: EndMaps::ACTIVATED,
            ..Self::gcn(inputs, classes).of(Conv::Gcnii(GcniiOptions::DEFAULT))
        }
    }

    /// Shi et al.'s layers: 2 layers, 8 heads of 8 neurons, one head in the last layer, ReLU, dropout 0.6 of
    /// the inputs of layers and dropout 0.6 of attention coefficients; a node is not among its own neighbours.
    /// The paper's sizes, 3 layers of 128 to 256 neurons with gates, are for graphs of 10⁵ nodes; the sizes here
    /// are those of [`gat`](Self::gat).
    pub fn transformer(inputs: usize, classes: usize) -> Self {
        let options = TransformerOptions {
            heads: 8,
            dropout: 0.6,
            ..TransformerOptions::DEFAULT
        };
        Self {
            hidden: 8,
            dropout: 0.6,
            self_loops: false,
            ..Self::gcn(inputs, classes).of(Conv::Transformer(options))
        }
    }

    /// Li et al.'s layer with two steps of width 64 between two linear maps, dropout 0.5; a node is not among its
    /// own neighbours. Its depth is its number of steps.
    pub fn ggnn(inputs: usize, classes: usize) -> Self {
        Self {
            hidden: 64,
            layers: 1,
            ends: EndMaps::LINEAR,
            self_loops: false,
            ..Self::gcn(inputs, classes).of(Conv::GatedGraph(GatedGraphOptions { steps: 2 }))
        }
    }
}
