//! The laws that networks list hold for every parameter, graph, loss and float type.

use crate::cases::cases;
use crate::support::*;
use emmy::nn::{Activation, Conv, GraphNetConfig, Mlp, Traced};
use emmy::symmetry::{Law, Symmetry};
use proptest::collection::vec;
use proptest::prelude::*;

const RELU_SQUARED: Activation = Activation::ReluSquared;
const LEAKY: Activation = Activation::LeakyRelu { slope: 0.2 };

/// The number of laws of each kind: about neurons, about spaces of neurons, and about biases.
fn count(laws: &[Law]) -> [usize; 3] {
    let of = |kind| laws.iter().filter(|law| law.symmetry == kind).count();
    let kinds = [Symmetry::Rescaling, Symmetry::Linear, Symmetry::Translation].map(of);
    assert_eq!(
        laws.len(),
        kinds.iter().sum::<usize>(),
        "no other kind is listed"
    );
    kinds
}

/// A law for every head of every hidden layer, one more where the space of its neurons may be mixed, and one
/// for the three biases of every layer of GATv2 with separate weights (per head, if heads are averaged).
fn expected(config: &GraphNetConfig) -> [usize; 3] {
    let attention = config.conv.attention();
    let heads = attention.map_or(1, |a| a.heads);
    let neurons = (config.layers - 1) * heads;
    let linear = matches!(config.conv, Conv::Gcn(_) | Conv::Gat(_)) && config.dropout == 0.0;
    let mixed = linear && config.activation == Activation::Identity;
    let biases = match config.conv {
        Conv::Gatv2(options)
            if !options.shared
                && options.attention.bias
                && options.attention.dropout == 0.0
                && config.self_loops =>
        {
            config.layers - 1 + config.last.heads()
        }
        _ => 0,
    };
    [neurons, if mixed { neurons } else { 0 }, biases]
}

/// Returns the laws that hold by 0 = 0, in either type.
fn check_mlp(
    widths: &[usize],
    activation: Activation,
    bias: bool,
    problem: &Problem,
    seed: u64,
) -> Vec<String> {
    let net: Mlp<f64> = mlp(widths, activation, bias, seed);
    let hidden = widths.len() - 2;
    let spaces = if activation == Activation::Identity {
        hidden
    } else {
        0
    };
    assert_eq!(count(&net.laws()), [hidden, spaces, 0]);
    let empty = holds_or_is_empty(&net.laws(), &net, problem);
    let net: Mlp<f32> = mlp(widths, activation, bias, seed);
    [empty, holds_or_is_empty(&net.laws(), &net, problem)].concat()
}

/// Returns the laws that hold by 0 = 0, in either type.
fn check_graph_net(config: GraphNetConfig, problem: &Problem, seed: u64) -> Vec<String> {
    let config = GraphNetConfig {
        inputs: problem.inputs,
        ..config
    };
    let net = graph_net::<f64>(config, seed);
    assert_eq!(count(&net.laws()), expected(&config));
    let empty = holds_or_is_empty(&net.laws(), &net, problem);
    let net = graph_net::<f32>(config, seed);
    [empty, holds_or_is_empty(&net.laws(), &net, problem)].concat()
}

proptest! {
    #![proptest_config(proptest_cases(300))]

    /// C1, and C2 where σ is the identity.
    #[test]
    fn of_perceptrons(
        (problem, hidden, classes) in (problems(), vec(1_usize..7, 1..5), 2_usize..5),
        (activation, bias, seed) in (homogeneous(), any::<bool>(), any::<u64>()),
    ) {
        let widths = [&[problem.inputs], &hidden[..], &[classes]].concat();
        prop_assume!(check_mlp(&widths, activation, bias, &problem, seed).is_empty());
    }

    /// C1k: with ReLU² the outgoing weights of a neuron count twice. Three layers at most: the outputs grow
    /// like the power 2^(L − 1) of the features.
    #[test]
    fn of_perceptrons_with_an_activation_of_degree_two(
        (problem, hidden, classes) in (problems(), vec(1_usize..7, 1..3), 2_usize..5),
        (bias, seed) in (any::<bool>(), any::<u64>()),
    ) {
        let widths = [&[problem.inputs], &hidden[..], &[classes]].concat();
        prop_assume!(check_mlp(&widths, RELU_SQUARED, bias, &problem, seed).is_empty());
    }

    /// C1 for GCN, C3 for GATv2 with shared weights, C4 for GAT, C5 for separate weights, C6 for heads side
    /// by side, C7 for biases, and the terms of a residual x Vᵀ.
    #[test]
    fn of_graph_networks((problem, config, seed) in (problems(), homogeneous_graph_nets(), any::<u64>())) {
        prop_assume!(check_graph_net(config, &problem, seed).is_empty());
    }

    /// C1k for all kinds of layers.
    #[test]
    fn of_graph_networks_with_an_activation_of_degree_two(
        (problem, config, seed, layers) in (problems(), homogeneous_graph_nets(), any::<u64>(), 2_usize..4),
    ) {
        let config = GraphNetConfig { activation: RELU_SQUARED, layers, ..config };
        prop_assume!(check_graph_net(config, &problem, seed).is_empty());
    }

    /// A mask is one more function of single neurons, and of the coefficients of a head as a whole.
    #[test]
    fn in_training_passes_with_dropout(
        (problem, config, seed) in (problems(), homogeneous_graph_nets(), any::<u64>()),
        (dropout, attention_dropout) in (prop::sample::select(vec![0.0, 0.3]), 0.1..0.6),
    ) {
        let config = GraphNetConfig { dropout, ..config }.attending(|a| a.dropout = attention_dropout);
        prop_assume!(check_graph_net(config, &problem, seed).is_empty());
    }

    /// C20.
    #[test]
    fn of_outputs_that_a_loss_sees_only_up_to_a_shift(
        (problem, config, seed, masked) in (problems(), homogeneous_graph_nets(), any::<u64>(), any::<bool>()),
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
        // With separate weights GATv2 may move both of its maps by the same number.
        let sums = laws.iter().filter(|law| law.name.ends_with(", sum")).count();
        prop_assert!(sums == 0 || matches!(config.last, Conv::Gatv2(_)));
        prop_assert_eq!(laws.len() - sums, usize::from(affine) + usize::from(bias));
        prop_assert!(laws.iter().all(|l| l.symmetry == Symmetry::Translation && l.layer == config.layers));
        prop_assume!(holds_or_is_empty(&laws, &net, &problem).is_empty());
        prop_assume!(holds_or_is_empty(&laws, &graph_net::<f32>(config, seed), &problem).is_empty());
    }
}

/// As deep as those of the paper, without biases as there. With ReLU and this width half of the draws are
/// dead at 80 layers, and then every law says 0 = 0; with LeakyReLU a neuron is never dead.
#[test]
#[ignore = "takes seconds: cargo test -- --include-ignored"]
fn of_many_layers() {
    for conv in CONVS {
        for (layers, heads) in [(20, 2), (40, 1), (80, 1)] {
            for seed in cases(4) {
                let problem = example(4, Loss::CrossEntropy, seed);
                let config = GraphNetConfig {
                    layers,
                    hidden: 6,
                    dropout: 0.0,
                    activation: LEAKY,
                    ..GraphNetConfig::gcn(4, 3)
                }
                .of(conv)
                .heads(heads, 1)
                .biased(false);
                let empty = check_graph_net(config, &problem, seed);
                assert!(empty.is_empty(), "by 0 = 0 alone: {empty:?}");
                let net = graph_net::<f64>(config, seed);
                let double = alive(&net.laws(), &net, &problem);
                let net = graph_net::<f32>(config, seed);
                let share = double.min(alive(&net.laws(), &net, &problem));
                let what = format!("{layers} layers, {conv:?}, seed {seed}");
                assert!(share > 0.9, "{what}: {share} of the neurons are alive");
            }
        }
    }
}
