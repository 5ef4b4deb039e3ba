//! The networks of the tests.

use emmy::nn::{
    AttentionOptions, Conv, Entry, GraphNet, GraphNetConfig, Heads, Module, Pass, entries_mut,
};
use emmy::{Graph, Real, Tape, Tensor, init};
use ndarray::{Array2, Ix2};
use papers::layers::Omega;

pub const CONVS: [Conv; 2] = [Conv::gatv2(true), Conv::gatv2(false)];
pub const OMEGAS: [Omega; 2] = [Omega::Layer, Omega::Channel];
pub const INPUTS: usize = 5;
pub const CLASSES: usize = 3;

pub fn options(heads: usize, join: Heads) -> AttentionOptions {
    AttentionOptions {
        heads,
        join,
        bias: false,
        ..AttentionOptions::default()
    }
}

/// ω on both sides of 0 and of 1, biases that are not 0.
pub fn unsettle<F: Real>(model: &mut impl Module<F>, seed: u64) {
    let rng = &mut init::rng(seed);
    for Entry { name, tensor, .. } in entries_mut(model) {
        if name.ends_with("omega") {
            *tensor = init::uniform(tensor.shape(), 1.5, rng);
            tensor.mapv_inplace(|x| x + F::of(0.5));
        } else if name.ends_with("bias") {
            *tensor = init::normal(tensor.shape(), 0.3, rng);
        }
    }
}

/// Every kind of network: three layers, heads side by side and averaged.
pub fn networks() -> Vec<GraphNet<f64>> {
    let mut all = Vec::new();
    for conv in CONVS {
        for omega in OMEGAS {
            let config = GraphNetConfig {
                hidden: 4,
                layers: 3,
                dropout: 0.0,
                ..GraphNetConfig::gcn(INPUTS, CLASSES)
            }
            .of(conv)
            .heads(2, 3);
            let mut net = GraphNet::new(omega.of(config).unwrap(), 3).unwrap();
            unsettle(&mut net, 9);
            all.push(net);
        }
    }
    all
}

pub fn logits(net: &GraphNet<f64>, graph: &Graph, x: &Tensor<f64>) -> Array2<f64> {
    let tape = Tape::new();
    let adjacency = net.config.neighbourhood(graph);
    let y = net.forward(
        &Pass::eval(&tape, net),
        tape.constant(x.clone()),
        &adjacency,
    );
    two(&y.value())
}

pub fn two(t: &Tensor<f64>) -> Array2<f64> {
    t.clone().into_dimensionality::<Ix2>().unwrap().into_owned()
}

/// Standard normal features.
pub fn features(nodes: usize, seed: u64) -> Tensor<f64> {
    init::normal(&[nodes, INPUTS], 1.0, &mut init::rng(seed))
}
