//! The conservation laws of ωGAT: those of attention; ω occurs in none.

use super::networks::*;
use emmy::graph::generators::random_graph;
use emmy::init;
use emmy::init::Initialization;
use emmy::nn::{Activation, Conv, GraphNet, GraphNetConfig, Module, Pass, Traced};
use emmy::symmetry::{Law, Term};
use emmy::{Real, Tape, Tensor};
use papers::layers::Omega;
use proptest::prelude::*;

/// A network, its data and its parameters.
#[derive(Debug, Clone)]
struct Case {
    config: GraphNetConfig,
    nodes: usize,
    edges: usize,
    seed: u64,
}

fn cases() -> impl Strategy<Value = Case> {
    let shape = (2..5usize, 1..5usize, 1..4usize, 1..4usize);
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    let kind = (0..CONVS.len(), 0..OMEGAS.len(), 0..3usize);
    let data = (2..16usize, 0.0..1.0f64, any::<u32>());
    (shape, flags, kind, data).prop_map(
        |((layers, hidden, heads, output_heads), (bias, residual, self_loops), kind, data)| {
            let (conv, omega, activation) = kind;
            let (nodes, density, seed) = data;
            let config = GraphNetConfig {
                activation: [
                    Activation::Relu,
                    Activation::LeakyRelu { slope: 0.1 },
                    Activation::Identity,
                ][activation],
                hidden,
                layers,
                self_loops,
                dropout: 0.0,
                ..GraphNetConfig::gcn(INPUTS, CLASSES)
            }
            .of(CONVS[conv])
            .heads(heads, output_heads)
            .attending(|a| a.residual = residual)
            .biased(bias);
            Case {
                config: OMEGAS[omega].of(config).unwrap(),
                nodes,
                edges: (density * (nodes * (nodes - 1) / 2) as f64) as usize,
                seed: seed.into(),
            }
        },
    )
}

impl Case {
    fn network<F: Real>(&self) -> GraphNet<F> {
        let mut net = GraphNet::new(self.config, self.seed).unwrap();
        unsettle(&mut net, self.seed + 1);
        net
    }

    /// The loss at the network's parameters, and its gradient.
    fn loss<F: Real>(&self, net: &GraphNet<F>) -> (f64, Vec<Tensor<F>>) {
        let graph = random_graph(self.nodes, self.edges, self.seed);
        let labels: Vec<usize> = (0..self.nodes).map(|i| i % CLASSES).collect();
        let x = init::normal(&[self.nodes, INPUTS], 1.0, &mut init::rng(self.seed));
        let tape = Tape::new();
        let pass = Pass::train(&tape, net, 0);
        let loss = net
            .forward(&pass, tape.constant(x), &self.config.neighbourhood(&graph))
            .cross_entropy(&labels, None);
        let value = loss.value().sum().as_f64();
        (value, pass.gradients(loss))
    }

    /// The laws, and the largest relative δ of each.
    fn measured<F: Real>(&self) -> Vec<(Law, f64)> {
        let net = self.network::<F>();
        let (_, gradients) = self.loss(&net);
        let laws = net.laws();
        let all: Vec<_> = laws
            .iter()
            .map(|law| law.measure(&net.tensors(), &gradients))
            .collect();
        // Numbers below the rounding error of the largest terms cannot be distinguished from it.
        let sizes = all.iter().flat_map(|m| &m.size);
        let tolerance = if F::NAME == "f64" { 1e-10 } else { 1e-3 };
        let floor = F::epsilon().as_f64() / tolerance * sizes.fold(0.0, |m: f64, &x| m.max(x));
        let worst = all.iter().map(|m| m.worst_above(floor));
        laws.iter().cloned().zip(worst).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_laws_of_attention_hold(case in cases()) {
        for (law, worst) in case.measured::<f64>() {
            prop_assert!(worst < 1e-10, "{}: {worst}", law.name);
        }
        for (law, worst) in case.measured::<f32>() {
            prop_assert!(worst < 1e-3, "{} in f32: {worst}", law.name);
        }
    }

    #[test]
    fn moves_along_the_laws_do_not_change_the_loss(case in cases(), entry in any::<prop::sample::Index>(), t in -2.0..2.0f64) {
        let net = case.network::<f64>();
        let (loss, _) = case.loss(&net);
        for law in net.laws() {
            let mut moved = net.clone();
            law.transform(&mut moved.tensors_mut(), entry.index(law.entries()), t);
            let (found, _) = case.loss(&moved);
            prop_assert!((found - loss).abs() < 1e-9 * loss.abs().max(1.0), "{}: {found} for {loss}", law.name);
        }
    }
}

/// A network of two layers with two heads each.
fn plain(conv: Conv) -> GraphNetConfig {
    GraphNetConfig {
        hidden: 4,
        dropout: 0.0,
        ..GraphNetConfig::gcn(INPUTS, CLASSES)
    }
    .of(conv)
    .heads(2, 1)
}

/// The same with ω, on a graph with enough edges that every ω matters.
fn plain_case(conv: Conv, omega: Omega) -> Case {
    Case {
        config: omega.of(plain(conv)).unwrap(),
        nodes: 12,
        edges: 30,
        seed: 7,
    }
}

#[test]
fn every_head_has_its_law_and_omega_is_in_none() {
    for conv in CONVS {
        for omega in OMEGAS {
            let case = plain_case(conv, omega);
            let net = case.network::<f64>();
            let names: Vec<String> = net.laws().into_iter().map(|law| law.name).collect();
            assert_eq!(
                names,
                ["layer 1, head 1, neurons", "layer 1, head 2, neurons"]
            );
            let parameters = net.parameters();
            for term in net.laws().iter().flat_map(|law| &law.terms) {
                let name = &parameters[term.slice.parameter].name;
                assert!(!name.ends_with("omega"), "{name}");
            }
        }
    }
}

#[test]
fn balanced_initialisation_leaves_omega_and_starts_as_attention() {
    for scheme in [Initialization::BAL_X, Initialization::BAL_O] {
        for conv in CONVS {
            for omega in OMEGAS {
                let case = plain_case(conv, omega);
                let [(ours, net), (theirs, _)] = [case.config, plain(conv)].map(|config| {
                    let mut net = GraphNet::<f64>::new(config, 1).unwrap();
                    scheme.apply(&mut net, 2).unwrap();
                    let graph = random_graph(12, 30, 7);
                    (logits(&net, &graph, &features(12, 3)), net)
                });
                assert_eq!(ours, theirs, "{conv:?}, {omega:?}");
                for law in net.laws() {
                    let c = law.balance(&net.tensors()).unwrap();
                    assert!(c.iter().all(|c| c.abs() < 1e-12), "{}: {c:?}", law.name);
                }
            }
        }
    }
}

#[test]
fn a_law_that_scaled_omega_too_would_fail() {
    for conv in CONVS {
        let case = plain_case(conv, Omega::Channel);
        let net = case.network::<f64>();
        let (_, gradients) = case.loss(&net);
        let names: Vec<String> = net.parameters().into_iter().map(|p| p.name).collect();
        let omega = names.iter().position(|n| n == "layers.0.omega").unwrap();
        // The first law is that of the first head, whose ω come first.
        let mut law = net.laws().remove(0);
        let slice = emmy::symmetry::Slice::new(omega, [1, 8, 1]);
        law.terms.push(Term::incoming(slice).narrow(0..4));
        let worst = law.measure(&net.tensors(), &gradients).worst();
        assert!(worst > 1e-2, "{conv:?}: {worst}");
    }
}
