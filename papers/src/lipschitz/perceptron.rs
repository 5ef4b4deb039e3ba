//! A perceptron with ReLU as a network of the joint bound.

use emmy::lipschitz::joint::{Network, Pieces};
use emmy::nn::Mlp;
use emmy::{Result, Tensor};

/// Its matrices.
pub fn network(net: &Mlp<f64>) -> Result<Network> {
    let weights = net.layers.iter().map(|layer| layer.weight.to_owned());
    let matrices = weights.map(|w| w.into_dimensionality().expect("a matrix"));
    Network::chain(matrices.collect(), [0.0, 1.0])
}

/// Its linear pieces, of all outputs or of one.
pub fn pieces(net: &Mlp<f64>, output: Option<usize>) -> Result<Pieces> {
    let network = network(net)?;
    let network = output.map_or(network.clone(), |k| network.one_output(k));
    let hidden = &net.layers[..net.layers.len() - 1];
    let bias = |bias: &Tensor<f64>| bias.iter().copied().collect();
    let biases = hidden.iter().map(|layer| {
        let none = || vec![0.0; layer.weight.shape()[0]].into();
        layer.bias.as_ref().map_or_else(none, bias)
    });
    Pieces::new(network, biases.collect())
}
