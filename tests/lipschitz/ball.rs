//! Bounds on a ball around one input: never below what is found on it, never above the bound for all inputs,
//! and the norm of the Jacobian where no neuron can change its slope.

use crate::cases::cases;
use emmy::init::{self, Rng};
use emmy::lipschitz::{Domain, Lp, bound, jacobian_norm, quotient};
use emmy::{Tape, Tensor, Var, tensor::tensor};

fn draw(shape: &[usize], rng: &mut Rng) -> Tensor<f64> {
    init::normal(shape, 1.0, rng)
}

type Net<'a> = dyn for<'t> Fn(Var<'t, f64>) -> Var<'t, f64> + 'a;

fn upper(f: &Net<'_>, x: &Tensor<f64>, domain: Domain) -> f64 {
    let tape = Tape::new();
    let x = tape.var(x.clone());
    bound(f(x), x, Lp::Two, domain).map_or(f64::INFINITY, |found| found.upper().get())
}

/// The largest norm of a Jacobian, and the largest quotient, that a climb by steps in the ball finds.
fn attack(f: &Net<'_>, center: &Tensor<f64>, radius: f64, seed: u64) -> f64 {
    let rng = &mut init::rng(seed);
    let inside = |x: &Tensor<f64>| -> Tensor<f64> {
        let moved = x - center;
        let length = moved.iter().map(|x| x * x).sum::<f64>().sqrt();
        let part = (radius / length.max(1e-300)).min(1.0);
        (center + &(moved * part)).into_shared()
    };
    let norm = |x: &Tensor<f64>| {
        let tape = Tape::new();
        let x = tape.var(x.clone());
        jacobian_norm(f(x), x, Lp::Two).0.lower.get()
    };
    let mut x = inside(&(center + &(draw(center.shape(), rng) * radius)).into_shared());
    let (mut best, mut size) = (norm(&x).max(norm(center)), radius);
    for _ in 0..40 {
        let next = inside(&(&x + &(draw(center.shape(), rng) * size)).into_shared());
        let pair = quotient(f, &x, &next, Lp::Two);
        let there = norm(&next);
        best = best.max(pair.get()).max(there);
        match there >= norm(&x) {
            true => x = next,
            false => size *= 0.9,
        }
    }
    best
}

/// Chains, residual blocks, and smooth activations.
fn nets(weights: &[Tensor<f64>; 3]) -> Vec<Box<Net<'_>>> {
    vec![
        Box::new(move |x| layers(x, weights, |x| x.relu())),
        Box::new(move |x| layers(x, weights, |x| x.leaky_relu(0.1))),
        Box::new(move |x| layers(x, weights, |x| x.tanh())),
        Box::new(move |x| layers(x, weights, |x| x.gelu())),
        Box::new(move |x| {
            let [a, b, _] = weights.each_ref().map(|w| x.tape().constant(w.clone()));
            let h = x + x.linear(a).add_scalar(0.3).relu().linear(a.t());
            h + h.linear(a).relu().linear(b).relu().linear(a.t())
        }),
        // One layer of neurons.
        Box::new(move |x| {
            let [a, _, c] = weights.each_ref().map(|w| x.tape().constant(w.clone()));
            x.linear(a).relu().linear(c)
        }),
    ]
}

/// Norms, in front of what moves their input and behind it.
fn normed(weights: &[Tensor<f64>; 3]) -> Vec<Box<Net<'_>>> {
    vec![
        Box::new(move |x| layers(x, weights, |x| x.layer_norm(None, None, 1e-2).tanh())),
        Box::new(move |x| {
            let a = x.tape().constant(weights[0].clone());
            let read = x.layer_norm(None, None, 1e-2).linear(a);
            (x + read.relu().linear(a.t())).rms_norm(None, 1e-2)
        }),
        // By its parts, as PairNorm.
        Box::new(move |x| {
            let h = layers(x, weights, |x| x.tanh());
            h / h.square().mean_all().add_scalar(1e-2).sqrt()
        }),
    ]
}

fn layers<'t>(
    x: Var<'t, f64>,
    weights: &[Tensor<f64>; 3],
    f: impl Fn(Var<'t, f64>) -> Var<'t, f64>,
) -> Var<'t, f64> {
    let [a, b, c] = weights.each_ref().map(|w| x.tape().constant(w.clone()));
    f(f(x.linear(a).add_scalar(0.2)).linear(b)).linear(c)
}

#[test]
#[ignore = "takes seconds: cargo test -- --include-ignored"]
fn a_bound_on_a_ball_is_between_what_is_found_there_and_the_bound_everywhere() {
    for seed in cases(1) {
        let rng = &mut init::rng(seed);
        let weights = [draw(&[8, 4], rng), draw(&[8, 8], rng), draw(&[2, 8], rng)];
        let x = draw(&[1, 4], rng);
        for (k, net) in nets(&weights).iter().chain(&normed(&weights)).enumerate() {
            let everywhere = upper(net, &x, Domain::Everywhere);
            let mut before = 0.0;
            for radius in [0.0, 1e-3, 0.1, 1.0, 100.0] {
                let on_ball = upper(&net, &x, Domain::Ball(radius));
                assert!(radius > 0.1 || on_ball < 1e3, "net {k}: {on_ball}");
                let found = attack(net, &x, radius, 7 * seed + k as u64);
                assert!(
                    found <= on_ball * (1.0 + 1e-9) && on_ball <= everywhere,
                    "net {k}, radius {radius}: found {found}, {on_ball}, everywhere {everywhere}"
                );
                // A larger ball has a larger bound, but for the accuracy of the search, which is less where
                // slopes are nearly fixed.
                let accuracy = if k == 2 || k == 3 { 0.02 } else { 1e-4 };
                assert!(
                    before <= on_ball * (1.0 + accuracy),
                    "net {k}, radius {radius}: {before} then {on_ball}"
                );
                before = on_ball;
            }
        }
    }
}

#[test]
fn where_no_neuron_changes_its_slope_the_bound_is_the_norm_of_the_jacobian() {
    for seed in cases(6) {
        let rng = &mut init::rng(100 + seed);
        let weights = [draw(&[8, 4], rng), draw(&[8, 8], rng), draw(&[2, 8], rng)];
        let x = draw(&[1, 4], rng);
        for (k, net) in nets(&weights).iter().enumerate() {
            let tape = Tape::new();
            let at = tape.var(x.clone());
            let exact = jacobian_norm(net(at), at, Lp::Two).0.lower.get();
            // Smooth activations keep no slope on a ball, but nearly so on a small one.
            let (radius, accuracy) = match k {
                2 | 3 => (1e-6, 0.02),
                _ => (1e-5, 1e-9),
            };
            let on_ball = upper(&net, &x, Domain::Ball(radius));
            assert!(
                exact <= on_ball * (1.0 + 1e-12) && on_ball <= exact * (1.0 + accuracy),
                "net {k}, seed {seed}: the norm is {exact}, the bound {on_ball}"
            );
        }
    }
}

/// Several rows share the neurons, which then have the slopes of all rows; a propagation over a graph counts
/// with its norm. Attention has limits on a ball.
#[test]
fn rows_and_attention_have_bounds_on_a_ball() {
    let rng = &mut init::rng(3);
    let weights = [draw(&[8, 4], rng), draw(&[8, 8], rng), draw(&[2, 8], rng)];
    let csr = emmy::graph::generators::path(3).gcn_norm();
    let of_graph: Box<Net<'_>> = Box::new(|x| {
        let s = x.tape().sparse(&csr);
        let [a, b, c] = weights.each_ref().map(|w| x.tape().constant(w.clone()));
        let h = s.matmul(x.linear(a)).relu();
        s.matmul(h.linear(b)).relu().linear(c)
    });
    let of_attention: Box<Net<'_>> = Box::new(|x| x.matmul(x.t()).softmax(-1).matmul(x));
    let x = draw(&[3, 4], rng);
    let nets: [(Box<Net<'_>>, bool); 2] = [(of_graph, true), (of_attention, false)];
    for (net, is_bounded_everywhere) in nets {
        let mut before = 0.0;
        for radius in [1e-3, 0.1, 1.0] {
            let on_ball = upper(&net, &x, Domain::Ball(radius));
            let found = attack(&net, &x, radius, 5);
            assert!(found <= on_ball && before <= on_ball * (1.0 + 1e-4));
            before = on_ball;
        }
        if is_bounded_everywhere {
            let everywhere = upper(&net, &x, Domain::Everywhere);
            let near = upper(&net, &x, Domain::Ball(1e-3));
            assert!(near < 0.9 * everywhere, "{near}, everywhere {everywhere}");
        }
    }
}

/// On a ball a divisor keeps its distance from 0: the steepest place of 1/x is its nearest point to 0.
#[test]
fn a_divisor_that_moves_keeps_its_distance_from_zero() {
    let x = tensor(&[1, 1], vec![2.0]);
    let net: Box<Net<'_>> = Box::new(|x| x.tape().constant(tensor(&[1, 1], vec![3.0])) / x);
    let proven = upper(&*net, &x, Domain::Ball(0.5));
    assert!((proven - 3.0 / 1.5_f64.powi(2)).abs() < 1e-9, "{proven}");
    assert_eq!(upper(&*net, &x, Domain::Ball(2.0)), f64::INFINITY);
    let tape = Tape::new();
    let x = tape.var(x);
    assert!(bound(net(x), x, Lp::Two, Domain::Everywhere).is_err());
}

/// Of the inputs of the ball, the one whose entries are nearest to their mean has the largest Jacobian, and
/// the bound is its norm.
#[test]
fn a_norm_has_the_least_variance_of_the_ball() {
    let (eps, radius) = (1e-3, 0.7);
    let x = draw(&[1, 5], &mut init::rng(3));
    let norms: [(Box<Net<'_>>, f64); 2] = [
        (
            Box::new(move |x| x.layer_norm(None, None, eps)),
            x.sum() / 5.0,
        ),
        (Box::new(move |x| x.rms_norm(None, eps)), 0.0),
    ];
    for (norm, mean) in norms {
        let from_mean = x.mapv(|x| x - mean);
        let length = from_mean.iter().map(|x| x * x).sum::<f64>().sqrt();
        let nearest = (&x - &(from_mean * (radius / length))).into_shared();
        let there = upper(&*norm, &nearest, Domain::Here);
        let proven = upper(&*norm, &x, Domain::Ball(radius));
        assert!(
            there <= proven * (1.0 + 1e-9) && proven <= there * (1.0 + 1e-6),
            "{there} {proven}"
        );
        assert!(attack(&*norm, &x, radius, 0) <= proven);
        // Where the ball has a row without variance, the bound is that of all inputs.
        let [wide, everywhere] = [Domain::Ball(10.0), Domain::Everywhere];
        assert_eq!(upper(&*norm, &x, wide), upper(&*norm, &x, everywhere));
        assert!(proven < 0.2 * upper(&*norm, &x, everywhere));
    }
}

#[test]
fn a_radius_that_is_none_is_refused_and_a_bound_on_a_ball_is_a_number() {
    let tape = Tape::new();
    let x = tape.var(draw(&[1, 4], &mut init::rng(0)));
    for radius in [-1.0, f64::NAN, f64::INFINITY] {
        let error = bound(x.relu(), x, Lp::Two, Domain::Ball(radius)).unwrap_err();
        assert!(error.to_string().contains("radius"), "{error}");
    }
    let on_ball = bound(x.tanh(), x, Lp::Two, Domain::Ball(1.0)).unwrap();
    let error = on_ball.var().unwrap_err().to_string();
    assert!(error.contains("ball"), "{error}");
}
