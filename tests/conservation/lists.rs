//! The laws that networks list, and their formulas.

use crate::support::*;
use emmy::nn::{Activation, Conv, GraphNet, GraphNetConfig, Module, Traced};
use emmy::symmetry::Law;

fn config(conv: Conv) -> GraphNetConfig {
    GraphNetConfig {
        hidden: 3,
        classes: 2,
        layers: 3,
        dropout: 0.0,
        ..GraphNetConfig::gcn(4, 2)
    }
    .of(conv)
    .heads(2, 2)
    .attending(|a| a.residual = true)
    .biased(true)
}

fn names(laws: &[Law]) -> Vec<&str> {
    laws.iter().map(|law| law.name.as_str()).collect()
}

/// The first law of a network as a formula, with `layers.0` written 0 and so on.
fn formula(net: &GraphNet<f64>, law: &Law) -> String {
    let names = net.parameters().into_iter().map(|p| p.name);
    let names: Vec<String> = names.map(|n| n.replace("layers.", "")).collect();
    law.formula(&names)
}

#[test]
fn a_law_names_all_that_flows_in_and_out() {
    let (shared, separate) = (Conv::gatv2(true), Conv::gatv2(false));
    for (conv, expected) in [
        (
            Conv::GCN,
            "⟨0.weight[j,:], G⟩ + ⟨0.bias[j], G⟩ − ⟨1.weight[:,j], G⟩ = 0",
        ),
        (
            Conv::GAT,
            "⟨0.weight[j,:], G⟩ + ⟨0.residual[j,:], G⟩ + ⟨0.bias[j], G⟩ − ⟨0.att_source[j], G⟩ − ⟨0.att_target[j], G⟩ \
             − ⟨1.weight[:,j], G⟩ − ⟨1.residual[:,j], G⟩ = 0",
        ),
        (
            shared,
            "⟨0.source.weight[j,:], G⟩ + ⟨0.source.bias[j], G⟩ + ⟨0.residual[j,:], G⟩ + ⟨0.bias[j], G⟩ − ⟨0.att[j], G⟩ \
             − ⟨1.source.weight[:,j], G⟩ − ⟨1.residual[:,j], G⟩ = 0",
        ),
        (
            separate,
            "⟨0.source.weight[j,:], G⟩ + ⟨0.target.weight[j,:], G⟩ + ⟨0.source.bias[j], G⟩ + ⟨0.target.bias[j], G⟩ \
             + ⟨0.residual[j,:], G⟩ + ⟨0.bias[j], G⟩ − ⟨0.att[j], G⟩ \
             − ⟨1.source.weight[:,j], G⟩ − ⟨1.target.weight[:,j], G⟩ − ⟨1.residual[:,j], G⟩ = 0",
        ),
    ] {
        let net = graph_net(config(conv), 1);
        assert_eq!(formula(&net, &net.laws()[0]), expected);
    }
}

#[test]
fn behind_an_activation_of_degree_two_readers_count_twice() {
    let activation = Activation::ReluSquared;
    let net = graph_net(
        GraphNetConfig {
            activation,
            ..config(Conv::GCN)
        },
        1,
    );
    let expected = "⟨0.weight[j,:], G⟩ + ⟨0.bias[j], G⟩ − 2 ⟨1.weight[:,j], G⟩ = 0";
    assert_eq!(formula(&net, &net.laws()[0]), expected);
}

#[test]
fn a_law_has_layer_and_head_in_its_name() {
    let gcn = graph_net::<f64>(config(Conv::GCN), 1);
    assert_eq!(names(&gcn.laws()), ["layer 1, neurons", "layer 2, neurons"]);
    let activation = Activation::Identity;
    let gat = graph_net::<f64>(
        GraphNetConfig {
            activation,
            ..config(Conv::GAT)
        },
        1,
    );
    let laws = gat.laws();
    let mut expected = Vec::new();
    for layer in [1, 2] {
        for head in [1, 2] {
            expected.push(format!("layer {layer}, head {head}, neurons"));
            expected.push(format!("layer {layer}, head {head}, space of neurons"));
        }
    }
    assert_eq!(names(&laws), expected);
    // Head 2 of a layer is its neurons 3, 4, 5: in its own rows, and in the columns that read it.
    for (law, range) in [(&laws[0], 0..3), (&laws[2], 3..6), (&laws[6], 3..6)] {
        assert!(law.terms.iter().all(|t| t.slice.range == range));
        assert_eq!(law.neurons(), 3);
    }
    assert_eq!((laws[0].entries(), laws[1].entries()), (3, 9));
    let layers: Vec<usize> = laws.iter().map(|law| law.layer).collect();
    assert_eq!(layers, [1, 1, 1, 1, 2, 2, 2, 2]);
}

#[test]
fn softmax_laws_are_about_the_last_layer() {
    let gcn = graph_net(config(Conv::GCN), 1);
    let laws = gcn.softmax_laws();
    let expected = [
        "layer 3, sum over classes, 1",
        "layer 3, sum over classes, 2",
    ];
    assert_eq!(names(&laws), expected);
    assert_eq!(formula(&gcn, &laws[0]), "Σ G of 2.weight[:,j] = 0");
    assert_eq!(formula(&gcn, &laws[1]), "Σ G of 2.bias = 0");
    // Attention scores depend on the weight, too, so only the residual and the bias have this law.
    let gat = graph_net(config(Conv::GAT), 1);
    let laws = gat.softmax_laws();
    assert_eq!(formula(&gat, &laws[0]), "Σ G of 2.residual[:,j] = 0");
    assert_eq!(formula(&gat, &laws[1]), "Σ G of 2.bias = 0");
    let bare = config(Conv::GAT).attending(|a| a.residual = false);
    let bare = graph_net::<f64>(bare, 1);
    assert_eq!(names(&bare.softmax_laws()), ["layer 3, sum over classes"]);
}

#[test]
fn one_layer_has_no_hidden_neurons() {
    let config = GraphNetConfig {
        layers: 1,
        ..config(Conv::GAT)
    };
    let net = graph_net::<f64>(config, 1);
    assert!(net.laws().is_empty());
    assert_eq!(net.softmax_laws().len(), 2);
}

/// Every term of every law moves δ by a visible part of its size, on one network of eight at least:
/// no term is superfluous, and a test of the law notices each term. (On one it may not matter: the
/// target's half of a score of GAT cancels unless the scores of its neighbours differ in sign.)
#[test]
fn no_term_can_be_left_out() {
    for conv in CONVS {
        for activation in [Activation::Relu, Activation::Identity] {
            let config = GraphNetConfig {
                activation,
                ..config(conv)
            };
            let mut found: Vec<Vec<f64>> = Vec::new();
            for seed in 0..8 {
                let net = graph_net::<f64>(config, seed);
                let problem = example(4, Loss::Tasks, seed);
                holds(&net.laws(), &net, &problem);
                let (_, gradients) = point(&net, &problem);
                let less = |law: &Law, k: usize| {
                    let mut less = law.clone();
                    less.terms.remove(k);
                    measure(&less, &net, &gradients).worst()
                };
                for (i, law) in net.laws().iter().enumerate() {
                    // A reference adds nothing to δ.
                    let counts = |&k: &usize| law.terms[k].weight != 0.0;
                    let each = (0..law.terms.len()).filter(counts);
                    let each: Vec<f64> = each.map(|k| less(law, k)).collect();
                    match found.get_mut(i) {
                        Some(most) => most.iter_mut().zip(each).for_each(|(m, x)| *m = m.max(x)),
                        None => found.push(each),
                    }
                }
            }
            let least = found.iter().flatten().fold(f64::INFINITY, |m, &x| m.min(x));
            assert!(least > 1e-2, "{conv:?}, {activation:?}: {found:?}");
        }
    }
}
