//! The laws that networks list hold for every parameter, graph, loss and float type.

use crate::support::*;
use emmy::nn::{Activation, Conv, GraphNetConfig, Mlp, Omega, Traced};
use emmy::symmetry::{Law, Symmetry};
use proptest::collection::vec;
use proptest::prelude::*;

const RELU_SQUARED: Activation = Activation::ReluSquared;

/// The number of laws of each kind: about neurons, and about spaces of neurons.
fn count(laws: &[Law]) -> (usize, usize) {
    let of = |kind| laws.iter().filter(|law| law.symmetry == kind).count();
    assert_eq!(
        laws.len(),
        of(Symmetry::Rescaling) + of(Symmetry::Linear),
        "no other kind is listed"
    );
    (of(Symmetry::Rescaling), of(Symmetry::Linear))
}

/// A law for every head of every hidden layer, and one more where the space of its neurons may be mixed.
fn expected(config: &GraphNetConfig) -> (usize, usize) {
    let attention = config.conv.attention();
    let heads = attention.map_or(1, |a| a.heads);
    let neurons = (config.layers - 1) * heads;
    let linear = matches!(config.conv, Conv::Gcn(_) | Conv::Gat(_)) && config.dropout == 0.0;
    // With an ω for each of several channels neurons are not treated alike.
    let per_channel = attention.is_some_and(|a| a.omega == Some(Omega::Channel));
    let alike = !per_channel || heads * config.hidden == 1;
    let mixed = linear && config.activation == Activation::Identity && alike;
    (neurons, if mixed { neurons } else { 0 })
}

fn check_mlp(widths: &[usize], activation: Activation, bias: bool, problem: &Problem, seed: u64) {
    let net: Mlp<f64> = mlp(widths, activation, bias, seed);
    let hidden = widths.len() - 2;
    let spaces = if activation == Activation::Identity {
        hidden
    } else {
        0
    };
    assert_eq!(count(&net.laws()), (hidden, spaces));
    holds(&net.laws(), &net, problem);
    let net: Mlp<f32> = mlp(widths, activation, bias, seed);
    holds(&net.laws(), &net, problem);
}

fn check_graph_net(config: GraphNetConfig, problem: &Problem, seed: u64) {
    let config = GraphNetConfig {
        inputs: problem.inputs,
        ..config
    };
    let net = graph_net::<f64>(config, seed);
    assert_eq!(count(&net.laws()), expected(&config));
    holds(&net.laws(), &net, problem);
    let net = graph_net::<f32>(config, seed);
    holds(&net.laws(), &net, problem);
}

proptest! {
    #![proptest_config(cases(300))]

    /// C1, and C2 where σ is the identity.
    #[test]
    fn of_perceptrons(
        (problem, hidden, classes) in (problems(), vec(1_usize..7, 1..5), 2_usize..5),
        (activation, bias, seed) in (homogeneous(), any::<bool>(), any::<u64>()),
    ) {
        let widths = [&[problem.inputs], &hidden[..], &[classes]].concat();
        check_mlp(&widths, activation, bias, &problem, seed);
    }

    /// C1k: behind ReLU² the outgoing weights of a neuron count twice. Three layers at most: the
    /// outputs grow like the power 2^(L − 1) of the features.
    #[test]
    fn of_perceptrons_with_an_activation_of_degree_two(
        (problem, hidden, classes) in (problems(), vec(1_usize..7, 1..3), 2_usize..5),
        (bias, seed) in (any::<bool>(), any::<u64>()),
    ) {
        let widths = [&[problem.inputs], &hidden[..], &[classes]].concat();
        check_mlp(&widths, RELU_SQUARED, bias, &problem, seed);
    }

    /// C1 for GCN, C3 for GATv2 with shared weights, C4 for GAT, C5 for separate weights, C6 for heads side
    /// by side, C7 for biases, and the terms of a residual x Vᵀ.
    #[test]
    fn of_graph_networks((problem, config, seed) in (problems(), graph_nets(), any::<u64>())) {
        check_graph_net(config, &problem, seed);
    }

    /// C1k for all kinds of layers.
    #[test]
    fn of_graph_networks_with_an_activation_of_degree_two(
        (problem, config, seed, layers) in (problems(), graph_nets(), any::<u64>(), 2_usize..4),
    ) {
        let config = GraphNetConfig { activation: RELU_SQUARED, layers, ..config };
        check_graph_net(config, &problem, seed);
    }

    /// A mask is one more function of single neurons, and of the coefficients of a head as a whole.
    #[test]
    fn in_training_passes_with_dropout(
        (problem, config, seed) in (problems(), graph_nets(), any::<u64>()),
        (dropout, attention_dropout) in (prop::sample::select(vec![0.0, 0.3]), 0.1..0.6),
    ) {
        let config = GraphNetConfig { dropout, ..config }.attending(|a| a.dropout = attention_dropout);
        check_graph_net(config, &problem, seed);
    }

    /// C20.
    #[test]
    fn of_outputs_that_a_loss_sees_only_up_to_a_shift(
        (problem, config, seed, masked) in (problems(), graph_nets(), any::<u64>(), any::<bool>()),
    ) {
        let config = GraphNetConfig { inputs: problem.inputs, ..config };
        let loss = if masked { Loss::Masked } else { Loss::CrossEntropy };
        let problem = Problem { loss, ..problem };
        let net = graph_net::<f64>(config, seed);
        let laws = net.softmax_laws();
        let attention = config.last.attention();
        let affine = attention.is_none_or(|a| a.residual);
        let bias = match config.last {
            Conv::Gcn(options) => options.bias,
            _ => attention.is_some_and(|a| a.bias),
        };
        prop_assert_eq!(laws.len(), usize::from(affine) + usize::from(bias));
        prop_assert!(laws.iter().all(|l| l.symmetry == Symmetry::Translation && l.layer == config.layers));
        holds(&laws, &net, &problem);
        holds(&laws, &graph_net::<f32>(config, seed), &problem);
    }
}

/// As deep as those of the paper.
#[test]
fn of_many_layers() {
    for conv in CONVS {
        for (layers, heads) in [(20, 2), (40, 1), (80, 1)] {
            let problem = example(4, Loss::CrossEntropy, layers as u64);
            let config = GraphNetConfig {
                layers,
                hidden: 6,
                dropout: 0.0,
                ..GraphNetConfig::gcn(4, 3)
            }
            .of(conv)
            .heads(heads, 1);
            check_graph_net(config, &problem, 1);
        }
    }
}
