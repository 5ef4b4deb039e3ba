//! Laws under LipschitzNorm, whose divisors depend on all neurons of a head.

use crate::cases::cases;
use crate::compositions::{Composition, any_loss, conserved, is_whole, linear, names};
use emmy::graph::Neighbourhood;
use emmy::graph::generators::path;
use emmy::nn::{
    Activation, AttentionConfig, AttentionOptions, Conv, GatConv, GraphNet, GraphNetConfig, Heads,
    Linear, LipschitzNorm, Module, MultiHeadAttention, Pass, Trace, TransformerOptions, discover,
};
use emmy::ops::attention::Mask;
use emmy::symmetry::{Discovery, Law, Search};
use emmy::{Real, Tensor, Var, init};
use proptest::prelude::*;
use std::sync::Arc;

#[derive(Debug, Clone)]
struct OnPath<F: Real> {
    net: GraphNet<F>,
    seed: u64,
}
emmy::module!(OnPath: net);

impl<F: Real> OnPath<F> {
    fn draw(config: GraphNetConfig, seed: u64) -> Self {
        let mut net = GraphNet::new(config, seed).expect("a valid configuration");
        let rng = &mut init::rng(seed);
        for p in net.tensors_mut() {
            *p = init::normal(p.shape(), 1.0, rng);
        }
        Self { net, seed }
    }

    fn output<'t>(&self, pass: &Pass<'t, '_, F>, seed: u64) -> Var<'t, F> {
        let config = &self.net.config;
        let neighbours: Neighbourhood<F> = config.neighbourhood(&path(8));
        let x: Tensor<F> = init::normal(&[8, config.inputs], 1.0, &mut init::rng(seed));
        self.net.forward(pass, pass.tape().constant(x), &neighbours)
    }

    fn laws(&self) -> Vec<Law> {
        Trace::of(self, |pass| self.output(pass, self.seed)).laws()
    }
}

impl<F: Real> Composition<F> for OnPath<F> {
    fn loss<'t>(&self, pass: &Pass<'t, '_, F>) -> Var<'t, F> {
        any_loss(self.output(pass, self.seed), self.seed)
    }
}

fn gat(heads: usize, averaged: bool) -> GraphNetConfig {
    let mut config = GraphNetConfig {
        hidden: 3,
        layers: 2,
        activation: Activation::Relu,
        ..GraphNetConfig::gcn(3, 2).without_dropout()
    }
    .of(Conv::GAT)
    .heads(heads, 1)
    .attending(|a| a.score_norm = Some(LipschitzNorm::GAT))
    .attending(|a| a.residual = true)
    .biased(true);
    if averaged {
        let joined = config.conv.common().heads.expect("attention");
        (*joined.0, *joined.1) = (heads, Heads::Average);
    }
    config
}

fn transformer(heads: usize, gate: bool) -> GraphNetConfig {
    let options = TransformerOptions {
        gate,
        heads,
        score_norm: Some(LipschitzNorm::DOT),
        ..TransformerOptions::DEFAULT
    };
    GraphNetConfig {
        hidden: 2,
        layers: 2,
        activation: Activation::Relu,
        ..GraphNetConfig::gcn(3, 2).without_dropout()
    }
    .of(Conv::Transformer(options))
}

/// Networks and the number of their laws: with H heads of a hidden layer H scales, H sizes of attention
/// vectors and one of the last layer; of a transformer per head a scale and the rotations of queries and
/// keys.
fn networks() -> Vec<(&'static str, GraphNetConfig)> {
    vec![
        ("one head", gat(1, false)),
        ("two heads", gat(2, false)),
        ("averaged", gat(2, true)),
        ("transformer", transformer(1, false)),
        ("gate", transformer(2, true)),
    ]
}

fn search(config: GraphNetConfig) -> Discovery {
    let net = OnPath::<f64>::draw(config, 0);
    discover(&net, &Search::default(), |pass, seed| {
        net.output(pass, seed)
    })
}

/// The divisor and the scores are of the same degree in all neurons of a head together, and in its attention
/// vectors.
#[test]
fn listed_laws_hold() {
    for (_, config) in networks() {
        for seed in cases(5) {
            let net = OnPath::<f64>::draw(config, seed);
            conserved(&net, &OnPath::<f32>::draw(config, seed), &net.laws());
        }
    }
}

#[test]
#[ignore = "takes seconds: cargo test -- --include-ignored"]
fn listed_laws_are_all() {
    for (what, config) in networks() {
        let found = search(config);
        is_whole(&found, found.declared, what);
    }
}

#[test]
fn formulas() {
    let net = OnPath::<f64>::draw(gat(2, false), 0);
    let short = |name: String| name.replace("net.layers.", "");
    let names: Vec<String> = names(&net).into_iter().map(short).collect();
    let found: Vec<String> = (net.laws().iter())
        .map(|law| format!("{}: {}", law.name, law.formula(&names)))
        .collect();
    assert_eq!(
        found,
        [
            "net, layer 1, size of the attention vectors: ⟨0.att_source[j,:], G⟩ + ⟨0.att_target[j,:], G⟩ = 0",
            "net, layer 1, scale: ⟨0.weight[j,:], G⟩ + ⟨0.residual[j,:], G⟩ + ⟨0.bias[j,:], G⟩ \
             − ⟨1.weight[:,j,:], G⟩ − ⟨1.residual[:,j,:], G⟩ = 0",
            "net, layer 2, size of the attention vectors: ⟨1.att_source, G⟩ + ⟨1.att_target, G⟩ = 0",
        ]
    );
}

/// The sum of two layers with two heads of three neurons and three of two, and a map that reads it.
#[derive(Debug, Clone)]
struct Sum<F: Real> {
    pairs: GatConv<F>,
    triples: GatConv<F>,
    readout: Linear<F>,
    seed: u64,
}
emmy::module!(Sum: pairs, triples, readout);

impl<F: Real> Sum<F> {
    fn draw(seed: u64) -> Self {
        let rng = &mut init::rng(seed);
        let of = |heads| AttentionOptions {
            heads,
            score_norm: Some(LipschitzNorm::GAT),
            ..AttentionOptions::DEFAULT
        };
        Self {
            pairs: GatConv::new(3, 3, of(2), rng),
            triples: GatConv::new(3, 2, of(3), rng),
            readout: linear(6, 2, true, rng),
            seed,
        }
    }

    fn output<'t>(&self, pass: &Pass<'t, '_, F>, seed: u64) -> Var<'t, F> {
        let edges = path(8).with_self_loops();
        let x: Tensor<F> = init::normal(&[8, 3], 1.0, &mut init::rng(seed));
        let x = pass.tape().constant(x);
        let y = self.pairs.forward(pass, x, edges.pattern())
            + self.triples.forward(pass, x, edges.pattern());
        self.readout.forward(pass, y.relu())
    }
}

impl<F: Real> Composition<F> for Sum<F> {
    fn loss<'t>(&self, pass: &Pass<'t, '_, F>) -> Var<'t, F> {
        any_loss(self.output(pass, self.seed), self.seed)
    }
}

/// Heads that do not lie on each other have one factor together.
#[test]
fn heads_of_different_widths_have_one_factor() {
    let net = Sum::<f64>::draw(0);
    let laws = Trace::of(&net, |pass| net.output(pass, 0)).laws();
    let scale = laws.iter().find(|law| law.name.ends_with("scale"));
    assert_eq!(scale.expect("a scale").neurons(), 1);
    conserved(&net, &Sum::<f32>::draw(0), &laws);
    let found = discover(&net, &Search::default(), |pass, seed| {
        net.output(pass, seed)
    });
    is_whole(&found, found.declared, "sum");
}

/// Attention of a sequence under the norm, and a map that reads it.
#[derive(Debug, Clone)]
struct Attends<F: Real> {
    attention: MultiHeadAttention<F>,
    readout: Linear<F>,
    seed: u64,
}
emmy::module!(Attends: attention, readout);

impl<F: Real> Attends<F> {
    fn draw(config: AttentionConfig, seed: u64) -> Self {
        let rng = &mut init::rng(seed);
        let mut attention = MultiHeadAttention::new(config, rng).expect("a valid configuration");
        attention.normalizer = Some(Arc::new(LipschitzNorm::DOT));
        Self {
            attention,
            readout: linear(3, 2, true, rng),
            seed,
        }
    }

    fn output<'t>(&self, pass: &Pass<'t, '_, F>, seed: u64) -> Var<'t, F> {
        let x: Tensor<F> = init::normal(&[6, 3], 1.0, &mut init::rng(seed));
        let y = self
            .attention
            .forward(pass, pass.tape().constant(x), &Mask::none());
        self.readout.forward(pass, y.relu())
    }
}

impl<F: Real> Composition<F> for Attends<F> {
    fn loss<'t>(&self, pass: &Pass<'t, '_, F>) -> Var<'t, F> {
        any_loss(self.output(pass, self.seed), self.seed)
    }
}

proptest! {
    #![proptest_config(crate::support::proptest_cases(20))]

    #[test]
    fn queries_keys_values_and_output_have_one_factor(seed: u64, heads in 1_usize..3, bias: bool) {
        let config = AttentionConfig { bias, heads, groups: 1, ..AttentionConfig::new(3, heads) };
        let net = Attends::<f64>::draw(config, seed);
        let laws = Trace::of(&net, |pass| net.output(pass, seed)).laws();
        let joint = laws.iter().filter(|law| law.name.ends_with("queries, keys, values and output"));
        prop_assert_eq!(joint.count(), 1);
        conserved(&net, &Attends::<f32>::draw(config, seed), &laws);
    }
}
