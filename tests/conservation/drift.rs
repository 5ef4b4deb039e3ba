//! How far the degree of balance drifts: not at all along gradient flow; by a known amount in steps of plain
//! descent, with momentum, and with gradients clipped by their norm; unknown for the rest.

use crate::handmade::Normed;
use crate::support::*;
use emmy::nn::{Activation, Conv, GraphNet, GraphNetConfig, Module, Traced};
use emmy::optim::{Algorithm, Clip, Optimizer, Sgd};
use emmy::symmetry::{Drift, Generator, Law, Layout};
use emmy::{Tensor, init};

const STEPS: usize = 100;
const LR: f64 = 0.1;

/// The measurements of a hundred steps.
#[derive(Debug)]
struct Run {
    /// The largest difference between c and the drift formula.
    off: f64,
    /// The largest difference between c and its start.
    moved: f64,
    /// The largest relative δ of any step.
    delta: f64,
    /// The loss before and after.
    losses: (f64, f64),
}

fn run(
    net: &mut impl Network<f64>,
    laws: &[Law],
    problem: &Problem,
    method: Algorithm,
    decay: f64,
) -> Run {
    let balances = |net: &dyn Fn(&Law) -> Vec<f64>| laws.iter().map(net).collect::<Vec<_>>();
    let start = balances(&|law| law.balance(&net.tensors()).expect("no rotation"));
    let mut predicted = start.clone();
    let mut optimizer = Optimizer::new(method).weight_decay(decay);
    let (mut delta, first) = (0.0_f64, point(net, problem).0);
    for _ in 0..STEPS {
        let (_, gradients) = point(net, problem);
        delta = worse(delta, worst(laws, net, &gradients));
        for (law, c) in laws.iter().zip(&mut predicted) {
            *c = law.drift(c, &gradients, LR, decay).expect("no rotation");
        }
        optimizer.step(net.tensors_mut(), &gradients, LR);
    }
    let end = balances(&|law| law.balance(&net.tensors()).expect("no rotation"));
    let apart = |a: &[Vec<f64>], b: &[Vec<f64>]| {
        let pairs = a.iter().flatten().zip(b.iter().flatten());
        pairs.fold(0.0, |m: f64, (a, b)| m.max((a - b).abs()))
    };
    Run {
        off: apart(&end, &predicted),
        moved: apart(&end, &start),
        delta,
        losses: (first, point(net, problem).0),
    }
}

fn net(conv: Conv, activation: Activation, bias: bool) -> GraphNet<f64> {
    let config = GraphNetConfig {
        hidden: 3,
        layers: 3,
        dropout: 0.0,
        activation,
        ..GraphNetConfig::gcn(4, 3)
    }
    .of(conv)
    .heads(2, 1)
    .attending(|a| a.residual = bias)
    .biased(bias);
    graph_net(config, 2)
}

const LEAKY: Activation = Activation::LeakyRelu { slope: 0.2 };

#[test]
fn of_plain_descent_is_exact_for_neurons() {
    for conv in CONVS {
        for (bias, decay) in [(false, 0.0), (true, 0.0), (true, 5e-2)] {
            let problem = example(4, Loss::CrossEntropy, 3);
            let net = net(conv, LEAKY, bias);
            let found = run(
                &mut net.clone(),
                &net.laws(),
                &problem,
                Algorithm::SGD,
                decay,
            );
            assert!(found.off <= 1e-9, "{conv:?}, {decay}: {found:?}");
            assert!(found.delta <= 1e-10, "{conv:?}, {decay}: {found:?}");
            // The test is not trivial: c moves, and the loss falls.
            let least = if decay > 0.0 { 0.1 } else { 1e-4 };
            assert!(found.moved > least, "{conv:?}, {decay}: {found:?}");
            assert!(found.losses.1 < 0.9 * found.losses.0, "{found:?}");
        }
    }
}

#[test]
fn of_plain_descent_is_exact_for_spaces_of_neurons() {
    for conv in [Conv::GCN, Conv::GAT] {
        for decay in [0.0, 5e-2] {
            let problem = example(4, Loss::CrossEntropy, 3);
            let net = net(conv, Activation::Identity, true);
            let found = run(
                &mut net.clone(),
                &net.laws(),
                &problem,
                Algorithm::SGD,
                decay,
            );
            assert!(found.off <= 1e-9, "{conv:?}, {decay}: {found:?}");
            assert!(found.moved > 1e-4, "{conv:?}, {decay}: {found:?}");
        }
    }
}

#[test]
fn of_plain_descent_is_exact_for_sums_over_classes() {
    for decay in [0.0, 5e-2] {
        let problem = example(4, Loss::CrossEntropy, 3);
        let net = net(Conv::GCN, LEAKY, true);
        let laws = net.softmax_laws();
        let found = run(&mut net.clone(), &laws, &problem, Algorithm::SGD, decay);
        assert!(found.off <= 1e-9, "{decay}: {found:?}");
        // Without decay sums over classes do not move at all.
        assert_eq!(found.moved > 1e-12, decay > 0.0, "{decay}: {found:?}");
    }
}

/// ‖w⁺‖² = (1 − ηλ)² ‖w‖² + η² ‖G‖²: a weight before a normalisation only grows.
#[test]
fn of_plain_descent_is_exact_for_the_size_of_a_matrix() {
    for decay in [0.0, 5e-2] {
        let problem = example(4, Loss::CrossEntropy, 3);
        let mut net = Normed::new(4, 5, 4);
        let law = net.law();
        let norm = |net: &Normed<f64>| law.balance(&[&net.weight]).unwrap()[0];
        let before = norm(&net);
        assert_eq!(before, net.weight.iter().map(|w| w * w).sum::<f64>());
        let found = run(
            &mut net,
            std::slice::from_ref(&law),
            &problem,
            Algorithm::SGD,
            decay,
        );
        assert!(found.off <= 1e-9, "{decay}: {found:?}");
        assert!(found.moved > 1e-4, "{decay}: {found:?}");
        assert_eq!(norm(&net) > before, decay == 0.0, "{decay}: {found:?}");
    }
}

fn balances(net: &impl Network<f64>, laws: &[Law]) -> Vec<f64> {
    let c = |law: &Law| law.balance(&net.tensors()).expect("no rotation");
    laws.iter().flat_map(c).collect()
}

fn apart(a: &[f64], b: &[f64]) -> f64 {
    let pairs = a.iter().zip(b);
    pairs.fold(0.0, |m: f64, (a, b)| m.max((a - b).abs()))
}

/// θ + Σ factor · direction.
fn moved(net: &GraphNet<f64>, along: &[(f64, &[Tensor<f64>])]) -> GraphNet<f64> {
    let mut net = net.clone();
    for (factor, direction) in along {
        for (p, d) in net.tensors_mut().into_iter().zip(*direction) {
            *p = (&*p + &(d * *factor)).into_shared();
        }
    }
    net
}

/// A step of dθ/dt = −G by the rule of Runge and Kutta, of fourth order.
fn runge_kutta(net: &GraphNet<f64>, problem: &Problem, h: f64) -> GraphNet<f64> {
    let slope = |net: &GraphNet<f64>| point(net, problem).1;
    let k1 = slope(net);
    let k2 = slope(&moved(net, &[(-h / 2.0, &k1)]));
    let k3 = slope(&moved(net, &[(-h / 2.0, &k2)]));
    let k4 = slope(&moved(net, &[(-h, &k3)]));
    let (a, b) = (-h / 6.0, -h / 3.0);
    moved(net, &[(a, &k1), (b, &k2), (b, &k3), (a, &k4)])
}

/// Corollary 2.3 is about gradient flow, dθ/dt = −G, along which c is constant. Steps of gradient descent are
/// not the flow. Up to the same time T = n η they change c by an amount that goes to zero with η, and a
/// better integrator of the flow keeps c. (The networks have no kinks: a step across a kink would have an
/// error of its own.)
#[test]
fn along_gradient_flow_there_is_none() {
    const TIME: f64 = 0.25;
    for conv in CONVS {
        let problem = example(4, Loss::CrossEntropy, 3);
        let mut config = net(conv, Activation::Identity, true).config;
        config = config.attending(|a| a.slope = 1.0);
        let mut net = graph_net(config, 2);
        amplify(&mut net, 0.7);
        let laws = net.laws();
        let start = balances(&net, &laws);
        // The distance of c from its start after the time T, for steps of this size.
        let after = |steps: usize, exact: bool| {
            let (mut net, h) = (net.clone(), TIME / steps as f64);
            for _ in 0..steps {
                net = match exact {
                    true => runge_kutta(&net, &problem, h),
                    false => moved(&net, &[(-h, &point(&net, &problem).1)]),
                };
            }
            apart(&balances(&net, &laws), &start)
        };
        let drifts = [25, 50, 100].map(|steps| after(steps, false));
        for pair in drifts.windows(2) {
            let ratio = pair[0] / pair[1];
            assert!((ratio - 2.0).abs() < 0.1, "{conv:?}: {drifts:?}");
        }
        assert!(drifts[2] > 1e-6, "{conv:?}: {drifts:?}");
        let flow = after(100, true);
        assert!(flow < 1e-9, "{conv:?}: {flow} along the flow");
    }
}

fn flat(x: impl IntoIterator<Item = Tensor<f64>>) -> Vec<f64> {
    x.into_iter().flat_map(|x| x.into_iter()).collect()
}

/// Heavy ball, v⁺ = μ v + G + λ θ and θ⁺ = θ − η v⁺: what [`Drift`] predicts.
#[test]
fn of_momentum_is_known_too() {
    for conv in CONVS {
        for (momentum, decay) in [(0.9, 0.0), (0.9, 1e-2), (0.5, 1e-2)] {
            let problem = example(4, Loss::CrossEntropy, 3);
            let mut net = net(conv, LEAKY, true);
            let named = net.parameters().into_iter();
            let layout = Layout::new(named.map(|p| (p.name, p.tensor.shape().to_vec())));
            let laws = of_neurons(&net);
            let generators: Vec<_> = laws.iter().flat_map(|l| l.conserving(&layout)).collect();
            let theta = |net: &GraphNet<f64>| flat(net.tensors().into_iter().cloned());
            let start = theta(&net);
            let mut drifts: Vec<_> = generators.iter().map(|g| Drift::new(g, &start)).collect();
            let method = Algorithm::Sgd(Sgd {
                momentum,
                nesterov: false,
            });
            let mut optimizer = Optimizer::new(method).weight_decay(decay);
            for _ in 0..STEPS {
                let (_, gradients) = point(&net, &problem);
                let (at, along) = (theta(&net), flat(gradients.clone()));
                for drift in &mut drifts {
                    drift.step(&at, &along, LR, momentum, decay);
                }
                optimizer.step(net.tensors_mut(), &gradients, LR);
            }
            let c = |theta: &[f64]| -> Vec<f64> {
                generators.iter().map(|g| g.conserved(theta)).collect()
            };
            let end = c(&theta(&net));
            let predicted: Vec<f64> = drifts.iter().map(Drift::conserved).collect();
            let (off, moved) = (apart(&end, &predicted), apart(&end, &c(&start)));
            assert!(off < 1e-9, "{conv:?}, μ = {momentum}, λ = {decay}: {off}");
            assert!(
                moved > 5e-3,
                "{conv:?}, μ = {momentum}, λ = {decay}: {moved}"
            );
        }
    }
}

/// Clipping by the norm of all gradients multiplies them by one number: δ stays zero, and the formula of
/// plain descent holds for the clipped gradients. Neither is true for clipping entry by entry.
/// c = ½ θᵀBθ + bᵀθ with B, with b, and with both, for gradients that are orthogonal to Bθ + b and else
/// random.
#[test]
fn of_every_generator_is_that_of_its_c() {
    let matrix = vec![(0, 0, 1.0), (1, 2, -2.0), (2, 1, -2.0), (3, 3, 0.5)];
    let vector = vec![(1, 3.0), (4, -1.0)];
    for (matrix, vector) in [
        (matrix.clone(), Vec::new()),
        (Vec::new(), vector.clone()),
        (matrix, vector),
    ] {
        let generator = Generator::new(matrix, vector);
        for (momentum, decay) in [(0.0, 0.0), (0.9, 0.0), (0.0, 0.1), (0.9, 0.1)] {
            let rng = &mut init::rng(5);
            let draw =
                |rng: &mut init::Rng| init::normal::<f64>(&[5], 1.0, rng).into_iter().collect();
            let mut theta: Vec<f64> = draw(rng);
            let mut velocity = [0.0; 5];
            let mut drift = Drift::new(&generator, &theta);
            for _ in 0..20 {
                let direction = generator.direction(&theta);
                let mut gradient: Vec<f64> = draw(rng);
                let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
                let share = dot(&gradient, &direction) / dot(&direction, &direction);
                gradient
                    .iter_mut()
                    .zip(&direction)
                    .for_each(|(g, d)| *g -= share * d);
                drift.step(&theta, &gradient, LR, momentum, decay);
                for ((v, g), x) in velocity.iter_mut().zip(&gradient).zip(&mut theta) {
                    *v = momentum * *v + g + decay * *x;
                    *x -= LR * *v;
                }
            }
            let (c, predicted) = (generator.conserved(&theta), drift.conserved());
            approx::assert_relative_eq!(predicted, c, max_relative = 1e-12, epsilon = 1e-12);
        }
    }
}

#[test]
fn of_gradients_clipped_by_their_norm_is_known_too() {
    for (clip, known) in [(Clip::GlobalNorm(0.05), true), (Clip::Value(0.01), false)] {
        for conv in CONVS {
            let problem = example(4, Loss::CrossEntropy, 3);
            let mut net = net(conv, LEAKY, true);
            let laws = net.laws();
            let mut predicted: Vec<_> = (laws.iter())
                .map(|law| law.balance(&net.tensors()).expect("no rotation"))
                .collect();
            let mut optimizer = Optimizer::new(Algorithm::SGD);
            let mut clipped = 0;
            for _ in 0..STEPS {
                let (_, mut gradients) = point(&net, &problem);
                let before = gradients.clone();
                clip.apply(&mut gradients);
                clipped += usize::from(gradients != before);
                for (law, c) in laws.iter().zip(&mut predicted) {
                    *c = law.drift(c, &gradients, LR, 0.0).expect("no rotation");
                }
                optimizer.step(net.tensors_mut(), &gradients, LR);
            }
            let off = apart(&balances(&net, &laws), &predicted.concat());
            assert!(clipped > STEPS / 2, "{clip:?}, {conv:?}: {clipped} steps");
            assert_eq!(off < 1e-9, known, "{clip:?}, {conv:?}: {off}");
        }
    }
}

#[test]
fn of_other_optimisers_is_not_that_and_their_steps_keep_the_law() {
    let momentum = Algorithm::Sgd(Sgd {
        momentum: 0.9,
        nesterov: false,
    });
    for method in [momentum, Algorithm::ADAM, Algorithm::ADAMW] {
        for (activation, conv) in [(LEAKY, CONVS[2]), (Activation::Identity, CONVS[0])] {
            let problem = example(4, Loss::CrossEntropy, 3);
            let net = net(conv, activation, true);
            let found = run(&mut net.clone(), &net.laws(), &problem, method, 0.0);
            assert!(found.delta <= 1e-10, "{method:?}: {found:?}");
            assert!(found.off > 1e-3, "{method:?}: {found:?}");
        }
    }
}
