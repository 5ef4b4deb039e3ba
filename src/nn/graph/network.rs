//! A network of graph layers.

use super::{GraphLayer, GraphNetConfig};
use crate::autodiff::Var;
use crate::error::Result;
use crate::graph::{Duplicates, Graph, Neighbourhood, SelfLoops};
use crate::init;
use crate::nn::{Dropout, Input, Layer, Pass, Trace, Traced};
use crate::real::Real;
use crate::tensor::Tensor;

/// x ← layer_l(dropout(x)), with σ between layers: a network that gives each node its logits.
///
/// ```
/// use emmy::{Tape, data, nn::{GraphNet, GraphNetConfig, Pass}};
///
/// let karate = data::karate();
/// let config = GraphNetConfig::gat(karate.feature_count(), karate.classes);
/// let net = GraphNet::<f32>::new(config, 0)?;
///
/// let tape = Tape::new();
/// let x = tape.sparse(&karate.raw_features());
/// let logits = net.forward(&Pass::eval(&tape, &net), x, &config.neighbourhood(&karate.graph));
/// assert_eq!(logits.shape(), [34, 2]);
/// # Ok::<(), emmy::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct GraphNet<F: Real> {
    /// The layers, first to last.
    pub layers: Vec<GraphLayer<F>>,
    /// The configuration of the network.
    pub config: GraphNetConfig,
}
crate::module!(GraphNet: layers as "convs");

impl<F: Real> GraphNet<F> {
    /// A network with freshly drawn parameters.
    ///
    /// # Errors
    /// If the configuration is not [valid](GraphNetConfig::validate).
    pub fn new(config: GraphNetConfig, seed: u64) -> Result<Self> {
        config.validate()?;
        let rng = &mut init::rng(seed);
        let layers = config.plan().into_iter();
        Ok(Self {
            layers: layers
                .map(|(conv, input, width)| conv.build(input, width, rng))
                .collect(),
            config,
        })
    }

    /// The logits, shape `[n, classes]`.
    ///
    /// # Panics
    /// If x does not have one row per node, or as many features as the network reads.
    #[track_caller]
    pub fn forward<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        x: impl Into<Input<'t, F>>,
        neighbours: &Neighbourhood<F>,
    ) -> Var<'t, F> {
        let x = x.into();
        x.check_nodes("GraphNet", neighbours.nodes());
        x.check_features("GraphNet", self.config.inputs);
        pass.call(self, &[x.var()], || {
            let dropout = Dropout {
                p: self.config.dropout,
            };
            let (last, hidden) =
                (self.layers.split_last()).expect("a valid configuration has a layer");
            let mut x = x;
            if self.config.input_dropout {
                x = dropout.forward(pass, x);
            }
            for layer in hidden {
                let y = layer.forward(pass, x, neighbours);
                x = dropout.forward(pass, self.config.activation.apply(y));
            }
            last.forward(pass, x, neighbours)
        })
    }
}

impl<F: Real> Layer<F> for GraphNet<F> {}

impl<F: Real> Traced<F> for GraphNet<F> {
    /// A pass over two nodes with one edge.
    fn trace(&self) -> Trace {
        let graph = Graph::new(2, &[(0, 1)], Duplicates::Reject, SelfLoops::Reject);
        let neighbours = self.config.neighbourhood(&graph.expect("an edge"));
        let x = Tensor::ones(vec![2, self.config.inputs]);
        Trace::of(self, |pass| {
            self.forward(pass, pass.tape().constant(x), &neighbours)
        })
    }
}
