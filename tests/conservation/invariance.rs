//! The symmetry itself, without gradients: the loss is the same after a large move of the
//! parameters.

use crate::handmade::{Gram, Normed};
use crate::support::*;
use emmy::nn::{Activation, Conv, GraphNetConfig, Module, Traced};
use emmy::symmetry::Law;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

/// e^t from 10⁻² to 10².
const FAR: f64 = 4.605;

/// A few moves, each along any entry of any law.
fn moves() -> impl Strategy<Value = Vec<(Index, Index, f64)>> {
    vec((any::<Index>(), any::<Index>(), -FAR..FAR), 1..4)
}

#[track_caller]
fn moved(
    laws: &[Law],
    net: &mut impl Network<f64>,
    problem: &Problem,
    moves: &[(Index, Index, f64)],
) {
    if laws.is_empty() {
        return;
    }
    let choose = |&(law, entry, t): &(Index, Index, f64)| {
        let law = law.get(laws);
        (law, entry.index(law.entries()), t)
    };
    let moves: Vec<_> = moves.iter().map(choose).collect();
    stays(net, problem, &moves);
    // The laws also hold at the new point, up to rounding errors of parameters of which some are
    // ten thousand times as large as others.
    let (_, gradients) = point(net, problem);
    assert!(worst(laws, net, &gradients) <= 1e-6);
}

proptest! {
    #![proptest_config(proptest_cases(300))]

    #[test]
    fn of_graph_networks(
        (problem, config, seed, moves) in (problems(), homogeneous_graph_nets(), any::<u64>(), moves()),
        dropout in prop::sample::select(vec![0.0, 0.0, 0.3]),
    ) {
        let config = GraphNetConfig { inputs: problem.inputs, dropout, ..config }.attending(|a| a.dropout = dropout);
        let mut net = graph_net(config, seed);
        let mut laws = net.laws();
        if problem.loss.ignores_shifts() {
            laws.extend(net.softmax_laws());
        }
        moved(&laws, &mut net, &problem, &moves);
    }

    #[test]
    fn of_perceptrons(
        (problem, hidden, moves) in (problems(), vec(1_usize..7, 1..3), moves()),
        (activation, bias, seed) in (homogeneous(), any::<bool>(), any::<u64>()),
        squared in any::<bool>(),
    ) {
        let activation = if squared { Activation::ReluSquared } else { activation };
        let widths = [&[problem.inputs], &hidden[..], &[3]].concat();
        let mut net = mlp(&widths, activation, bias, seed);
        let mut laws = net.laws();
        if problem.loss.ignores_shifts() {
            laws.extend(net.softmax_laws());
        }
        moved(&laws, &mut net, &problem, &moves);
    }

    #[test]
    fn of_rotations_and_whole_matrices((moves, seed) in (moves(), 0_u64..1000)) {
        let problem = example(4, Loss::ALL[seed as usize % 5], seed);
        let mut net = Normed::new(4, 3, seed);
        let law = net.law();
        moved(&[law], &mut net, &problem, &moves);
        let mut net = Gram::new(4, 3, seed);
        // An entry on the diagonal is not a rotation.
        let law = net.law();
        for (k, &(_, _, t)) in moves.iter().enumerate() {
            stays(&mut net, &problem, &[(&law, [1, 2, 3, 5, 6, 7][(seed as usize + k) % 6], t)]);
        }
    }
}

#[test]
fn of_every_entry_as_far_as_a_hundredth_and_a_hundredfold() {
    for conv in CONVS {
        for activation in [Activation::Relu, Activation::Identity] {
            let config = GraphNetConfig {
                activation,
                layers: 3,
                hidden: 3,
                dropout: 0.0,
                ..GraphNetConfig::gcn(4, 3)
            }
            .of(conv)
            .heads(2, 2)
            .attending(|a| a.residual = true);
            let (net, problem) = (graph_net(config, 7), example(4, Loss::CrossEntropy, 8));
            for law in net.laws().iter().chain(&net.softmax_laws()) {
                for entry in 0..law.entries() {
                    for t in [-FAR, FAR] {
                        stays(&mut net.clone(), &problem, &[(law, entry, t)]);
                    }
                }
            }
        }
    }
}

/// E1: without the target weight of the next layer the neuron is no longer read as before.
#[test]
fn the_theorem_as_printed_changes_the_loss() {
    let config = GraphNetConfig {
        layers: 3,
        hidden: 4,
        dropout: 0.0,
        ..GraphNetConfig::gcn(4, 3)
    }
    .of(Conv::gatv2(false))
    .heads(2, 1);
    let mut changes = Vec::new();
    for seed in 0..10 {
        let problem = example(4, Loss::CrossEntropy, seed);
        let mut net = graph_net(config, seed);
        amplify(&mut net, 2.0);
        let (before, _) = point(&net, &problem);
        for law in of_neurons(&net) {
            let printed = printed(&net, &law);
            for entry in 0..law.entries() {
                let mut net = net.clone();
                printed.transform(&mut net.tensors_mut(), entry, 3.0_f64.ln());
                let (after, _) = point(&net, &problem);
                changes.push((after / before - 1.0).abs());
            }
        }
    }
    // Neurons that are never active are left out.
    changes.retain(|change| *change > 1e-12);
    assert!(changes.len() > 100);
    typically(changes, 1e-3, "a neuron scaled threefold");
}
