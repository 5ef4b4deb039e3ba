//! Strategies of [proptest](https://docs.rs/proptest) for models of emmy over graphs and rows: they shrink
//! to small graphs, zeros, and few and narrow layers. The chapter [Testing your own model] has the whole
//! test of a layer.
//!
//! [Testing your own model]: https://docs.rs/emmy/latest/emmy/book/testing/
//!
//! ```
//! use emmy::nn::{Activation, Mlp};
//! use emmy::testing::{Subject, assert_laws};
//! use emmy::init;
//! use emmy_strategies::{features, proptest::prelude::*, seeds, widths};
//!
//! proptest! {
//!     #![proptest_config(ProptestConfig { cases: 20, failure_persistence: None, ..Default::default() })]
//!     // In a test of yours: #[test]
//!     fn the_laws_of_a_perceptron(x in features::<f64>(4, 3), hidden in widths(1..4, 1..6), seed in seeds()) {
//!         let sizes = [&[3], &hidden[..], &[2]].concat();
//!         let net = Mlp::<f64>::new(&sizes, Activation::Relu, true, &mut init::rng(seed));
//!         let report = assert_laws(&Subject::new(&net, &x, seed, |pass, x| net.forward(pass, x)));
//!         prop_assume!(!report.is_vacuous());
//!     }
//! }
//! the_laws_of_a_perceptron();
//! ```

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
