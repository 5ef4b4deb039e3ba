//! δ and c on the tape: they equal the plain measurement, and their derivatives can be used for
//! training.

use crate::handmade::Gram;
use crate::support::*;
use emmy::autodiff::{check_grads, grad, grad_graph};
use emmy::nn::{Activation, Conv, GraphNet, GraphNetConfig, Module, Pass, Traced};
use emmy::ops::attention::{EdgeAttention, EdgeOperands, LeakySum};
use emmy::optim::{Algorithm, Optimizer};
use emmy::symmetry::{self, Law, Side, Slice, Symmetry, Term};
use emmy::{Tape, Tensor, Var, init};
use std::sync::Arc;

fn net(conv: Conv, activation: Activation) -> GraphNet<f64> {
    let config = GraphNetConfig {
        layers: 3,
        hidden: 3,
        dropout: 0.0,
        activation,
        ..GraphNetConfig::gcn(4, 3)
    }
    .of(conv)
    .heads(2, 2);
    graph_net(config, 1)
}

/// The parameters and the gradients of a loss as variables.
fn on_tape<'t>(
    pass: &Pass<'t, '_, f64>,
    net: &impl Network<f64>,
    problem: &Problem,
) -> (Var<'t, f64>, Vec<Var<'t, f64>>, Vec<Var<'t, f64>>) {
    let loss = problem.loss.of(net.outputs(pass, problem), problem.seed);
    let theta: Vec<_> = net.tensors().into_iter().map(|p| pass.param(p)).collect();
    let g = grad_graph(loss, &theta);
    (loss, theta, g)
}

/// An incomplete law with incoming terms only: its δ is not zero.
fn incoming_only(law: &Law) -> Law {
    let terms = law.side(Side::Incoming).cloned().collect();
    Law::new(law.name.clone(), law.layer, law.symmetry, terms)
}

#[track_caller]
fn agree(laws: &[Law], net: &impl Network<f64>, problem: &Problem) {
    let tape = Tape::new();
    let pass = Pass::train(&tape, net, problem.seed);
    let (_, theta, g) = on_tape(&pass, net, problem);
    let (_, gradients) = point(net, problem);
    let same = |a: Var<'_, f64>, b: &[f64]| {
        let value = a.value();
        assert_eq!(value.len(), b.len());
        let off = value
            .iter()
            .zip(b)
            .fold(0.0_f64, |m, (a, b)| m.max((a - b).abs()));
        assert!(off < 1e-12, "{off}");
    };
    for law in laws {
        for law in [law, &incoming_only(law)] {
            let expected = measure(law, net, &gradients);
            same(symmetry::delta(law, &theta, &g), &expected.delta);
            match law.balance(&net.tensors()) {
                Some(c) => same(symmetry::balance(law, &theta).unwrap(), &c),
                None => assert!(symmetry::balance(law, &theta).is_none()),
            }
        }
    }
}

#[test]
fn the_measured_values_are_those_on_the_tape() {
    let problem = example(4, Loss::CrossEntropy, 2);
    for conv in CONVS {
        for activation in [Activation::Relu, Activation::Identity] {
            let net = net(conv, activation);
            agree(&[net.laws(), net.softmax_laws()].concat(), &net, &problem);
        }
    }
    let gram = Gram::new(4, 3, 5);
    agree(&[gram.law()], &gram, &problem);
}

/// Two layers on variables: GATv2 with shared weights and two heads of two neurons, ReLU, a matrix.
/// Parameters W, a, V.
fn loss_of<'t>(args: &[Var<'t, f64>], x: &Tensor<f64>, edges: &EdgeAttention) -> Var<'t, f64> {
    let x = args[0].tape().constant(x.clone());
    let n = x.shape()[0];
    let z = x.linear(args[0]).reshape(&[n, 2, 2]);
    let score = LeakySum { slope: 0.2 };
    let h = edges.attend(score, EdgeOperands::gatv2(z, z, args[1]));
    let h = h.reshape(&[n, 4]);
    let y = h.leaky_relu(0.3).linear(args[2]);
    y.tanh().sum_all() + (y * y).mean(&[], false)
}

/// A law of that network of each kind, each with a part missing, so that δ is not zero everywhere.
fn broken() -> Vec<Law> {
    let (rows, a) = (Slice::new(0, [1, 4, 3]), Slice::new(1, [1, 4, 1]));
    let columns = Slice::new(2, [2, 4, 1]);
    let all = [
        Symmetry::Rescaling,
        Symmetry::Linear,
        Symmetry::Rotation,
        Symmetry::Translation,
    ];
    all.map(|symmetry| {
        let terms = vec![
            Term::incoming(rows.clone()),
            Term::attention(a.clone()),
            Term::outgoing(columns.clone()).times(2.0),
        ];
        Law::new("broken", 1, symmetry, terms)
    })
    .to_vec()
}

#[test]
fn both_have_the_derivatives_that_differences_show() {
    let edges = EdgeAttention {
        pattern: Arc::clone(example(3, Loss::Smooth, 1).graph.pattern()),
        dropout: None,
    };
    let rng = &mut init::rng(4);
    let x: Tensor<f64> = init::normal(&[12, 3], 1.0, rng);
    let args: Vec<Tensor<f64>> = [[4, 3], [2, 2], [2, 4]]
        .map(|shape| init::normal(&shape, 0.7, rng))
        .to_vec();
    for law in broken() {
        let delta = |args: &[Var<'_, f64>]| -> Vec<f64> {
            let g = grad_graph(loss_of(args, &x, &edges), args);
            let value = symmetry::delta(&law, args, &g).value();
            value.iter().copied().collect()
        };
        let tape = Tape::new();
        let vars: Vec<_> = args.iter().map(|x| tape.var(x.clone())).collect();
        assert!(delta(&vars).iter().any(|d| d.abs() > 1e-2));
        let checked = check(&law, &x, &edges, &args);
        checked.unwrap_or_else(|e| panic!("{:?}: {e}", law.symmetry));
    }
}

fn check(
    law: &Law,
    x: &Tensor<f64>,
    edges: &EdgeAttention,
    args: &[Tensor<f64>],
) -> emmy::Result<()> {
    check_grads(
        |args| {
            // If only the value is needed, the arguments are constants; even then δ needs the gradients of a
            // loss.
            let variable = |x: &Var<'_, f64>| x.is_differentiable();
            let fresh: Vec<_> = args.iter().map(|x| x.tape().var(x.value())).collect();
            let args = if args.iter().all(variable) {
                args
            } else {
                &fresh
            };
            symmetry::delta(law, args, &grad_graph(loss_of(args, x, edges), args))
        },
        args,
    )?;
    match law.symmetry {
        Symmetry::Rotation => Ok(()),
        // By a sum the second derivative is none: a function of c has one.
        _ => check_grads(
            |args| symmetry::balance(law, args).expect("no rotation").powf(2.0),
            args,
        ),
    }
}

/// The mean of the squares of c over all laws.
fn imbalance<'t>(laws: &[Law], theta: &[Var<'t, f64>]) -> Var<'t, f64> {
    let each = laws.iter().map(|law| {
        let c = symmetry::balance(law, theta).expect("no rotation");
        (c * c).mean(&[], false)
    });
    let count = laws.len() as f64;
    each.reduce(|a, b| a + b)
        .expect("a law")
        .scale(count.recip())
}

/// The gradient of c_j is twice the change under which the loss stays as it is. So descent on the imbalance
/// alone walks along the symmetry: it balances the network and, up to the length of its steps, leaves the
/// loss alone.
#[test]
fn descent_on_imbalance_balances_and_keeps_the_loss() {
    for conv in CONVS {
        let mut net = net(conv, Activation::Relu);
        let (laws, problem) = (of_neurons(&net), example(4, Loss::CrossEntropy, 2));
        let (before, _) = point(&net, &problem);
        let mut seen = Vec::new();
        for _ in 0..300 {
            let tape = Tape::new();
            let theta: Vec<_> = net
                .tensors()
                .into_iter()
                .map(|p| tape.var(p.clone()))
                .collect();
            let penalty = imbalance(&laws, &theta);
            seen.push(penalty.item());
            let gradients = grad(penalty, &theta);
            Optimizer::new(Algorithm::SGD).step(net.tensors_mut(), &gradients, 0.04);
        }
        let (first, last) = (seen[0], seen[seen.len() - 1]);
        assert!(
            first > 0.1 && last < 1e-4 * first,
            "{conv:?}: {first} to {last}"
        );
        let (after, _) = point(&net, &problem);
        assert!(
            (after - before).abs() < 0.02 * before,
            "{conv:?}: {before} to {after}"
        );
    }
}

/// Training on the loss and the penalty together: the loss falls, and the network becomes balanced.
#[test]
fn a_penalty_on_imbalance_trains_beside_the_loss() {
    let mut net = net(Conv::gatv2(false), Activation::Relu);
    let (laws, problem) = (of_neurons(&net), example(4, Loss::CrossEntropy, 2));
    let mut seen = Vec::new();
    for _ in 0..300 {
        let tape = Tape::new();
        let pass = Pass::train(&tape, &net, 0);
        let loss = problem.loss.of(net.outputs(&pass, &problem), problem.seed);
        let theta: Vec<_> = net.tensors().into_iter().map(|p| pass.param(p)).collect();
        let penalty = imbalance(&laws, &theta);
        seen.push((loss.item(), penalty.item()));
        let gradients = grad(loss + penalty, &theta);
        Optimizer::new(Algorithm::SGD).step(net.tensors_mut(), &gradients, 0.05);
    }
    let (first, last) = (seen[0], seen[seen.len() - 1]);
    assert!(
        last.0 < 0.7 * first.0 && last.1 < 1e-3 * first.1,
        "{first:?} to {last:?}"
    );
}

/// δ of the theorem as printed is not identically zero, so training can make it smaller. This uses second
/// derivatives through attention.
#[test]
fn delta_of_a_broken_law_can_be_trained_away() {
    let mut net = net(Conv::gatv2(false), Activation::Relu);
    let problem = example(4, Loss::CrossEntropy, 2);
    let laws: Vec<Law> = of_neurons(&net)
        .iter()
        .map(|law| printed(&net, law))
        .collect();
    let mut seen = Vec::new();
    for _ in 0..150 {
        let tape = Tape::new();
        let pass = Pass::train(&tape, &net, 0);
        let (_, theta, g) = on_tape(&pass, &net, &problem);
        let each = laws.iter().map(|law| {
            let delta = symmetry::delta(law, &theta, &g);
            (delta * delta).sum_all()
        });
        let penalty = each.reduce(|a, b| a + b).unwrap();
        seen.push(penalty.item());
        let gradients = grad(penalty, &theta);
        Optimizer::new(Algorithm::ADAM).step(net.tensors_mut(), &gradients, 0.01);
    }
    let (first, last) = (seen[0], seen[seen.len() - 1]);
    assert!(first > 1e-5 && last < 0.05 * first, "{first} to {last}");
}

/// If a law holds, δ is zero everywhere, and so is its derivative.
#[test]
fn the_derivative_of_delta_vanishes_where_the_law_holds() {
    let net = net(Conv::gatv2(false), Activation::Relu);
    let problem = example(4, Loss::CrossEntropy, 2);
    let tape = Tape::new();
    let pass = Pass::train(&tape, &net, 0);
    let (_, theta, g) = on_tape(&pass, &net, &problem);
    let slope = |law: &Law| {
        let gradients = grad(symmetry::delta(law, &theta, &g).sum_all(), &theta);
        gradients
            .iter()
            .flatten()
            .fold(0.0_f64, |m, x| m.max(x.abs()))
    };
    for law in of_neurons(&net) {
        assert!(slope(&law) < 1e-12, "{}: {}", law.name, slope(&law));
        assert!(slope(&printed(&net, &law)) > 1e-4);
    }
}
