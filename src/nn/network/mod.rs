//! A stack of graph layers of one kind.

mod config;

use super::{Activation, Dropout, GatConv, Gatv2Conv, GcnConv};
use super::{Input, Module, Named, Pass, Ports, Slots, Stack};
use crate::autodiff::Var;
use crate::error::Result;
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
        pass: &Pass<'t, F>,
        x: impl Into<Input<'t, F>>,
        adjacency: &Csr<F>,
    ) -> Var<'t, F> {
        match self {
            Self::Gcn(layer) => layer.forward(pass, x, adjacency),
            Self::Gat(layer) => layer.forward(pass, x, &adjacency.pattern),
            Self::Gatv2(layer) => layer.forward(pass, x, &adjacency.pattern),
        }
    }

    /// Its part in conservation laws.
    pub fn ports(&self, slots: &Slots<'_, F>) -> Ports {
        match self {
            Self::Gcn(layer) => layer.ports(slots),
            Self::Gat(layer) => layer.ports(slots),
            Self::Gatv2(layer) => layer.ports(slots),
        }
    }
}

impl<F: Real> Module<F> for GraphLayer<F> {
    fn collect<'a>(&'a self, out: &mut Named<&'a Tensor<F>>) {
        match self {
            Self::Gcn(layer) => layer.collect(out),
            Self::Gat(layer) => layer.collect(out),
            Self::Gatv2(layer) => layer.collect(out),
        }
    }

    fn collect_mut<'a>(&'a mut self, out: &mut Named<&'a mut Tensor<F>>) {
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
/// let logits = net.forward(&Pass::evaluate(&tape), x, &config.adjacency(&karate.graph));
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
        pass: &Pass<'t, F>,
        x: impl Into<Input<'t, F>>,
        adjacency: &Csr<F>,
    ) -> Var<'t, F> {
        let dropout = Dropout {
            p: self.config.dropout,
        };
        let (last, hidden) = (self.layers.split_last()).expect("a valid configuration has a layer");
        let mut x = x.into();
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

impl<F: Real> Stack<F> for GraphNet<F> {
    fn ports(&self) -> Vec<Ports> {
        let slots = Slots::of(self);
        self.layers.iter().map(|l| l.ports(&slots)).collect()
    }

    fn activation(&self) -> Activation {
        self.config.activation
    }

    fn drops(&self) -> bool {
        self.config.dropout > 0.0
    }
}
