//! C24: what is conserved along other vector fields than the gradient's. The first step of Adam is that of
//! sign descent; that of Muon is an orthogonal matrix.

use crate::support::*;
use emmy::linalg;
use emmy::ndarray::Array2;
use emmy::nn::{Activation, GraphNetConfig, Traced, roles};
use emmy::optim::{Algorithm, Optimizer};
use emmy::symmetry::Layout;
use emmy::{Tensor, init};

fn flat(x: &[Tensor<f64>]) -> Vec<f64> {
    x.iter().flat_map(|x| x.iter().copied()).collect()
}

/// The smallest and the largest singular value of the derivatives of all conserved quantities along the first
/// step from random points, each relative to the size of its terms. A combination of the quantities that the
/// field conserves would be a singular value of zero.
fn rates(net: &(impl Network<f64> + Traced<f64> + Clone), method: Algorithm) -> [f64; 2] {
    let named = net.parameters().into_iter();
    let layout = Layout::new(named.map(|p| (p.name, p.tensor.shape().to_vec())));
    let laws = net.laws();
    let generators: Vec<_> = laws
        .iter()
        .flat_map(|law| law.conserving(&layout))
        .collect();
    let (count, points) = (generators.len(), 4 * generators.len() + 10);
    let mut rates = Array2::zeros((points, count));
    for point_number in 0..points {
        let seed = point_number as u64;
        let mut net = net.clone();
        let rng = &mut init::rng(seed);
        for parameter in net.tensors_mut() {
            *parameter = init::normal(parameter.shape(), 0.7, rng);
        }
        let (_, gradients) = point(&net, &example(4, Loss::Smooth, seed));
        let mut theta: Vec<Tensor<f64>> = net.tensors().into_iter().cloned().collect();
        let start = flat(&theta);
        let mut optimizer = Optimizer::new(method).of_roles(roles(&net));
        optimizer.step(theta.iter_mut(), &gradients, 1e-3);
        let step: Vec<f64> = (flat(&theta).iter().zip(&start))
            .map(|(a, b)| (a - b) / 1e-3)
            .collect();
        for (k, generator) in generators.iter().enumerate() {
            let (rate, size) = generator.delta(&start, &step);
            rates[[point_number, k]] = if size > 0.0 { rate / size } else { 0.0 };
        }
    }
    let values = linalg::svd(rates.view()).1;
    let scale = (points as f64).sqrt();
    let ends = values.iter().map(|s| s / scale);
    [
        ends.clone().fold(f64::INFINITY, f64::min),
        ends.fold(0.0, f64::max),
    ]
}

/// Under gradient descent every rate is zero: the law. Under sign descent and Muon no combination of the
/// quadratic quantities has a rate of zero, so none is conserved; δ = 0 stands at every point all the same.
#[test]
fn sign_descent_and_muon_conserve_no_quadratic_quantity() {
    let config = GraphNetConfig {
        layers: 3,
        hidden: 3,
        dropout: 0.0,
        activation: Activation::LeakyRelu { slope: 0.2 },
        ..GraphNetConfig::gcn(4, 3)
    };
    let check = |what: &str, of: &dyn Fn(Algorithm) -> [f64; 2]| {
        let [_, largest] = of(Algorithm::SGD);
        assert!(largest < 1e-9, "{what}: {largest} under descent");
        for method in [Algorithm::ADAM, Algorithm::MUON] {
            let [least, largest] = of(method);
            assert!(
                least > 1e-2,
                "{what}, {method:?}: from {least} to {largest}"
            );
        }
    };
    let net = mlp::<f64>(&[4, 5, 4, 3], Activation::Relu, true, 0);
    check("perceptron", &|method| rates(&net, method));
    for conv in CONVS {
        let net = graph_net::<f64>(config.of(conv).heads(2, 1), 0);
        check(&format!("{conv:?}"), &|method| rates(&net, method));
    }
}
