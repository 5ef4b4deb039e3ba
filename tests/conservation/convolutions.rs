//! The laws of SGC, GIN, GCNII, the graph transformer and the gated graph network, and laws that must fail:
//! C1 through GCNII's identity map (row N), C8 with edge features, the law of neurons that a gate reads
//! without the gate's weight.

use crate::cases::cases;
use crate::compositions::{Composition, any_loss, conserved, fails};
use crate::support::{amplify, draw_all};
use emmy::graph::Neighbourhood;
use emmy::graph::generators::{path, random_graph};
use emmy::nn::{
    Activation, Conv, ConvOptions, EndMaps, GcniiOptions, GraphNet, GraphNetConfig, Heads, Linear,
    Module, Norm, Params, Pass, Trace, Traced, TransformerConv, TransformerOptions, discover,
};
use emmy::symmetry::{Discovery, Law, Search, Side, Symmetry, Term};
use emmy::{Real, Tensor, Var, init};

const NODES: usize = 9;

/// A network on a random graph with random features and a random loss.
#[derive(Debug, Clone)]
struct OnGraph<F: Real> {
    net: GraphNet<F>,
    seed: u64,
}
emmy::module!(OnGraph: net);

impl<F: Real> Composition<F> for OnGraph<F> {
    fn loss<'t>(&self, pass: &Pass<'t, '_, F>) -> Var<'t, F> {
        let config = &self.net.config;
        let neighbours = config.neighbourhood(&random_graph(NODES, 14, self.seed));
        let x = init::normal(&[NODES, config.inputs], 1.0, &mut init::rng(self.seed + 1));
        let y = self.net.forward(pass, pass.tape().constant(x), &neighbours);
        any_loss(y, self.seed)
    }
}

fn draw<F: Real>(config: GraphNetConfig, seed: u64) -> OnGraph<F> {
    let mut net = GraphNet::new(config, 0).expect("a valid configuration");
    draw_all(&mut net, seed);
    // Sums over neighbours grow; steps of gradient descent must stay small.
    amplify(&mut net, 0.6);
    OnGraph { net, seed }
}

/// The same with larger parameters, far from linear.
fn loud(config: GraphNetConfig, seed: u64) -> OnGraph<f64> {
    let mut net = draw(config, seed);
    amplify(&mut net, 2.5);
    net
}

fn small(base: GraphNetConfig) -> GraphNetConfig {
    GraphNetConfig {
        inputs: 3,
        hidden: 2,
        classes: 2,
        dropout: 0.0,
        activation: Activation::Relu,
        ..base
    }
    .attention_dropout(0.0)
}

fn gin() -> GraphNetConfig {
    small(GraphNetConfig::gin(3, 2))
}

fn gcnii(shared: bool) -> GraphNetConfig {
    let options = GcniiOptions {
        shared,
        ..GcniiOptions::DEFAULT
    };
    let config = small(GraphNetConfig::gcnii(3, 2).of(Conv::Gcnii(options)));
    GraphNetConfig {
        layers: 2,
        ..config
    }
}

fn transformer(change: impl Fn(&mut TransformerOptions)) -> GraphNetConfig {
    let mut options = TransformerOptions::DEFAULT;
    change(&mut options);
    GraphNetConfig {
        self_loops: false,
        ..small(GraphNetConfig::gcn(3, 2).of(Conv::Transformer(options)))
    }
}

fn transformers() -> Vec<GraphNetConfig> {
    vec![
        transformer(|_| ()),
        transformer(|o| o.skip = false),
        transformer(|o| o.gate = true),
        transformer(|o| (o.heads, o.gate) = (2, true)),
        transformer(|o| (o.heads, o.bias) = (2, false)),
        // Heads averaged in a hidden layer.
        GraphNetConfig {
            conv: Conv::Transformer(TransformerOptions {
                heads: 2,
                join: Heads::Average,
                gate: true,
                ..TransformerOptions::DEFAULT
            }),
            ..transformer(|_| ())
        },
    ]
}

/// The laws hold at a point, along moves, and in their drift; a loss of the softmax has more laws.
#[test]
fn listed_laws_hold() {
    let deep = |config| GraphNetConfig {
        layers: 4,
        hidden: 3,
        ..config
    };
    let mut all = vec![
        small(GraphNetConfig::sgc(3, 2)),
        gin(),
        GraphNetConfig {
            ends: EndMaps::NONE,
            ..gin()
        },
        deep(gcnii(true)),
        deep(gcnii(false)),
        small(GraphNetConfig::ggnn(3, 2)),
        GraphNetConfig {
            residual: Some(2),
            ends: EndMaps::LINEAR,
            ..deep(small(GraphNetConfig::gcn(3, 2)))
        },
        GraphNetConfig {
            residual: Some(1),
            ..deep(transformer(|o| o.gate = true))
        },
        GraphNetConfig {
            norm: Some(Norm::LAYER),
            residual: Some(1),
            ends: EndMaps::ACTIVATED,
            ..deep(transformer(|o| o.heads = 2))
        },
    ];
    all.extend(transformers());
    for config in all {
        let identity = GraphNetConfig {
            activation: Activation::Identity,
            ..config
        };
        for config in [config, identity] {
            for seed in cases(6) {
                let net = draw::<f64>(config, seed);
                let mut laws = net.net.laws();
                if seed % 3 == 0 {
                    laws.extend(net.net.softmax_laws());
                }
                conserved(&net, &draw::<f32>(config, seed), &laws);
            }
        }
    }
}

fn search(config: GraphNetConfig) -> Discovery {
    let net = GraphNet::<f64>::new(config, 0).expect("a valid configuration");
    let neighbours = config.neighbourhood(&path(8));
    discover(&net, &Search::default(), |pass, seed| {
        let x = init::normal(&[8, config.inputs], 1.0, &mut init::rng(seed));
        net.forward(pass, pass.tape().constant(x), &neighbours)
    })
}

fn whole(found: &Discovery, what: &str) {
    assert!(found.is_complete(), "{what}: {:?} at most", found.upper);
    assert!(found.broken.is_empty(), "{what}: {:?}", found.broken);
    assert!(found.missing.is_empty(), "{what}: {:?}", found.missing);
}

/// A law of matrices with n neurons counts n (n + 1) / 2 times, for c is symmetric.
#[test]
#[ignore = "takes seconds: cargo test -- --include-ignored"]
fn lists_are_whole() {
    let sgc = small(GraphNetConfig::sgc(3, 2));
    let two = GraphNetConfig { layers: 2, ..sgc };
    // Narrower networks of ReLU are dead at most points.
    let wide = |config| GraphNetConfig {
        hidden: 3,
        ..config
    };
    let all = [
        ("sgc", sgc, 0),
        ("two layers of sgc", two, 2),
        ("gin", wide(gin()), 12),
        ("ggnn", small(GraphNetConfig::ggnn(3, 2)), 4 + 3),
        ("no skip", wide(transformer(|o| o.skip = false)), 12 + 5),
        ("gate", wide(transformer(|o| o.gate = true)), 15 + 7),
        ("no biases", wide(transformer(|o| o.bias = false)), 9 + 3),
    ];
    for (what, config, count) in all {
        let found = search(config);
        whole(&found, what);
        assert_eq!((found.declared, found.found), (count, count), "{what}");
    }
}

/// With a skip connection, the bias of the values adds a number to every node that has neighbours, and the
/// bias of the skip adds one to all nodes. The identity beside a weight of GCNII counts with the weight.
#[test]
#[ignore = "takes seconds: cargo test -- --include-ignored"]
fn sums_of_biases_and_weights_beside_an_identity_are_listed() {
    for (what, config, count) in [
        ("transformer", transformer(|_| ()), 12 + 4),
        (
            "transformer with 2 heads",
            transformer(|o| o.heads = 2),
            19 + 6,
        ),
        ("gcnii", gcnii(true), 4),
        ("gcnii with two weights", gcnii(false), 6),
    ] {
        let found = search(config);
        whole(&found, what);
        assert_eq!((found.declared, found.found), (count, count), "{what}");
    }
    let formula = |config: GraphNetConfig, name: &str| {
        let net = GraphNet::<f64>::new(config, 0).expect("a valid configuration");
        let names: Vec<String> = net.parameters().into_iter().map(|p| p.name).collect();
        let laws = net.laws();
        let law = laws.iter().find(|law| law.name == name);
        law.unwrap_or_else(|| panic!("no {name}: {laws:?}"))
            .formula(&names)
    };
    let loops = |config| GraphNetConfig {
        self_loops: true,
        ..config
    };
    assert_eq!(
        formula(loops(transformer(|_| ())), "layer 1, biases"),
        "G of layers.0.value.bias[j] − G of layers.0.skip.bias[j] = 0"
    );
    // (1 − β) / β in layer 2 with β = ln(θ / 2 + 1).
    let c = (0.25_f64).ln_1p().recip() - 1.0;
    assert_eq!(
        formula(gcnii(true), "layer 2, neurons"),
        format!("⟨(layers.1.map.weight + {c} I)[j,:], G⟩ − ⟨output.weight[:,j], G⟩ = 0")
    );
}

/// One layer with edge features, a ReLU and a map that reads it.
#[derive(Debug, Clone)]
struct OnEdges<F: Real> {
    conv: TransformerConv<F>,
    readout: Linear<F>,
    seed: u64,
}
emmy::module!(OnEdges: conv, readout);

impl<F: Real> OnEdges<F> {
    fn draw(options: TransformerOptions, seed: u64) -> Self {
        let rng = &mut init::rng(0);
        let conv = TransformerConv::new(3, 2, Some(2), options, rng);
        let readout = Linear::new(options.output(2), 3, true, rng);
        let mut net = Self {
            conv,
            readout,
            seed,
        };
        draw_all(&mut net, seed);
        net
    }

    fn outputs<'t>(&self, pass: &Pass<'t, '_, F>, seed: u64) -> Var<'t, F> {
        let neighbours = Neighbourhood::<F>::of(path(NODES));
        let edges = neighbours.pattern();
        let rng = &mut init::rng(seed);
        let mut normal =
            |shape: &[usize]| -> Var<'t, F> { pass.tape().constant(init::normal(shape, 1.0, rng)) };
        let (x, e) = (normal(&[NODES, 3]), normal(&[edges.nnz(), 2]));
        let y = self.conv.forward(pass, x, edges, Some(e)).relu();
        self.readout.forward(pass, y)
    }

    fn laws(&self) -> Vec<Law> {
        Trace::of(self, |pass| self.outputs(pass, 0)).laws()
    }
}

impl<F: Real> Composition<F> for OnEdges<F> {
    fn loss<'t>(&self, pass: &Pass<'t, '_, F>) -> Var<'t, F> {
        any_loss(self.outputs(pass, self.seed), self.seed)
    }
}

/// One weight of the edges is added to keys and to values, so a factor of the neurons of the values also
/// changes the keys.
#[test]
fn edge_features_tie_keys_to_values() {
    let options = |heads, join, gate| TransformerOptions {
        heads,
        join,
        gate,
        ..TransformerOptions::DEFAULT
    };
    for options in [
        options(1, Heads::Concatenate, false),
        options(2, Heads::Concatenate, true),
        options(2, Heads::Average, true),
    ] {
        for seed in cases(6) {
            let net = OnEdges::<f64>::draw(options, seed);
            conserved(&net, &OnEdges::<f32>::draw(options, seed), &net.laws());
        }
    }
    let net = OnEdges::<f64>::draw(options(1, Heads::Concatenate, true), 0);
    let names: Vec<String> = net.parameters().into_iter().map(|p| p.name).collect();
    let shown: Vec<String> = (net.laws().iter()).map(|law| law.formula(&names)).collect();
    assert_eq!(
        shown,
        [
            "G of conv.key.bias[j] = 0",
            "G of conv.gate[j] − G of conv.gate[2+j] − G of conv.gate[4+j] = 0",
            "⟨conv.value.weight[j,:], G⟩ + ⟨conv.value.bias[j], G⟩ + ⟨conv.edge[j,:], G⟩ + ⟨conv.key.weight[j,:], G⟩ \
             + ⟨conv.key.bias[j], G⟩ + ⟨conv.skip.weight[j,:], G⟩ + ⟨conv.skip.bias[j], G⟩ \
             − ⟨conv.query.weight[j,:], G⟩ − ⟨conv.query.bias[j], G⟩ − ⟨conv.gate[j], G⟩ \
             − ⟨conv.gate[2+j], G⟩ − ⟨conv.gate[4+j], G⟩ − ⟨readout.weight[:,j], G⟩ = 0",
        ]
    );
    let found = discover(&net, &Search::default(), |pass, seed| {
        net.outputs(pass, seed)
    });
    whole(&found, "edge features");
    assert_eq!(found.declared, found.found);
}

fn rows<F: Real>(params: &Params<'_, F>, w: &Tensor<F>) -> Term {
    Term::incoming(params.rows(w))
}

fn columns<F: Real>(params: &Params<'_, F>, w: &Tensor<F>) -> Term {
    Term::outgoing(params.columns(w))
}

/// Row N: the law of a graph convolution, W of one layer against that of the next.
#[test]
fn n_an_identity_map_breaks_the_law_between_two_layers() {
    for shared in [true, false] {
        fails(|seed| {
            let config = GraphNetConfig {
                layers: 3,
                hidden: 4,
                ..gcnii(shared)
            };
            let net = loud(config, seed);
            let names: Vec<String> = net.parameters().into_iter().map(|p| p.name).collect();
            let (params, tensors) = (Params::of(&net), net.tensors());
            let weight = |l: usize| {
                let name = format!("net.layers.{l}.map.weight");
                tensors[names.iter().position(|n| *n == name).expect("a weight")]
            };
            let terms = vec![rows(&params, weight(0)), columns(&params, weight(1))];
            let law = Law::new("layer 1", 1, Symmetry::Rescaling, terms);
            (net.clone(), vec![law])
        });
    }
}

/// Without the weight of the edges C8 would hold.
#[test]
fn n_edge_features_break_the_law_of_queries_and_keys() {
    fails(|seed| {
        let net = OnEdges::<f64>::draw(TransformerOptions::DEFAULT, seed);
        let params = Params::of(&net);
        let (query, key) = (&net.conv.query, &net.conv.key);
        let (b_q, b_k) = (query.bias.as_ref(), key.bias.as_ref());
        let outgoing = |t: &Tensor<f64>| Term::outgoing(params.rows(t));
        let terms = vec![
            rows(&params, &query.weight),
            rows(&params, b_q.expect("a bias")),
            outgoing(&key.weight),
            outgoing(b_k.expect("a bias")),
        ];
        let law = Law::new("queries and keys", 1, Symmetry::Linear, terms);
        (net.clone(), vec![law])
    });
}

/// The gate reads the neurons too. Neurons after an activation that is not homogeneous have no law.
#[test]
fn n_neurons_without_their_gate_and_behind_a_smooth_activation() {
    let config = GraphNetConfig {
        hidden: 4,
        ..transformer(|o| o.gate = true)
    };
    let neurons = |net: &OnGraph<f64>| {
        let mut laws = net.net.laws();
        laws.retain(|law| law.name.ends_with("neurons"));
        assert_eq!(laws.len(), 1);
        laws
    };
    fails(|seed| {
        let net = loud(config, seed);
        let mut laws = neurons(&net);
        laws[0].terms.retain(|term| term.side != Side::Attention);
        (net, laws)
    });
    fails(|seed| {
        let mut net = loud(config, seed);
        let laws = neurons(&net);
        net.net.config.activation = Activation::Gelu;
        (net, laws)
    });
}
