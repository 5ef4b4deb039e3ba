//! Bounds that are read off a tape: the number, the formula, and the error if there is no bound.

use emmy::lipschitz::{Bound, Domain, Lp, Upper, bound, declare};
use emmy::ndarray::{Axis, array};
use emmy::nn::{Linear, Trace};
use emmy::{Error, Tape, Var, autodiff::grad, init, tensor::tensor};

fn near(x: f64, y: f64, tolerance: f64) {
    assert!((x - y).abs() <= tolerance * y.abs(), "{x} and {y}");
}

/// A layer's bound as a variable is the certified number, to the accuracy of Gram iteration, and its
/// derivative is that of the norm.
#[test]
fn the_formula_differentiates() {
    let rng = &mut init::rng(0);
    let tape = Tape::<f64>::new();
    let x = tape.var(init::normal(&[2, 3], 1.0, rng));
    let [w1, w2] = [[3, 5], [5, 2]].map(|s| tape.var(init::normal(&s, 1.0, rng)));
    let y = x.matmul(w1).relu().matmul(w2) + x.slice(1, 0..2).tanh();
    for p in Lp::ALL {
        let bound = bound(y, x, p, Domain::Everywhere).unwrap();
        let var = bound.var().unwrap();
        near(var.item(), bound.upper().get(), 2e-3);
        assert!(grad(var, &[w1])[0].iter().any(|g| *g != 0.0), "p = {p}");
    }
    // The gradient of ‖W‖₂ is u vᵀ.
    let w = tape.var(array![[3.0, 0.0], [0.0, 1.0]]);
    let norm = Bound::norm(Lp::Two, w).var().unwrap();
    let g = &grad(norm, &[w])[0];
    near(norm.item(), 3.0, 1e-9);
    assert!((g[[0, 0]] - 1.0).abs() < 1e-9 && g[[1, 1]].abs() < 1e-9);
}

/// ‖W₂‖ ‖W₁‖ changes when a neuron is rescaled, the function does not, and neither does the bound.
#[test]
fn a_rescaled_neuron_changes_nothing() {
    let rng = &mut init::rng(1);
    let w1 = init::normal::<f64>(&[6, 20], 1.0, rng);
    let w2 = init::normal::<f64>(&[20, 4], 1.0, rng);
    let at = |factor: f64| {
        let tape = Tape::<f64>::new();
        let x = tape.var(init::zeros(&[1, 6]));
        let (mut a, mut b) = (w1.clone(), w2.clone());
        for j in 0..10 {
            a.column_mut_scaled(j, factor);
            b.row_scaled(j, 1.0 / factor);
        }
        let (a, b) = (tape.constant(a), tape.constant(b));
        let y = x.matmul(a).relu().matmul(b);
        let plain = Lp::Two.matrix(two(a).view()).get() * Lp::Two.matrix(two(b).view()).get();
        let tight = bound(y, x, Lp::Two, Domain::Everywhere)
            .unwrap()
            .upper()
            .get();
        (plain, tight)
    };
    let (plain, tight) = at(1.0);
    let (worse, same) = at(30.0);
    assert!(worse > 5.0 * plain);
    near(same, tight, 2e-2);
    assert!(tight < 0.9 * plain, "{tight} and {plain}");
}

trait Scaled {
    fn column_mut_scaled(&mut self, j: usize, factor: f64);
    fn row_scaled(&mut self, j: usize, factor: f64);
}

impl Scaled for emmy::Tensor<f64> {
    fn column_mut_scaled(&mut self, j: usize, factor: f64) {
        let axis = emmy::ndarray::Axis(1);
        self.index_axis_mut(axis, j).mapv_inplace(|x| x * factor);
    }

    fn row_scaled(&mut self, j: usize, factor: f64) {
        let axis = emmy::ndarray::Axis(0);
        self.index_axis_mut(axis, j).mapv_inplace(|x| x * factor);
    }
}

fn two(x: Var<'_, f64>) -> emmy::ndarray::Array2<f64> {
    let x = x.value().into_owned();
    x.into_dimensionality().unwrap()
}

#[test]
fn an_operation_without_a_bound_is_named() {
    let tape = Tape::<f64>::new();
    let x = tape.var(tensor(&[2], vec![1.0, 2.0]));
    let error = |y| {
        bound(y, x, Lp::Two, Domain::Everywhere)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        error(x.exp().sum_all()),
        "Lipschitz bound of operation 1 of the tape: expected an operation with a bound, found `exp`: its slope \
         has no limit for the arguments that it may get (limit the input: `Domain::Rows`, `Domain::Ball` or \
         `Domain::Here`)"
    );
    // A program can tell it from other errors.
    let found = bound(x.exp(), x, Lp::Two, Domain::Everywhere).map(|b| b.upper());
    assert!(matches!(
        found,
        Err(Error::Unbounded {
            operation: "exp",
            ..
        })
    ));
    let own = x.unary("relu", x.value(), |p| p.gy());
    assert!(error(own).contains("an operation that says nothing of itself"));
    // The same operation with a bound that its author declares.
    let own = declare(own, &[x], [(Lp::Two, Bound::number(&tape, Upper::ONE))]);
    let read = bound(own * 2.0, x, Lp::Two, Domain::Everywhere).unwrap();
    assert_eq!(read.upper().get(), 2.0);
    assert!(error(x * x).contains("have no limits"));
    // The name of such an operation says nothing about its values either: a product with it has no limits.
    let limited = x.tanh();
    let named = limited.unary("tanh", limited.value() * 100.0, |p| p.gy() * 100.0);
    let named = declare(
        named,
        &[limited],
        [(Lp::Two, Bound::number(&tape, Upper::new(100.0)))],
    );
    assert!(error(named * limited).contains("have no limits"));
}

#[test]
fn values_that_do_not_depend_on_the_input_have_constant_zero() {
    let tape = Tape::<f64>::new();
    let (x, w) = (tape.scalar(1.0), tape.scalar(2.0));
    let read = bound(w.exp(), x, Lp::Two, Domain::Everywhere).unwrap();
    assert_eq!(read.upper(), Upper::ZERO);
}

/// Only the forward function of a model is needed; the table has one row per layer.
#[test]
fn a_model_is_read_by_its_trace() {
    let rng = &mut init::rng(3);
    let config = emmy::nn::BlockConfig::pre_norm_encoder(8, 2, 16);
    let block = emmy::nn::TransformerBlock::<f64>::new(config, rng).unwrap();
    let x = init::normal(&[5, 8], 1.0, rng);
    let mask = emmy::ops::attention::Mask::causal();
    let trace = Trace::at(&block, &x, |pass, x| block.forward(pass, x, &mask));
    let table = trace
        .lipschitz_by_layer(Lp::Two, Domain::Everywhere)
        .unwrap();
    println!("{table}");
    // A block that begins with its norms: attention sees rows of limited size, and so has a bound.
    let interval = trace.lipschitz(Lp::Two).unwrap();
    assert!(
        interval.lower.get() > 0.0 && interval.upper.is_finite() && !interval.is_contradicted(1e-9)
    );
    let here = trace.lipschitz_on(Lp::Two, Domain::Here).unwrap();
    assert!(here.upper < interval.upper && !here.is_contradicted(1e-9));
    println!("{interval} here {here}");
}

#[test]
fn the_layer_without_a_bound_is_named_by_its_path() {
    let rng = &mut init::rng(3);
    let config = emmy::nn::AttentionConfig::new(8, 2);
    let layers = vec![emmy::nn::MultiHeadAttention::<f64>::new(config, rng).unwrap()];
    let x = init::normal(&[5, 8], 1.0, rng);
    let mask = emmy::ops::attention::Mask::none();
    let trace = Trace::at(&layers, &x, |pass, x| layers[0].forward(pass, x, &mask));
    let error = trace.lipschitz(Lp::Two).unwrap_err().to_string();
    assert!(
        error.starts_with("Lipschitz bound of 0 (MultiHeadAttention): expected"),
        "{error}"
    );
    assert!(
        error.contains("attention by dot products, whose queries depend on the input"),
        "{error}"
    );
    let limited = trace.lipschitz_on(Lp::Two, Domain::Rows(6.0)).unwrap();
    assert!(limited.upper.is_finite());
    let laws_only = Trace::of(&layers, |pass| {
        layers[0].forward(pass, pass.tape().constant(x.clone()), &mask)
    });
    assert!(
        laws_only
            .lipschitz(Lp::Two)
            .unwrap_err()
            .to_string()
            .contains("Trace::at")
    );
}

/// The lower end of an interval is found at the recorded input, which must be one of the domain.
#[test]
fn a_recorded_input_outside_the_domain_is_refused() {
    let net = vec![Linear::<f64>::new(4, 3, true, &mut init::rng(0))];
    let at = |x: f64| {
        Trace::at(&net, &tensor(&[1, 4], vec![x; 4]), |pass, x| {
            net[0].forward(pass, x).square()
        })
    };
    let trace = at(1.0); // A row with the norm 2.
    let found = trace.lipschitz_on(Lp::Two, Domain::Rows(2.0)).unwrap();
    assert!(0.0 < found.lower.get() && found.lower.get() < found.upper.get());
    let errors = |domain| {
        let layers = trace.lipschitz_by_layer(Lp::Two, domain);
        let whole = trace.lipschitz_on(Lp::Two, domain).unwrap_err();
        assert_eq!(layers.unwrap_err().to_string(), whole.to_string());
        whole.to_string()
    };
    let error = errors(Domain::Rows(1.9));
    assert!(
        error.contains("a 2-norm of at most 1.9") && error.contains("a row with 2"),
        "{error}"
    );
    for radius in [-1.0, f64::NAN, f64::INFINITY] {
        for domain in [Domain::Rows(radius), Domain::Ball(radius)] {
            let error = errors(domain);
            assert!(error.contains("radius: expected at least 0"), "{error}");
        }
    }
    for domain in [Domain::Everywhere, Domain::Ball(0.1), Domain::Here] {
        let error = at(f64::NAN).lipschitz_on(Lp::Two, domain).unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains("the recorded input: expected finite numbers, found NaN"),
            "{error}"
        );
    }
}

/// Rows that were divided by their norms in `f32` are on the unit sphere but for rounding.
#[test]
fn rounding_takes_no_row_out_of_the_domain() {
    let x = init::normal::<f32>(&[50, 30], 1.0, &mut init::rng(0));
    let norms = x.mapv(|x| x * x).sum_axis(Axis(1)).mapv(f32::sqrt);
    let x = (&x / &norms.insert_axis(Axis(1))).into_shared();
    let longest = x
        .outer_iter()
        .map(|row| row.iter().map(|&x| f64::from(x).powi(2)).sum());
    assert!(longest.fold(0.0, f64::max) > 1.0);
    let net = vec![Linear::<f32>::new(30, 3, true, &mut init::rng(1))];
    let trace = Trace::at(&net, &x, |pass, x| net[0].forward(pass, x).square());
    let found = trace.lipschitz_on(Lp::Two, Domain::Rows(1.0)).unwrap();
    assert!(found.lower.get() < found.upper.get());
}
