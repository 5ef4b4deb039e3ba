//! Accuracies of networks on the generated data set like Cora: the graph helps, two layers are
//! enough, and many layers are worse.

use emmy::data::{Dataset, cora_like};
use emmy::graph::{Duplicates, Graph, SelfLoops};
use emmy::nn::{GraphNet, GraphNetConfig};
use emmy::optim::Algorithm;
use emmy::train::{NodeClassification, TrainConfig, Trainer};

/// Test accuracy at the best validation epoch of a GCN with the usual settings for Cora. Without edges it is a network of
/// linear layers.
fn accuracy(set: &Dataset, graph: &Graph, layers: usize, seed: u64) -> f64 {
    let config = GraphNetConfig {
        layers,
        ..GraphNetConfig::gcn(set.feature_count(), set.classes)
    };
    let training = TrainConfig {
        algorithm: Algorithm::ADAM,
        lr: 0.01,
        weight_decay: 5e-4,
        epochs: 200,
        patience: None,
        seed,
        ..TrainConfig::default()
    };
    let (x, neighbours) = (
        set.normalized_features::<f32>(),
        config.neighbourhood::<f32>(graph),
    );
    let mut trainer = Trainer::new(GraphNet::new(config, seed).unwrap(), training).unwrap();
    let task = NodeClassification::new(&set.labels, &set.splits[0], |net: &GraphNet<_>, pass| {
        net.forward(pass, pass.tape().sparse(&x), &neighbours)
    });
    trainer.fit(&task.unwrap(), |_, _| Ok(())).unwrap();
    trainer.history().best().unwrap().metrics["test_acc"]
}

#[test]
#[ignore = "takes seconds: cargo test -- --include-ignored"]
fn networks_fare_as_on_cora() {
    let seeds = 1;
    let mean = |layers: usize, edges: bool| {
        let run = |seed| {
            let set = cora_like(seed);
            let none = Graph::new(set.nodes(), &[], Duplicates::Reject, SelfLoops::Reject).unwrap();
            accuracy(&set, if edges { &set.graph } else { &none }, layers, seed)
        };
        (0..seeds).map(run).sum::<f64>() / seeds as f64
    };
    let (linear, two_without) = (mean(1, false), mean(2, false));
    let (two, sixteen) = (mean(2, true), mean(16, true));
    println!("without edges: 1 layer {linear:.3}, 2 layers {two_without:.3}");
    println!("GCN: 2 layers {two:.3}, 16 layers {sixteen:.3}");
    for without in [linear, two_without] {
        assert!((0.50..0.66).contains(&without), "{without}");
    }
    assert!((0.78..0.86).contains(&two), "{two}");
    assert!(sixteen < 0.5, "{sixteen}");
}
