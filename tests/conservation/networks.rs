//! The laws that networks list.

use emmy::nn::{Activation, Conv, GraphNet, GraphNetConfig, Module, Pass, Stack};
use emmy::{Tape, data};

#[test]
fn smoke() {
    let karate = data::karate();
    for conv in [
        Conv::Gcn,
        Conv::Gat,
        Conv::Gatv2 { shared: true },
        Conv::Gatv2 { shared: false },
    ] {
        for activation in [Activation::Relu, Activation::Identity] {
            let config = GraphNetConfig {
                conv,
                layers: 4,
                hidden: 3,
                heads: 2,
                output_heads: if conv == Conv::Gcn { 1 } else { 2 },
                dropout: 0.0,
                attention_dropout: 0.0,
                residual: true,
                activation,
                ..GraphNetConfig::gcn(karate.feature_count(), 2)
            };
            let mut net = GraphNet::<f64>::new(config, 1).unwrap();
            let rng = &mut emmy::init::rng(3);
            for p in net.tensors_mut() {
                *p = emmy::init::normal(&p.shape().to_vec(), 0.5, rng);
            }
            let (x, adjacency) = (karate.raw_features(), config.adjacency(&karate.graph));
            let tape = Tape::new();
            let pass = Pass::train(&tape, 0);
            let loss = net
                .forward(&pass, tape.sparse(&x), &adjacency)
                .cross_entropy(&karate.labels, None);
            let g = pass.gradients(loss, &net);
            for law in net.laws().iter().chain(&net.softmax_laws()) {
                let m = law.measure(&net.tensors(), &g);

                assert!(m.worst() < 1e-10);
            }
        }
    }
}
