//! If a law does not hold, δ is as large as its terms: the negative rows, and the theorem that is printed
//! without a term.

use crate::support::*;
use emmy::nn::{Activation, Conv, GraphNet, GraphNetConfig, Layer, Mlp, Params, Traced};
use emmy::symmetry::{Law, Side, Symmetry, Term};

const NOT_HOMOGENEOUS: [Activation; 6] = [
    Activation::Elu,
    Activation::Gelu,
    Activation::Silu,
    Activation::Softplus,
    Activation::Tanh,
    Activation::Sigmoid,
];

fn config(conv: Conv, activation: Activation) -> GraphNetConfig {
    GraphNetConfig {
        hidden: 3,
        classes: 3,
        layers: 3,
        dropout: 0.0,
        activation,
        ..GraphNetConfig::gcn(4, 3)
    }
    .of(conv)
    .heads(2, 2)
    .biased(true)
}

/// The factor of the parameters in these tests, so that activations and scores are far from linear.
const LOUD: f64 = 1.5;

/// The laws that the network would have with another activation.
fn laws_with(net: &GraphNet<f64>, activation: Activation) -> Vec<Law> {
    let mut net = net.clone();
    net.config.activation = activation;
    of_neurons(&net)
}

/// The relative δ of laws on ten networks of a configuration, the laws made from each.
fn over_networks(
    config: GraphNetConfig,
    loss: Loss,
    laws: impl Fn(&GraphNet<f64>) -> Vec<Law>,
) -> Vec<f64> {
    let mut found = Vec::new();
    for seed in 0..10 {
        let mut net = graph_net(config, seed);
        amplify(&mut net, LOUD);
        found.extend(spread(&laws(&net), &net, &example(4, loss, seed)));
    }
    found
}

/// The same terms as a law about the whole space of neurons.
fn linear(law: &Law) -> Law {
    Law::new("space", law.layer, Symmetry::Linear, law.terms.clone())
}

#[test]
fn neurons_behind_an_activation_that_is_not_homogeneous() {
    for activation in NOT_HOMOGENEOUS {
        for conv in CONVS {
            // Without biases, which push neurons to where ELU is the identity.
            let config = GraphNetConfig {
                layers: 2,
                ..config(conv, activation)
            }
            .biased(false);
            let found = over_networks(config, Loss::CrossEntropy, |net| {
                assert!(net.laws().is_empty(), "{activation:?} has no laws to list");
                laws_with(net, Activation::Relu)
            });
            typically(found, 5e-3, &format!("{activation:?}, {conv:?}"));
        }
        let mut found = Vec::new();
        for seed in 0..10 {
            let mut net: Mlp<f64> = mlp(&[4, 5, 5, 3], activation, false, seed);
            amplify(&mut net, LOUD);
            assert!(net.laws().is_empty());
            net.activation = Activation::Relu;
            let laws = net.laws();
            net.activation = activation;
            found.extend(spread(&laws, &net, &example(4, Loss::Tasks, seed)));
        }
        typically(found, 0.01, &format!("{activation:?}, perceptron"));
    }
}

#[test]
fn softmax_laws_hold_whatever_the_activation_and_for_no_other_loss() {
    for loss in Loss::ALL {
        for activation in [Activation::Elu, Activation::Relu] {
            let config = config(Conv::GCN, activation);
            let found = over_networks(config, loss, |net| net.softmax_laws());
            if loss.ignores_shifts() {
                assert!(found.iter().all(|d| *d < 1e-10), "{loss:?}: {found:?}");
            } else {
                typically(found, 0.1, &format!("{loss:?}"));
            }
        }
    }
}

/// Theorem 6.3 of "Are GATs Out of Balance?", Eq. (18), has on its right W_s of the next layer only; but W_t
/// reads the same neuron.
#[test]
fn separate_weights_with_the_theorem_as_printed() {
    for activation in [Activation::Relu, Activation::LeakyRelu { slope: 0.2 }] {
        for loss in Loss::ALL {
            let config = GraphNetConfig {
                layers: 2,
                ..config(Conv::gatv2(false), activation)
            }
            .biased(false);
            let printed = over_networks(config, loss, |net| {
                of_neurons(net)
                    .iter()
                    .map(|law| printed(net, law))
                    .collect()
            });
            typically(printed, 5e-3, "Eq. (18)");
            let corrected = over_networks(config, loss, |net| net.laws());
            assert!(corrected.iter().all(|d| *d < 1e-10), "{corrected:?}");
        }
    }
}

#[test]
fn the_wrong_degree() {
    for conv in CONVS {
        for (real, other) in [
            (Activation::ReluSquared, Activation::Relu),
            (Activation::Relu, Activation::ReluSquared),
        ] {
            let config = GraphNetConfig {
                layers: 2,
                ..config(conv, real)
            };
            let found = over_networks(config, Loss::Smooth, |net| laws_with(net, other));
            typically(found, 0.03, &format!("{real:?} as {other:?}, {conv:?}"));
        }
    }
}

/// Attention entries on the wrong side.
#[test]
fn attention_added() {
    for conv in &CONVS[1..] {
        let added = |term: &Term| match term.side {
            Side::Attention => term.clone().times(-1.0),
            Side::Incoming | Side::Outgoing => term.clone(),
        };
        let found = over_networks(config(*conv, Activation::Relu), Loss::Smooth, |net| {
            let laws = of_neurons(net).into_iter();
            laws.map(|law| Law {
                terms: law.terms.iter().map(added).collect(),
                ..law
            })
            .collect()
        });
        typically(found, 0.01, &format!("{conv:?}"));
    }
}

/// C2 holds if no operation acts on single neurons: not with ReLU, not in the scores of GATv2, not with
/// neurons dropped, not across heads.
#[test]
fn spaces_of_neurons_that_an_operation_treats_one_by_one() {
    let spaces = |net: &GraphNet<f64>| net.laws().iter().map(linear).collect::<Vec<_>>();
    let gatv2 = Conv::gatv2(true);
    for (name, config) in [
        ("ReLU", config(Conv::GCN, Activation::Relu)),
        ("scores", config(gatv2, Activation::Identity)),
        (
            "dropout",
            GraphNetConfig {
                dropout: 0.5,
                ..config(Conv::GCN, Activation::Identity)
            },
        ),
    ] {
        let found = over_networks(config, Loss::Smooth, |net| {
            let none = net.laws().iter().all(|l| l.symmetry != Symmetry::Linear);
            assert!(none, "{name}: no law of spaces is listed");
            spaces(net)
        });
        typically(found, 0.01, name);
    }
    let found = over_networks(
        config(Conv::GAT, Activation::Identity),
        Loss::Smooth,
        |net| {
            let params = Params::of(net);
            let ports = [0, 1].map(|l| net.layers[l].ports(&params).expect("a graph layer"));
            let terms = [&ports[0].writers[..], &ports[1].readers[0].terms].concat();
            vec![Law::new("both heads", 1, Symmetry::Linear, terms)]
        },
    );
    // Within a head it holds: 12 of the 30 entries off the diagonal.
    let across: Vec<f64> = found.into_iter().filter(|d| *d > 1e-10).collect();
    assert!(across.len() > 150);
    typically(across, 0.01, "across heads");
}

/// A neuron of the next head: the laws are not about any two rows and columns.
#[test]
fn heads_read_by_the_columns_of_another() {
    for conv in &CONVS[1..] {
        let found = over_networks(config(*conv, Activation::Relu), Loss::Smooth, |net| {
            let (first, second) = (net.laws().remove(0), net.laws().remove(1));
            let crossed = first.terms.iter().zip(&second.terms);
            let crossed = crossed.map(|(a, b)| match a.side {
                Side::Incoming | Side::Attention => a,
                Side::Outgoing => b,
            });
            let terms = crossed.cloned().collect();
            vec![Law::new("crossed", 1, Symmetry::Rescaling, terms)]
        });
        typically(found, 0.1, &format!("{conv:?}"));
    }
}
