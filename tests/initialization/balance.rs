//! Balanced schemes: c = 0, whatever the network.

use super::networks::*;
use crate::cases::proptest_cases;
use emmy::Real;
use emmy::init::{AttentionInit, Balancing, Beta, Initialization, Order, TargetInit, WeightInit};
use emmy::nn::{Activation, Conv, GraphNetConfig, Traced};
use proptest::prelude::*;

/// The random parts of one case.
#[derive(Debug, Clone)]
enum Model {
    Mlp {
        hidden: Vec<usize>,
        activation: Activation,
        bias: bool,
    },
    Graph(GraphNetConfig),
    Averaged {
        hidden: Vec<usize>,
        heads: usize,
        shared: bool,
    },
}

fn activations() -> impl Strategy<Value = Activation> {
    prop::sample::select(vec![
        Activation::Relu,
        Activation::Identity,
        Activation::LeakyRelu { slope: 0.3 },
        Activation::ReluSquared,
    ])
}

fn models() -> impl Strategy<Value = Model> {
    let hidden = || prop::collection::vec(1..=7_usize, 1..=5);
    let mlp = (hidden(), activations(), any::<bool>());
    let conv = prop::sample::select(vec![Conv::GCN, Conv::GAT, SHARED, SEPARATE]);
    let sizes = (2..=6_usize, 1..=7_usize, 1..=3_usize, 1..=3_usize);
    let graph = (conv, sizes, activations(), any::<(bool, bool)>());
    prop_oneof![
        1 => mlp.prop_map(|(hidden, activation, bias)| Model::Mlp { hidden, activation, bias }),
        4 => graph.prop_map(|(conv, (layers, width, heads, output_heads), activation, (bias, residual))| {
            Model::Graph(GraphNetConfig { activation, ..config(conv, layers, width, heads) }.heads(heads, output_heads).attending(|a| a.residual = residual).biased(bias))
        }),
        1 => (hidden(), 1..=3_usize, any::<bool>())
            .prop_map(|(hidden, heads, shared)| Model::Averaged { hidden, heads, shared }),
    ]
}

fn balancings() -> impl Strategy<Value = Balancing> {
    let beta = prop_oneof![
        (0.1..4.0).prop_map(Beta::Constant),
        (0.1..1.0, 1.0..4.0).prop_map(|(low, high)| Beta::Uniform { low, high }),
        (-1.0..3.0, 0.1..1.0).prop_map(|(mean, std)| Beta::Normal { mean, std }),
    ];
    let order = prop::sample::select(vec![Order::LeftToRight, Order::RightToLeft]);
    let ratio = prop_oneof![Just(1.0), 0.05..1.0];
    (beta, ratio, order).prop_map(|(beta, ratio, order)| Balancing { beta, ratio, order })
}

fn schemes() -> impl Strategy<Value = Initialization> {
    let base = prop::sample::select(vec![
        WeightInit::XavierNormal,
        WeightInit::XavierUniform,
        WeightInit::KaimingNormal,
        WeightInit::LooksLinearOrthogonal,
        WeightInit::LooksLinearXavier,
        WeightInit::Identity,
        WeightInit::LooksLinearIdentity,
    ]);
    let attention = prop::sample::select(vec![AttentionInit::Xavier, AttentionInit::Zero]);
    let target = prop::sample::select(vec![TargetInit::Balanced, TargetInit::Zero]);
    (base, attention, balancings(), target).prop_map(|(base, attention, balancing, target)| {
        Initialization {
            base,
            attention,
            balance: Some(balancing),
            target,
        }
    })
}

/// The largest relative c of an initialised model.
fn initialised<F: Real>(model: &Model, scheme: &Initialization, seed: u64) -> f64 {
    fn worst<F: Real>(mut model: impl Traced<F>, scheme: &Initialization, seed: u64) -> f64 {
        scheme.apply(&mut model, seed).unwrap();
        assert!(!model.laws().is_empty());
        worst_balance(&model)
    }
    let widths = |hidden: &[usize]| {
        let mut hidden = hidden.to_vec();
        if let WeightInit::Identity | WeightInit::LooksLinearIdentity = scheme.base {
            // Between different widths an identity has rows or columns of zeros, which no factor can balance.
            let first = hidden[0];
            hidden.fill(first);
        }
        [&[INPUTS], &hidden[..], &[CLASSES]].concat()
    };
    match model {
        Model::Mlp {
            hidden,
            activation,
            bias,
        } => worst(mlp::<F>(&widths(hidden), *activation, *bias), scheme, seed),
        Model::Graph(config) => worst(graph_net::<F>(*config), scheme, seed),
        Model::Averaged {
            hidden,
            heads,
            shared,
        } => worst(
            Averaged::<F>::new(&widths(hidden), *heads, *shared),
            scheme,
            seed,
        ),
    }
}

proptest! {
    #![proptest_config(proptest_cases(512))]

    #[test]
    fn every_neuron_is_balanced(model in models(), scheme in schemes(), seed in any::<u64>()) {
        let found = initialised::<f64>(&model, &scheme, seed);
        prop_assert!(found < 1e-12, "f64: {found}");
        let found = initialised::<f32>(&model, &scheme, seed);
        prop_assert!(found < 1e-5, "f32: {found}");
    }
}

#[test]
fn named_schemes_are_balanced_if_they_say_so() {
    for conv in [Conv::GCN, Conv::GAT, SHARED, SEPARATE] {
        for (name, scheme) in Initialization::NAMED {
            let mut net = graph_net::<f64>(config(conv, 4, 5, 2));
            scheme.apply(&mut net, 1).unwrap();
            let worst = worst_balance(&net);
            if scheme.balance.is_some() {
                assert!(worst < 1e-12, "{name}, {conv:?}: {worst}");
            } else {
                assert!(worst > 1e-2, "{name}, {conv:?}: {worst}");
            }
        }
    }
}
