//! A stack of graph layers of one kind.

mod config;

use super::{Dropout, GatConv, Gatv2Conv, GcnConv};
use super::{Fields, Input, Layer, Module, Pass, Trace, Traced};
use crate::autodiff::Var;
use crate::error::Result;
use crate::graph::{Duplicates, Graph, SelfLoops};
use crate::init;
use crate::real::Real;
use crate::sparse::Csr;
use crate::tensor::Tensor;
pub use config::{Conv, GraphNetConfig};

/// One layer of a [`GraphNet`].
#[derive(Debug, Clone)]
pub enum GraphLayer<F: Real> {
    /// Graph convolution.
    Gcn(GcnConv<F>),
    /// Graph attention, version 1.
    Gat(GatConv<F>),
    /// Graph attention, version 2.
    Gatv2(Gatv2Conv<F>),
}

impl<F: Real> GraphLayer<F> {
    /// The layer's output, `[n, out]`.
    ///
    /// # Panics
    /// If the shapes do not fit.
    #[track_caller]
    pub fn forward<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        x: impl Into<Input<'t, F>>,
        adjacency: &Csr<F>,
    ) -> Var<'t, F> {
        match self {
            Self::Gcn(layer) => layer.forward(pass, x, adjacency),
            Self::Gat(layer) => layer.forward(pass, x, &adjacency.pattern),
            Self::Gatv2(layer) => layer.forward(pass, x, &adjacency.pattern),
        }
    }
}

impl<F: Real> Module<F> for GraphLayer<F> {
    fn collect<'a>(&'a self, out: &mut Fields<&'a Tensor<F>>) {
        match self {
            Self::Gcn(layer) => layer.collect(out),
            Self::Gat(layer) => layer.collect(out),
            Self::Gatv2(layer) => layer.collect(out),
        }
    }

    fn collect_mut<'a>(&'a mut self, out: &mut Fields<&'a mut Tensor<F>>) {
        match self {
            Self::Gcn(layer) => layer.collect_mut(out),
            Self::Gat(layer) => layer.collect_mut(out),
            Self::Gatv2(layer) => layer.collect_mut(out),
        }
    }
}

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
/// let logits = net.forward(&Pass::eval(&tape, &net), x, &config.adjacency(&karate.graph));
/// assert_eq!(logits.shape(), [34, 2]);
/// # Ok::<(), emmy::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct GraphNet<F: Real> {
    /// Its layers, first to last.
    pub layers: Vec<GraphLayer<F>>,
    /// What it was made of.
    pub config: GraphNetConfig,
}
crate::module!(GraphNet: layers);

impl<F: Real> GraphNet<F> {
    /// A network with freshly drawn parameters.
    ///
    /// # Errors
    /// If the configuration is not [valid](GraphNetConfig::validate).
    pub fn new(config: GraphNetConfig, seed: u64) -> Result<Self> {
        config.validate()?;
        let rng = &mut init::rng(seed);
        let layers = (0..config.layers).map(|l| config.layer(l, rng)).collect();
        Ok(Self { layers, config })
    }

    /// The logits, shape `[n, classes]`.
    ///
    /// # Panics
    /// If the shapes do not fit.
    #[track_caller]
    pub fn forward<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        x: impl Into<Input<'t, F>>,
        adjacency: &Csr<F>,
    ) -> Var<'t, F> {
        let x = x.into();
        x.check_nodes("GraphNet", adjacency.pattern.cols());
        x.check_features("GraphNet", self.config.inputs);
        pass.call(self, &[x.var()], || self.layered(pass, x, adjacency))
    }

    fn layered<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        mut x: Input<'t, F>,
        adjacency: &Csr<F>,
    ) -> Var<'t, F> {
        let dropout = Dropout {
            p: self.config.dropout,
        };
        let (last, hidden) = (self.layers.split_last()).expect("a valid configuration has a layer");
        if self.config.input_dropout {
            x = dropout.forward(pass, x);
        }
        for layer in hidden {
            let y = layer.forward(pass, x, adjacency);
            x = dropout.forward(pass, self.config.activation.apply(y));
        }
        last.forward(pass, x, adjacency)
    }
}

impl<F: Real> Layer<F> for GraphNet<F> {}

impl<F: Real> Traced<F> for GraphNet<F> {
    /// On two nodes with an edge.
    fn trace(&self) -> Trace {
        let graph = Graph::new(2, &[(0, 1)], Duplicates::Reject, SelfLoops::Reject);
        let adjacency = self.config.adjacency(&graph.expect("an edge"));
        let x = Tensor::ones(vec![2, self.config.inputs]);
        Trace::of(self, |pass| {
            self.forward(pass, pass.tape().constant(x), &adjacency)
        })
    }
}
