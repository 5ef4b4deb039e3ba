//! Each check passes on what is right, and fails on what is wrong.

use crate::wrong::{atan, not_homogeneous, silent_relu, sine};
use emmy::graph::generators::random_graph;
use emmy::lipschitz::{Bound, Lp, Upper, declare};
use emmy::nn::{Activation, GcnConv, LayerNorm, Linear, Mlp, Trace};
use emmy::symmetry::{Law, Search, Slice, Symmetry, Term};
use emmy::testing::{
    Attack, Loss, Report, Subject, Verdict, assert_complete, assert_drift, assert_equivariant,
    assert_grads, assert_hessian, assert_invariant, assert_kind, assert_laws, assert_lipschitz,
    assert_round_trip, assert_same_bits, assert_torch_names, check_bound, check_complete,
    check_drift, check_drift_of, check_equivariant, check_grads, check_invariant,
    check_invariant_of, check_kind, check_laws, check_laws_of, check_lipschitz, check_round_trip,
    check_same_bits, check_torch_names,
};
use emmy::{Real, Tensor, Var, init};

fn normal<F: Real>(shape: &[usize], seed: u64) -> Tensor<F> {
    init::normal(shape, 1.0, &mut init::rng(seed))
}

fn perceptron<F: Real>(activation: Activation) -> Mlp<F> {
    let mut net = Mlp::new(&[3, 5, 4, 2], activation, true, &mut init::rng(0));
    for layer in &mut net.layers {
        let bias = layer.bias.as_mut().expect("with biases");
        *bias = init::normal(bias.shape(), 0.5, &mut init::rng(1));
    }
    net
}

#[test]
fn a_perceptron_passes_all() {
    let net = perceptron::<f64>(Activation::LeakyRelu { slope: 0.2 });
    let x = normal(&[6, 3], 2);
    for loss in Loss::ALL {
        let subject = Subject::new(&net, &x, 5, |pass, x| net.forward(pass, x)).with_loss(loss);
        let report = assert_laws(&subject);
        assert_eq!(
            report.rows.len(),
            2 + 2 * usize::from(loss.ignores_shifts()),
            "{report}"
        );
        assert!(!report.is_vacuous());
        let report = assert_drift(&subject, 0.05, 20);
        assert_eq!(
            report.rows.len(),
            4 * (2 + 2 * usize::from(loss.ignores_shifts()))
        );
        assert!(report.with(Verdict::Holds).count() >= 8, "{report}");
    }
    let subject = Subject::new(&net, &x, 5, |pass, x| net.forward(pass, x));
    assert_eq!(assert_invariant(&subject).with(Verdict::Holds).count(), 2);
    assert_complete(&subject, &Search::default());
    assert_grads(&subject);
    assert_hessian(&subject);
    assert_equivariant(&subject);
    assert_same_bits(&subject);
    for p in Lp::ALL {
        let report = assert_lipschitz(&subject, p);
        let r = report.rows[0].r.unwrap();
        assert!(r > 0.1, "{report}");
    }
    let mut other = Mlp::new(&[3, 5, 4, 2], Activation::Relu, true, &mut init::rng(9));
    let report = assert_round_trip(&net, &mut other);
    // The file and six tensors; all biases of the other model are zero.
    assert_eq!(
        (report.rows.len(), report.with(Verdict::Vacuous).count()),
        (7, 0)
    );
    assert_eq!(other.layers[1].weight, net.layers[1].weight);
}

#[test]
fn single_precision_passes_with_its_own_tolerance() {
    let net = perceptron::<f32>(Activation::Relu);
    let subject = Subject::new(&net, &normal(&[6, 3], 2), 5, |pass, x| net.forward(pass, x));
    assert!(assert_laws(&subject).worst() > 1e-10);
    assert_invariant(&subject);
    assert_equivariant(&subject);
    assert_lipschitz(&subject, Lp::Two);
}

/// An operation that says what is false: laws are read that do not hold.
#[test]
fn a_false_claim_fails_wherever_it_is_used() {
    let layers = [(3, 5), (5, 2)].map(|(i, o)| Linear::<f64>::new(i, o, true, &mut init::rng(0)));
    let (x, layers) = (normal(&[6, 3], 2), layers.to_vec());
    let subject = Subject::new(&layers, &x, 5, |pass, x| {
        let y = not_homogeneous(layers[0].forward(pass, x));
        layers[1].forward(pass, y)
    });
    let fails = |report: Report| assert!(report.with(Verdict::Fails).count() > 0, "{report}");
    fails(check_laws(&subject));
    fails(check_invariant(&subject));
    fails(check_drift(&subject, 0.05, 20));
    fails(check_complete(&subject, &Search::default()));
    // Each of them takes a law of one's own.
    let laws = subject.laws();
    fails(check_invariant_of(&subject, &laws));
    fails(check_drift_of(&subject, &laws, 0.05, 20));
    assert!(check_drift_of(&subject, &[], 0.05, 20).is_vacuous());
    let args = vec![normal(&[4, 2], 3)];
    let operation = Subject::function(&args, 0, |x| not_homogeneous(x[0]));
    let report = check_kind(&operation);
    assert!(report.rows[0].note.contains("degree"), "{report}");
    fails(report);
    assert_kind(&Subject::function(&args, 0, |x| x[0].tanh()));
}

/// Σ_j (x_i + x_j) − n x_i − Σ_j x_j is 0, so what is computed is rounding, and its order says nothing.
#[test]
fn outputs_that_are_rounding_test_nothing() {
    fn rest(x: Var<'_, f64>) -> Var<'_, f64> {
        (x + x.t()).sum(&[1], true) - x.scale(7.0) - x.sum(&[0], true)
    }
    let none: Vec<Tensor<f64>> = Vec::new();
    let x = normal(&[7, 1], 1);
    let subject = Subject::new(&none, &x, 0, |_, x| rest(x));
    let report = check_equivariant(&subject);
    assert!(
        report.is_vacuous() && report.to_string().contains("rounding"),
        "{report}"
    );
    // An error that is larger than this rounding is found.
    let places = normal(&[7, 1], 2);
    let wrong = Subject::new(&none, &x, 0, |_, x| {
        rest(x) + x.tape().constant(places.clone()).scale(1e-10)
    });
    assert!(!check_equivariant(&wrong).holds());
}

/// In single precision a part of x + 1000 is rounding, and so is a part of its quotient. The Jacobian is too
/// large to be computed as a whole.
#[test]
fn an_attack_says_what_may_be_rounding() {
    let none: Vec<Tensor<f32>> = Vec::new();
    let subject = Subject::new(&none, &normal(&[300, 1], 1), 0, |_, x| x.add_scalar(1e3));
    let report = check_bound(&subject, Lp::One, 2.0, &attack(0, 5));
    let r = report.rows[0].r.expect("a bound");
    assert!(report.holds() && (0.2..0.495).contains(&r), "{report}");
    assert!(report.rows[0].note.contains("may be rounding"), "{report}");
}

fn attack(restarts: usize, steps: usize) -> Attack {
    Attack {
        restarts,
        steps,
        ..Attack::default()
    }
}

/// Two operations are not one, and have no kind to check.
#[test]
fn a_composition_is_not_an_operation() {
    let args = vec![normal(&[4, 2], 3)];
    assert!(!check_kind(&Subject::function(&args, 0, |x| x[0].tanh().exp())).holds());
}

/// An operation that says nothing ends the laws; the search finds those that are left out.
#[test]
fn laws_that_are_not_declared_are_found() {
    let layers = vec![
        Linear::<f64>::new(3, 5, true, &mut init::rng(0)),
        Linear::new(5, 2, true, &mut init::rng(1)),
    ];
    let x = normal(&[6, 3], 2);
    let subject = Subject::new(&layers, &x, 5, |pass, x| {
        layers[1].forward(pass, silent_relu(layers[0].forward(pass, x)))
    });
    assert!(assert_laws(&subject).is_vacuous());
    let report = check_complete(&subject, &Search::default());
    let row = report
        .with(Verdict::Fails)
        .next()
        .expect("laws are missing");
    assert_eq!((row.left, row.right), (0.0, 5.0), "{report}");
    assert!(row.note.contains("⟨0.weight[0,:], G⟩"), "{report}");
    // Too large to be counted: unknown is not complete.
    let search = Search {
        count_up_to: 3,
        ..Search::default()
    };
    let report = check_complete(&subject, &search);
    assert_eq!(report.with(Verdict::Unknown).count(), 1, "{report}");
}

#[test]
fn an_operation_without_a_bound_is_unknown() {
    let layer = Linear::<f64>::new(3, 5, true, &mut init::rng(0));
    let x = normal(&[6, 3], 2);
    let subject = Subject::new(&layer, &x, 5, |pass, x| sine(layer.forward(pass, x), 1.0));
    let report = check_lipschitz(&subject, Lp::Two, &Attack::default());
    assert_eq!(report.rows[0].verdict, Verdict::Unknown);
    assert!(report.rows[0].note.contains("sine"), "{report}");
    let alone = Subject::without_input(&layer, 5, |pass| {
        layer.forward(pass, pass.tape().constant(x.clone()))
    });
    assert!(!check_lipschitz(&alone, Lp::Two, &Attack::default()).holds());
    assert!(!check_equivariant(&alone).holds());
    assert_grads(&alone);
}

#[test]
fn nodes_are_relabelled_with_their_graph() {
    let graph = random_graph(8, 14, 3);
    let layer = GcnConv::<f64>::new(3, 4, true, &mut init::rng(0));
    let x = normal(&[8, 3], 1);
    let on = |how: usize| {
        let fixed = graph.gcn_norm::<f64>();
        let subject = Subject::on_graph(&layer, &x, &graph, 4, |pass, x, graph| {
            let y = layer.forward(pass, x, &graph.gcn_norm());
            match how {
                0 => y,
                1 => y.sum(&[0], false),
                // The graph stays behind.
                2 => layer.forward(pass, x, &fixed),
                // A position in the list.
                _ => y + pass.tape().constant(normal(&[8, 1], 7)),
            }
        });
        check_equivariant(&subject)
    };
    assert_eq!(
        [0, 1, 2, 3].map(|how| on(how).holds()),
        [true, true, false, false]
    );
}

/// The tokens of every sequence are relabelled, not the sequences; and a mean over three nodes of three
/// features is as right as three rows would be.
#[test]
fn rows_are_those_of_the_last_axis_but_one() {
    let none: Vec<Tensor<f64>> = Vec::new();
    let (tokens, places) = (normal(&[3, 4, 2], 0), normal::<f64>(&[1, 4, 2], 1));
    let with_places = Subject::new(&none, &tokens, 0, |_, x| {
        x + x.tape().constant(places.clone())
    });
    assert!(!check_equivariant(&with_places).holds());
    assert_equivariant(&Subject::new(&none, &tokens, 0, |_, x| x.softmax(-1)));
    let square = normal(&[3, 3], 0);
    assert_equivariant(&Subject::new(&none, &square, 0, |_, x| x.sum(&[0], false)));
    let weights = normal::<f64>(&[3, 1], 1);
    let weighted = Subject::new(&none, &square, 0, |_, x| {
        (x * x.tape().constant(weights.clone())).sum(&[0], false)
    });
    assert!(!check_equivariant(&weighted).holds());
}

/// What compares nothing is vacuous: an operation that says nothing, arrays too small to be shared, a
/// derivative below the rounding of its outputs, and weights of a dead neuron.
#[test]
fn what_compares_nothing_is_vacuous() {
    let args = vec![normal::<f64>(&[4, 2], 0)];
    assert!(assert_kind(&Subject::function(&args, 0, |x| silent_relu(x[0]))).is_vacuous());
    assert!(assert_same_bits(&Subject::function(&args, 0, |x| x[0].tanh())).is_vacuous());
    let large = vec![normal::<f64>(&[400, 400], 0)];
    assert!(!assert_same_bits(&Subject::function(&large, 0, |x| x[0].tanh())).is_vacuous());
    // The derivative is wrong by a factor of 2, which no difference of numbers near 10⁴ shows.
    let hidden = Subject::function(&args, 0, |x: &[Var<'_, f64>]| {
        let value = emmy::kernels::map::unary(&x[0].value(), f64::sin);
        let sine = x[0].unary("sine", value, |p| p.gy() * p.x().cos() * 2.0);
        sine.scale(1e-7).add_scalar(1e4)
    });
    assert_ne!(check_grads(&hidden).rows[0].verdict, Verdict::Holds);
    let mut net = Mlp::<f64>::new(&[3, 1, 2], Activation::Relu, true, &mut init::rng(0));
    net.layers[0].bias = Some(Tensor::from_elem(vec![1], -100.0));
    let x = normal(&[5, 3], 1);
    let dead = Subject::new(&net, &x, 5, |pass, x| net.forward(pass, x));
    assert!(assert_invariant(&dead).is_vacuous());
    // Steps too small to move c by more than rounding.
    let net = perceptron::<f64>(Activation::Relu);
    let subject = Subject::new(&net, &x, 5, |pass, x| net.forward(pass, x));
    assert!(assert_drift(&subject, 1e-9, 1).is_vacuous());
}

/// A bound is not below what is not finite, and an infinite one is no bound.
#[test]
fn outputs_that_are_not_finite_have_no_bound() {
    let none: Vec<Tensor<f64>> = Vec::new();
    let x = normal(&[1, 2], 0);
    let verdict = |factor: f64, bound: f64| {
        let subject = Subject::new(&none, &x, 0, |_, x| x.scale(factor));
        let report = check_bound(&subject, Lp::Two, bound, &Attack::default());
        report.rows[0].verdict
    };
    assert_eq!(verdict(f64::NAN, 1.0), Verdict::Unknown);
    assert_eq!(verdict(f64::INFINITY, 1.0), Verdict::Unknown);
    assert_eq!(verdict(1.0, f64::INFINITY), Verdict::Unknown);
    assert_eq!(verdict(1.0, 1.0), Verdict::Holds);
}

/// An operation whose bound is declared is checked without the declaration.
#[test]
fn a_declared_operation_has_its_kind() {
    let args = vec![normal::<f64>(&[4, 2], 0)];
    assert_kind(&Subject::function(&args, 0, |x| atan(x[0], 1.0)));
    let operations: [fn(Var<'_, f64>) -> Var<'_, f64>; 2] = [|x| x.tanh(), not_homogeneous];
    let verdicts = operations.map(|operation| {
        let declared = Subject::function(&args, 0, |x: &[Var<'_, f64>]| {
            let bound = |p| (p, Bound::number(x[0].tape(), Upper::ONE));
            declare(operation(x[0]), &[x[0]], Lp::ALL.map(bound))
        });
        check_kind(&declared).rows[0].verdict
    });
    assert_eq!(verdicts, [Verdict::Holds, Verdict::Fails]);
}

#[test]
fn names_and_shapes_are_those_of_a_state_dict() {
    let layer = Linear::<f64>::new(3, 5, true, &mut init::rng(0));
    assert_torch_names(&layer, &[("weight", &[5, 3]), ("bias", &[5])]);
    let fails = |expected: &[(&str, &[usize])]| {
        let report = check_torch_names(&layer, expected);
        assert_eq!(report.with(Verdict::Fails).count(), 1, "{report}");
    };
    fails(&[("weight", &[3, 5]), ("bias", &[5])]);
    fails(&[("weight", &[5, 3])]);
    fails(&[("weight", &[5, 3]), ("bias", &[5]), ("gain", &[5])]);
}

#[test]
fn a_result_that_depends_on_threads_fails() {
    let args = vec![normal::<f64>(&[4, 2], 3)];
    let honest = Subject::function(&args, 0, |x| x[0].tanh());
    assert_eq!(assert_same_bits(&honest).rows.len(), 3);
    let threads = Subject::function(&args, 0, |x: &[Var<'_, f64>]| {
        x[0] * (rayon::current_num_threads() as f64).sqrt()
    });
    assert_eq!(check_same_bits(&threads).with(Verdict::Fails).count(), 3);
}

#[test]
fn a_file_of_another_shape_is_no_round_trip() {
    let layer = Linear::<f64>::new(3, 5, false, &mut init::rng(0));
    let mut same = layer.clone();
    let report = check_round_trip(&layer, &mut same);
    assert!(
        report.holds() && report.with(Verdict::Vacuous).count() == 1,
        "{report}"
    );
    let mut other = Linear::<f64>::new(3, 4, false, &mut init::rng(1));
    assert!(!check_round_trip(&layer, &mut other).holds());
}

/// Dropout follows from the seed, and a norm over a batch is that of a training pass.
#[test]
fn passes_are_training_passes_with_one_seed() {
    let layer = Linear::<f64>::new(3, 4, true, &mut init::rng(0));
    let norm = LayerNorm::<f64>::new(4);
    let model = (layer, norm);
    let subject = Subject::new(&model, &normal(&[5, 3], 1), 3, |pass, x| {
        let y = model.1.forward(pass, model.0.forward(pass, x));
        y.dropout(0.4, pass.draw().expect("a training pass"))
    });
    assert_grads(&subject);
    assert_laws(&subject);
}

/// Every number is below an infinite bound: that is no test.
#[test]
fn an_infinite_bound_is_unknown() {
    let mut net = Linear::<f64>::new(2, 2, false, &mut init::rng(0));
    net.weight[[0, 0]] = f64::INFINITY;
    let x = init::normal(&[1, 2], 1.0, &mut init::rng(1));
    let subject = Subject::new(&net, &x, 7, |pass, x| net.forward(pass, x));
    let report = check_lipschitz(&subject, Lp::Two, &Attack::default());
    assert_eq!(report.rows[0].verdict, Verdict::Unknown, "{report}");
    assert!(!report.holds());
}

/// The Jacobian of a model of singles has rounding errors. They are not an excess over the bound.
#[test]
fn the_bound_of_a_linear_net_of_singles_holds() {
    for seed in 0..40 {
        let net = Mlp::<f32>::new(
            &[2, 3, 2],
            Activation::Identity,
            false,
            &mut init::rng(seed),
        );
        let x = init::normal(&[1, 2], 1.0, &mut init::rng(100 + seed));
        for p in Lp::ALL {
            let trace = Trace::at(&net, &x, |pass, x| net.forward(pass, x));
            let interval = trace.lipschitz(p).unwrap();
            assert!(
                interval.lower.get() <= interval.upper.get(),
                "{seed}, {p}: {interval}"
            );
            let subject = Subject::new(&net, &x, seed, |pass, x| net.forward(pass, x));
            let attack = Attack {
                restarts: 1,
                steps: 5,
                ..Attack::default()
            };
            let report = check_lipschitz(&subject, p, &attack);
            assert!(report.holds(), "{seed}, {p}: {report}");
        }
    }
}

/// A false law is not said to hold because all gradients are tiny.
#[test]
fn a_false_shift_of_a_small_output_does_not_hold() {
    for (size, holds) in [(1.0, false), (1e-12, false), (1e-15, true), (1e-20, true)] {
        let net = Mlp::<f64>::new(&[3, 4, 2], Activation::Tanh, false, &mut init::rng(0));
        let x = init::normal(&[5, 3], 1.0, &mut init::rng(1));
        let subject = Subject::new(&net, &x, 2, |pass, x| net.forward(pass, x).scale(size));
        let shift = Law::new(
            "shift".to_owned(),
            1,
            Symmetry::Translation,
            vec![Term::incoming(Slice::new(0, [1, 4, 3]))],
        );
        let report = check_laws_of(&subject, &[shift]);
        assert_eq!(report.holds(), holds, "{size}: {report}");
        let vacuous = report.with(Verdict::Vacuous).count();
        assert_eq!(vacuous, usize::from(holds), "{size}: {report}");
    }
}
