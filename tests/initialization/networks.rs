//! The networks that are initialised, and measurements of them.

use emmy::nn::{Activation, Conv, GraphNet, GraphNetConfig, Mlp, Module, Traced};
use emmy::nn::{AttentionOptions, Gatv2Conv, Heads, Pass, Trace};
use emmy::sparse::Csr;
use emmy::symmetry::Symmetry;
use emmy::{Real, Tensor, Var, init};
use ndarray::Ix2;

pub const INPUTS: usize = 5;
pub const CLASSES: usize = 3;
pub const SHARED: Conv = Conv::gatv2(true);
pub const SEPARATE: Conv = Conv::gatv2(false);

/// A network of the given kind without dropout and biases.
pub fn config(conv: Conv, layers: usize, hidden: usize, heads: usize) -> GraphNetConfig {
    GraphNetConfig {
        layers,
        hidden,
        dropout: 0.0,
        ..GraphNetConfig::gcn(INPUTS, CLASSES)
    }
    .of(conv)
    .heads(heads, 1)
    .biased(false)
}

pub fn graph_net<F: Real>(config: GraphNetConfig) -> GraphNet<F> {
    GraphNet::new(config, 0).unwrap()
}

pub fn mlp<F: Real>(widths: &[usize], activation: Activation, bias: bool) -> Mlp<F> {
    Mlp::new(widths, activation, bias, &mut init::rng(0))
}

/// A parameter of this name as a matrix.
pub fn matrix(model: &impl Module<f64>, name: &str) -> ndarray::Array2<f64> {
    let all = model.parameters();
    let found = (all.iter().find(|p| p.name == name)).unwrap_or_else(|| {
        panic!(
            "no {name} among {:?}",
            all.iter().map(|p| &p.name).collect::<Vec<_>>()
        )
    });
    (found.tensor)
        .view()
        .into_dimensionality::<Ix2>()
        .unwrap()
        .to_owned()
}

/// All numbers of a model.
pub fn numbers<F: Real>(model: &impl Module<F>) -> Vec<f64> {
    let tensors = model.tensors();
    tensors.into_iter().flatten().map(|x| x.as_f64()).collect()
}

/// The largest |c_j| / Σ |w| ‖M_j‖² over all neurons; with parameters in the place of gradients δ is c, and its size that sum.
pub fn worst_balance<F: Real>(model: &impl Traced<F>) -> f64 {
    let parameters = model.tensors();
    let copies: Vec<Tensor<F>> = parameters.iter().map(|&p| p.clone()).collect();
    let laws = model.laws();
    let rescalings = laws
        .iter()
        .filter(|law| law.symmetry == Symmetry::Rescaling);
    let worst = rescalings.map(|law| {
        let measured = law.measure(&parameters, &copies);
        assert!(
            measured.size.iter().all(|&size| size > 1e-9),
            "{measured:?}"
        );
        measured.worst()
    });
    worst.fold(0.0, f64::max)
}

/// A GATv2 stack that averages the heads of every layer, and owns a parameter that none of its ports names.
#[derive(Clone)]
pub struct Averaged<F: Real> {
    pub layers: Vec<Gatv2Conv<F>>,
    pub unnamed: Tensor<F>,
    pub activation: Activation,
}
emmy::module!(Averaged: layers, unnamed);

impl<F: Real> Averaged<F> {
    pub fn new(widths: &[usize], heads: usize, shared: bool) -> Self {
        let options = AttentionOptions {
            heads,
            join: Heads::Average,
            bias: false,
            ..AttentionOptions::default()
        };
        let rng = &mut init::rng(0);
        let layer = |w: &[usize]| Gatv2Conv::new(w[0], w[1], shared, options, rng);
        Self {
            layers: widths.windows(2).map(layer).collect(),
            unnamed: init::normal(&[4], 1.0, rng),
            activation: Activation::Relu,
        }
    }

    pub fn forward<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        x: Var<'t, F>,
        adjacency: &Csr<F>,
    ) -> Var<'t, F> {
        let (first, others) = self.layers.split_first().unwrap();
        let mut y = first.forward(pass, x, &adjacency.pattern);
        for layer in others {
            y = layer.forward(pass, self.activation.apply(y), &adjacency.pattern);
        }
        y
    }
}

impl<F: Real> Traced<F> for Averaged<F> {
    fn trace(&self) -> Trace {
        let adjacency = emmy::graph::generators::path(3).gcn_norm();
        let x = Tensor::ones(vec![3, self.layers[0].source.weight.shape()[1]]);
        Trace::of(self, |pass| {
            self.forward(pass, pass.tape().constant(x), &adjacency)
        })
    }
}
