//! The distribution that every scheme draws, and its dependence on the seed.

use super::networks::*;
use emmy::init;
use emmy::init::{Initialization, WeightInit};
use emmy::nn::{Activation, Conv, Entry, GraphNetConfig, Module, Traced};

/// The standard deviation about 0 of all entries of parameters whose names have this ending.
fn deviation(model: &impl Module<f64>, ending: &str) -> f64 {
    let all = model.parameters();
    let found: Vec<f64> = (all.iter().filter(|p| p.name.ends_with(ending)))
        .flat_map(|p| p.tensor.iter().copied())
        .collect();
    (found.iter().map(|x| x * x).sum::<f64>() / found.len() as f64).sqrt()
}

#[test]
fn xavier_has_the_deviations_of_the_formulas() {
    // W [H·C, in] with H·C = 512 = in in all but the first layer, a read as [1, H, C].
    for (heads, hidden) in [(8, 64), (1, 512)] {
        let mut net = graph_net::<f64>(
            GraphNetConfig {
                inputs: 512,
                classes: 512,
                ..config(SHARED, 5, hidden, heads)
            }
            .heads(heads, 1),
        );
        Initialization::XAVIER.apply(&mut net, 0).unwrap();
        net.layers.pop();
        let w = deviation(&net, "source.weight") / (2.0_f64 / 1024.0).sqrt();
        assert!((w - 1.0).abs() < 0.01, "{w}");
        // 2048 draws: 1.6 % is a deviation of the deviation.
        let a = deviation(&net, "att") / (2.0 / (512 + hidden) as f64).sqrt();
        assert!((a - 1.0).abs() < 0.06, "{heads} heads: {a}");
    }
}

#[test]
fn weights_without_structure_have_the_deviation_of_their_rule() {
    let deviation = |base, activation| {
        let mut net = mlp::<f64>(&[300, 500, 2], activation, true);
        let scheme = Initialization {
            base,
            ..Initialization::XAVIER
        };
        scheme.apply(&mut net, 0).unwrap();
        deviation(&net, "layers.0.weight")
    };
    for (base, activation, variance) in [
        (WeightInit::XavierNormal, Activation::Relu, 2.0 / 800.0),
        (WeightInit::XavierUniform, Activation::Relu, 2.0 / 800.0),
        (WeightInit::KaimingNormal, Activation::Relu, 2.0 / 300.0),
        (WeightInit::KaimingNormal, Activation::Identity, 1.0 / 300.0),
        (
            WeightInit::KaimingNormal,
            Activation::LeakyRelu { slope: 0.5 },
            1.6 / 300.0,
        ),
    ] {
        let found = deviation(base, activation) / f64::sqrt(variance);
        assert!((found - 1.0).abs() < 0.01, "{base:?}: {found}");
    }
}

#[test]
fn attention_is_xavier_in_every_layer_or_zero() {
    for (name, scheme) in Initialization::NAMED {
        for conv in [Conv::GAT, SHARED, SEPARATE] {
            let mut net = graph_net::<f64>(config(conv, 3, 4, 2));
            scheme.apply(&mut net, 0).unwrap();
            for p in net.parameters() {
                if p.name.contains("att") {
                    let zero = p.tensor.iter().all(|&a| a == 0.0);
                    assert_eq!(zero, name != "xavier", "{name}, {}", p.name);
                }
            }
        }
    }
}

#[test]
fn biases_and_skip_connections_are_zero_and_weights_are_not() {
    for conv in [Conv::GAT, SHARED, SEPARATE] {
        let mut net = graph_net::<f64>(
            config(conv, 3, 4, 2)
                .attending(|a| a.residual = true)
                .biased(true),
        );
        for (_, scheme) in Initialization::NAMED {
            for p in net.tensors_mut() {
                *p = init::normal(p.shape(), 1.0, &mut init::rng(1));
            }
            scheme.apply(&mut net, 0).unwrap();
            for Entry { name, tensor, .. } in net.parameters() {
                let zero = tensor.iter().all(|&x| x == 0.0);
                let expected = name.ends_with("bias") || name.ends_with("residual");
                assert!(name.contains("att") || zero == expected, "{name}");
            }
        }
    }
}

#[test]
fn parameters_without_a_port_stay_as_they_are() {
    let mut net = Averaged::<f64>::new(&[4, 4, 4, 2], 2, true);
    let (unnamed, weights) = (net.unnamed.clone(), numbers(&net.layers));
    for (name, scheme) in Initialization::NAMED {
        scheme.apply(&mut net, 0).unwrap();
        assert_eq!(net.unnamed, unnamed, "{name}");
        assert_ne!(numbers(&net.layers), weights, "{name}");
    }
}

#[test]
fn the_seed_decides() {
    let start = |scheme: Initialization, seed| {
        let mut net = graph_net::<f64>(config(SEPARATE, 3, 5, 2));
        // The earlier values do not matter.
        for p in net.tensors_mut() {
            *p = init::normal(p.shape(), 1.0, &mut init::rng(seed + 10));
        }
        scheme.apply(&mut net, seed).unwrap();
        numbers(&net)
    };
    for (name, scheme) in Initialization::NAMED {
        let mut single = graph_net::<f32>(config(SEPARATE, 3, 5, 2));
        scheme.apply(&mut single, 1).unwrap();
        let double = start(scheme, 1);
        approx::assert_relative_eq!(double[..], numbers(&single)[..], epsilon = 1e-6);
        assert_eq!(double, start(scheme, 1), "{name}");
        assert_ne!(double, start(scheme, 2), "{name}");
    }
}

#[test]
fn source_and_target_are_drawn_independently() {
    let mut net = graph_net::<f64>(config(SEPARATE, 3, 4, 2));
    for scheme in [Initialization::XAVIER, Initialization::LL_ORTHO] {
        scheme.apply(&mut net, 0).unwrap();
        for l in 0..3 {
            let weight = |side: &str| matrix(&net, &format!("layers.{l}.{side}.weight"));
            let (s, t) = (weight("source"), weight("target"));
            assert!(
                s.iter()
                    .zip(&t)
                    .all(|(s, t)| (s.abs() - t.abs()).abs() > 1e-9)
            );
        }
    }
}

#[test]
fn a_network_of_one_layer_has_neither_pairs_nor_balance() {
    for (name, scheme) in Initialization::NAMED {
        let mut net = mlp::<f64>(&[4, 4], Activation::Relu, true);
        scheme.apply(&mut net, 0).unwrap();
        let w = matrix(&net, "layers.0.weight");
        assert!(w.iter().all(|&x| x != 0.0), "{name}: {w}");
        assert_ne!(w.row(0), -&w.row(2), "{name}");
    }
}

#[test]
fn names_are_read_and_written() {
    for (name, scheme) in Initialization::NAMED {
        assert_eq!(name.parse::<Initialization>().unwrap(), scheme);
        assert_eq!(scheme.name(), Some(name));
        let json = serde_json::to_string(&scheme).unwrap();
        assert_eq!(
            serde_json::from_str::<Initialization>(&json).unwrap(),
            scheme
        );
    }
    let synonym: Initialization = "ll-ortho-bal".parse().unwrap();
    assert_eq!(synonym, Initialization::BAL_O);
    let unnamed = Initialization {
        base: WeightInit::XavierUniform,
        ..Initialization::XAVIER
    };
    assert_eq!(unnamed.name(), None);
    assert!(mlp::<f64>(&[2, 2, 2], Activation::Relu, true).laws().len() == 1);
}
