#![doc = include_str!("../README.md")]

mod graph_nets;
mod graphs;
mod models;
mod numbers;
mod transformers;

pub use graph_nets::{CONVS, graph_nets, homogeneous_graph_nets};
pub use graphs::{
    arbitrary_graphs, edge_lists, edgeless, graphs, paths, permutations, stars, stochastic_blocks,
    trees,
};
pub use models::{
    ACTIVATIONS, Perceptron, activations, contra_norms, homogeneous, norms, perceptrons, row_norms,
};
pub use numbers::{features, losses, masks, problems, seeds, shapes, tensors, tensors_of, widths};
pub use proptest;
pub use transformers::{blocks, language_models, self_attentions};
