//! ωGAT: the attention layers with S_ω = I − Ω (I − α) in the place of α.

mod layers;

use approx::assert_abs_diff_eq;
use emmy::autodiff::check_grads;
use emmy::graph::generators::random_graph;
use emmy::init;
use emmy::nn::{
    Activation, AttentionOptions, Conv, GatConv, Gatv2Conv, GraphNet, GraphNetConfig, Heads,
    Initialization, Module, Omega, Pass, Stack,
};
use emmy::symmetry::{Law, Symmetry, Term};
use emmy::{Graph, Real, Tape, Tensor};
use layers::{INPUTS, features};
use ndarray::{Array2, Axis, Ix2};
use proptest::prelude::*;

const CONVS: [Conv; 3] = [
    Conv::Gat,
    Conv::Gatv2 { shared: true },
    Conv::Gatv2 { shared: false },
];
const OMEGAS: [Omega; 2] = [Omega::Layer, Omega::Channel];
const CLASSES: usize = 3;

fn options(omega: Omega, heads: usize, join: Heads) -> AttentionOptions {
    AttentionOptions {
        heads,
        join,
        bias: false,
        omega: Some(omega),
        ..AttentionOptions::default()
    }
}

/// ω on both sides of 0 and of 1, biases that are not 0.
fn unsettle<F: Real>(model: &mut impl Module<F>, seed: u64) {
    let rng = &mut init::rng(seed);
    for (name, parameter) in model.parameters_mut() {
        if name.ends_with("omega") {
            *parameter = init::uniform(parameter.shape(), 1.5, rng);
            parameter.mapv_inplace(|x| x + F::of(0.5));
        } else if name.ends_with("bias") {
            *parameter = init::normal(parameter.shape(), 0.3, rng);
        }
    }
}

/// Every kind of network: three layers, heads side by side and averaged.
fn networks() -> Vec<GraphNet<f64>> {
    let mut all = Vec::new();
    for conv in CONVS {
        for omega in OMEGAS {
            let config = GraphNetConfig {
                conv,
                omega: Some(omega),
                hidden: 4,
                layers: 3,
                heads: 2,
                output_heads: 3,
                dropout: 0.0,
                ..GraphNetConfig::gcn(INPUTS, CLASSES)
            };
            let mut net = GraphNet::new(config, 3).unwrap();
            unsettle(&mut net, 9);
            all.push(net);
        }
    }
    all
}

fn logits(net: &GraphNet<f64>, graph: &Graph, x: &Tensor<f64>) -> Array2<f64> {
    let tape = Tape::new();
    let adjacency = net.config.adjacency(graph);
    let y = net.forward(&Pass::evaluate(&tape), tape.constant(x.clone()), &adjacency);
    two(&y.value())
}

fn two(t: &Tensor<f64>) -> Array2<f64> {
    t.clone().into_dimensionality::<Ix2>().unwrap().into_owned()
}

/// z − ω (z − S z) by a loop over edges, from the scores of head h on the edge j → i; then the heads joined.
fn by_hand(
    graph: &Graph,
    z: &Array2<f64>,
    (options, omega): (AttentionOptions, &Tensor<f64>),
    score: impl Fn(usize, usize, usize) -> f64,
) -> Array2<f64> {
    let edges = || graph.edge_list().map(|(j, i)| (j as usize, i as usize));
    let width = z.ncols() / options.heads;
    let mut y = Array2::zeros(z.dim());
    for ((i, k), own) in z.indexed_iter() {
        let (h, c) = (k / width, k % width);
        let weight = |j: usize| score(h, j, i).exp();
        let into_i = || edges().filter(|&(_, to)| to == i).map(|(j, _)| j);
        let total: f64 = into_i().map(weight).sum();
        let mean: f64 = into_i().map(|j| weight(j) / total * z[[j, k]]).sum();
        let omega = match options.omega.unwrap() {
            Omega::Layer => omega[[0]],
            Omega::Channel => omega[[h, c]],
        };
        y[[i, k]] = own - omega * (own - mean);
    }
    if options.join == Heads::Concatenate {
        return y;
    }
    let head = |h: usize| y.slice(ndarray::s![.., h * width..(h + 1) * width]);
    let sum = (1..options.heads).fold(head(0).to_owned(), |sum, h| sum + head(h));
    sum / options.heads as f64
}

fn leaky(x: f64) -> f64 {
    if x > 0.0 { x } else { 0.2 * x }
}

#[test]
fn a_layer_is_its_formula() {
    // Without self-loops, and some nodes without neighbours.
    let graph = random_graph(15, 8, 3);
    assert!((0..15).any(|i| graph.pattern().row(i).is_empty()));
    let x = features(15, 4);
    let two_x = two(&x);
    let (n, c) = (graph.nodes(), 3);
    for (omega, heads, join) in [
        (Omega::Layer, 1, Heads::Concatenate),
        (Omega::Layer, 3, Heads::Average),
        (Omega::Channel, 3, Heads::Concatenate),
        (Omega::Channel, 2, Heads::Average),
    ] {
        let options = options(omega, heads, join);
        let tape = Tape::new();
        let (pass, x) = (Pass::evaluate(&tape), tape.constant(x.clone()));
        let check = |found: [emmy::Var<'_, f64>; 2], expected: Array2<f64>| {
            for found in found {
                assert_abs_diff_eq!(two(&found.value()), expected, epsilon = 1e-13);
            }
        };

        let mut gat = GatConv::<f64>::new(INPUTS, c, options, &mut init::rng(5));
        unsettle(&mut gat, 6);
        let z = two_x.dot(&two(&gat.weight).t());
        let part = |a: &Tensor<f64>, h: usize, i: usize| -> f64 {
            (0..c).map(|k| a[[h, k]] * z[[i, h * c + k]]).sum()
        };
        let expected = by_hand(
            &graph,
            &z,
            (options, gat.omega.as_ref().unwrap()),
            |h, j, i| leaky(part(&gat.att_source, h, j) + part(&gat.att_target, h, i)),
        );
        assert_eq!(expected.nrows(), n);
        let plain = gat.forward(&pass, x, graph.pattern());
        let (explained, _) = gat.forward_with_attention(&pass, x, graph.pattern());
        check([plain, explained], expected);

        for shared in [true, false] {
            let mut net = Gatv2Conv::<f64>::new(INPUTS, c, shared, options, &mut init::rng(5));
            unsettle(&mut net, 6);
            let z = two_x.dot(&two(&net.source.weight).t());
            let target = net.target.as_ref().unwrap_or(&net.source);
            let t = two_x.dot(&two(&target.weight).t());
            let expected = by_hand(
                &graph,
                &z,
                (options, net.omega.as_ref().unwrap()),
                |h, j, i| {
                    let at = |k: usize| h * c + k;
                    (0..c)
                        .map(|k| net.att[[h, k]] * leaky(z[[j, at(k)]] + t[[i, at(k)]]))
                        .sum()
                },
            );
            // A pass knows parameters by address, and this layer may stand where the last one stood.
            let pass = Pass::evaluate(&tape);
            let plain = net.forward(&pass, x, graph.pattern());
            let (explained, _) = net.forward_with_attention(&pass, x, graph.pattern());
            check([plain, explained], expected);
        }
    }
}

#[test]
fn with_one_it_is_attention_and_with_zero_the_linear_map_to_the_bit() {
    let graph = random_graph(15, 30, 3).with_self_loops();
    let x = features(15, 4);
    let made = |omega: Option<Omega>, shared: bool, value: f64| {
        let options = AttentionOptions {
            heads: 2,
            residual: true,
            omega,
            ..AttentionOptions::default()
        };
        let rng = || init::rng(5);
        let mut gat = GatConv::<f64>::new(INPUTS, 3, options, &mut rng());
        let mut gatv2 = Gatv2Conv::<f64>::new(INPUTS, 3, shared, options, &mut rng());
        gatv2.source.bias = Some(init::normal(&[6], 1.0, &mut init::rng(6)));
        for omega in [&mut gat.omega, &mut gatv2.omega].into_iter().flatten() {
            assert!(omega.iter().all(|&w| w == 1.0), "a fresh layer has ω = 1");
            omega.fill(value);
        }
        (gat, gatv2)
    };
    for omega in OMEGAS {
        for shared in [true, false] {
            let tape = Tape::new();
            let (pass, x) = (Pass::evaluate(&tape), tape.constant(x.clone()));
            let (edges, one, none) = (
                graph.pattern(),
                made(Some(omega), shared, 1.0),
                made(None, shared, 1.0),
            );
            assert_eq!(
                one.0.forward(&pass, x, edges).value(),
                none.0.forward(&pass, x, edges).value()
            );
            assert_eq!(
                one.1.forward(&pass, x, edges).value(),
                none.1.forward(&pass, x, edges).value()
            );

            let (gat, gatv2) = made(Some(omega), shared, 0.0);
            let map = |w: &Tensor<f64>| x.linear(tape.constant(w.clone()));
            assert_eq!(
                gat.forward(&pass, x, edges).value(),
                (map(&gat.weight) + map(gat.residual.as_ref().unwrap())).value()
            );
            assert_eq!(
                gatv2.forward(&pass, x, edges).value(),
                (gatv2.source.forward(&pass, x) + map(gatv2.residual.as_ref().unwrap())).value()
            );
        }
    }
}

#[test]
fn there_are_as_many_as_asked_for() {
    for net in networks() {
        let shapes: Vec<Vec<usize>> = (net.parameters().into_iter())
            .filter(|(name, _)| name.ends_with("omega"))
            .map(|(_, p)| p.shape().to_vec())
            .collect();
        let expected = match net.config.omega.unwrap() {
            Omega::Layer => vec![vec![1]; 3],
            Omega::Channel => vec![vec![2, 4], vec![2, 4], vec![3, CLASSES]],
        };
        assert_eq!(shapes, expected);
    }
}

#[test]
fn first_and_second_derivatives_are_those_of_the_differences() {
    let graph = random_graph(7, 10, 3).with_self_loops();
    for mut net in networks() {
        // One layer of the three: its heads are averaged, its input is as wide as the hidden layers.
        let layer = net.layers.remove(2);
        let x: Tensor<f64> = init::normal(&[7, 8], 1.0, &mut init::rng(4));
        let adjacency = graph.gcn_norm();
        let mut args: Vec<Tensor<f64>> = layer.tensors().into_iter().cloned().collect();
        args.push(x);
        check_grads(
            |args| {
                let (&x, parameters) = args.split_last().unwrap();
                let pass = Pass::evaluate(x.tape());
                for (parameter, &variable) in layer.tensors().into_iter().zip(parameters) {
                    pass.bind(parameter, variable);
                }
                layer.forward(&pass, x, &adjacency)
            },
            &args,
        )
        .unwrap_or_else(|e| panic!("{:?}: {e}", net.config));
    }
}

#[test]
fn renumbering_nodes_renumbers_outputs() {
    let graph = random_graph(30, 60, 1);
    let x = features(30, 2);
    let to: Vec<usize> = (0..30).map(|i| (i * 7 + 3) % 30).collect();
    let mut moved = x.clone();
    for (i, &k) in to.iter().enumerate() {
        let row = x.index_axis(Axis(0), i);
        moved.index_axis_mut(Axis(0), k).assign(&row);
    }
    for net in networks() {
        let y = logits(&net, &graph, &x);
        let z = logits(&net, &graph.permute(&to), &moved);
        assert_abs_diff_eq!(z.select(Axis(0), &to), y, epsilon = 1e-12);
    }
}

#[test]
fn constants_pass_whatever_omega_is() {
    // Rows of S_ω sum to one: nodes that are all alike stay so, and come out as they do of plain attention.
    let graph = random_graph(15, 30, 3);
    let row = features(1, 2);
    let x = Tensor::from_shape_fn(vec![15, INPUTS], |at| row[[0, at[1]]]);
    for net in networks() {
        let mut plain = net.clone();
        for (name, parameter) in plain.parameters_mut() {
            if name.ends_with("omega") {
                parameter.fill(1.0);
            }
        }
        let expected = logits(&plain, &graph, &x);
        assert_abs_diff_eq!(logits(&net, &graph, &x), expected, epsilon = 1e-12);
    }
}

/// A network, its data and where it stands.
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
                conv: CONVS[conv],
                omega: Some(OMEGAS[omega]),
                activation: [
                    Activation::Relu,
                    Activation::LeakyRelu { slope: 0.1 },
                    Activation::Identity,
                ][activation],
                hidden,
                layers,
                heads,
                output_heads,
                bias,
                residual,
                self_loops,
                dropout: 0.0,
                ..GraphNetConfig::gcn(INPUTS, CLASSES)
            };
            Case {
                config,
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
        let pass = Pass::train(&tape, 0);
        let loss = net
            .forward(&pass, tape.constant(x), &self.config.adjacency(&graph))
            .cross_entropy(&labels, None);
        let value = loss.value().sum().as_f64();
        (value, pass.gradients(loss, net))
    }

    /// The laws, and the largest relative δ of each.
    fn measured<F: Real>(&self) -> Vec<(Law, f64)> {
        let net = self.network::<F>();
        let (_, gradients) = self.loss(&net);
        let worst = |law: &Law| law.measure(&net.tensors(), &gradients).worst();
        (net.laws().into_iter())
            .map(|law| (law.clone(), worst(&law)))
            .collect()
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
    fn what_the_laws_move_leaves_the_loss(case in cases(), entry in any::<prop::sample::Index>(), t in -2.0..2.0f64) {
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

/// A network of two layers with two heads each, on a graph with edges enough for every ω to matter.
fn plain_case(conv: Conv, omega: Omega, activation: Activation) -> Case {
    Case {
        config: GraphNetConfig {
            conv,
            omega: Some(omega),
            activation,
            hidden: 4,
            heads: 2,
            dropout: 0.0,
            ..GraphNetConfig::gcn(INPUTS, CLASSES)
        },
        nodes: 12,
        edges: 30,
        seed: 7,
    }
}

#[test]
fn every_head_has_its_law_and_omega_is_in_none() {
    for conv in CONVS {
        for omega in OMEGAS {
            let case = plain_case(conv, omega, Activation::Relu);
            let net = case.network::<f64>();
            let names: Vec<String> = net.laws().into_iter().map(|law| law.name).collect();
            assert_eq!(
                names,
                ["layer 1, head 1, neurons", "layer 1, head 2, neurons"]
            );
            let parameters = net.parameters();
            for term in net.laws().iter().flat_map(|law| &law.terms) {
                let name = &parameters[term.slice.parameter].0;
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
                let case = plain_case(conv, omega, Activation::Relu);
                let plain = GraphNetConfig {
                    omega: None,
                    ..case.config
                };
                let [(ours, net), (theirs, _)] = [case.config, plain].map(|config| {
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
        let case = plain_case(conv, Omega::Channel, Activation::Relu);
        let net = case.network::<f64>();
        let (_, gradients) = case.loss(&net);
        let names: Vec<String> = net.parameters().into_iter().map(|(name, _)| name).collect();
        let omega = names.iter().position(|n| n == "layers.0.omega").unwrap();
        // The first law is that of the first head, whose ω come first.
        let mut law = net.laws().remove(0);
        let slice = emmy::symmetry::Slice::new(omega, [1, 8, 1]);
        law.terms.push(Term::incoming(slice).narrow(0..4));
        let worst = law.measure(&net.tensors(), &gradients).worst();
        assert!(worst > 1e-2, "{conv:?}: {worst}");
    }
}

#[test]
fn the_space_of_neurons_has_its_law_only_with_one_omega_a_layer() {
    let linear = |omega| plain_case(Conv::Gat, omega, Activation::Identity);
    let spaces = |case: &Case| {
        let laws = case.measured::<f64>().into_iter();
        let laws = laws.filter(|(law, _)| law.symmetry == Symmetry::Linear);
        laws.map(|(law, worst)| {
            assert!(worst < 1e-10, "{}: {worst}", law.name);
            law
        })
        .collect::<Vec<_>>()
    };
    let laws = spaces(&linear(Omega::Layer));
    assert_eq!(laws.len(), 2);
    let case = linear(Omega::Channel);
    assert!(spaces(&case).is_empty());
    // It would not hold there: ω stands one parameter before the rest, so the laws' numbers fit.
    let net = case.network::<f64>();
    let (_, gradients) = case.loss(&net);
    for law in laws {
        let worst = law.measure(&net.tensors(), &gradients).worst();
        assert!(worst > 1e-2, "{}: {worst}", law.name);
    }
}
