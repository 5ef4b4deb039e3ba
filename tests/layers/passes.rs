//! A pass and its model: bound parameters, refused tensors, state, and the summary table of a
//! model.

use approx::assert_abs_diff_eq;
use emmy::autodiff::grad;
use emmy::nn::{Activation, Layer, entries, parameter_count};
use emmy::nn::{Fields, LayerNorm, Linear, Mlp, Module, Params, Pass, Role, Trace, Traced};
use emmy::tensor::tensor;
use emmy::{Real, Tape, Tensor, Var, init};
use std::panic::{AssertUnwindSafe, catch_unwind};

fn linear(seed: u64) -> Linear<f64> {
    Linear::new(3, 3, true, &mut init::rng(seed))
}

fn features(tape: &Tape<f64>) -> Var<'_, f64> {
    tape.constant(init::normal(&[4, 3], 1.0, &mut init::rng(9)))
}

/// The message of a contract violation.
#[track_caller]
fn refused(f: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(f)).expect_err("it is refused");
    let text = payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned());
    text.unwrap_or_else(|| payload.downcast_ref::<String>().expect("a message").clone())
}

#[test]
fn a_copy_of_the_model_is_a_stranger() {
    let model = vec![linear(0), linear(1)];
    let tape = Tape::new();
    let pass = Pass::train(&tape, &model, 0);
    let copy = model.clone();
    let message = refused(|| {
        let _ = copy[1].forward(&pass, features(&tape));
    });
    assert_eq!(
        message,
        "Linear: its `weight` is a stranger: a tensor of shape [3, 3] is not a parameter of the model of this pass, \
         which has 4 parameters, 2 of this shape: it is a copy, a temporary, or not listed in `module!`"
    );
}

#[test]
fn a_layer_made_in_a_loop_is_a_stranger() {
    let model = linear(0);
    let tape = Tape::new();
    let pass = Pass::train(&tape, &model, 0);
    // Each layer has the address of the one before: by address alone, the second would be taken for
    // the first.
    for seed in 0..2 {
        let fresh = Box::new(linear(seed));
        let message = refused(|| {
            let _ = fresh.forward(&pass, features(&tape));
        });
        assert!(
            message.starts_with("Linear: its `weight` is a stranger"),
            "{message}"
        );
    }
}

#[test]
fn a_temporary_tensor_is_a_stranger() {
    let model = linear(0);
    let tape = Tape::new();
    let pass = Pass::train(&tape, &model, 0);
    let message = refused(|| {
        let _ = pass.param(&Tensor::zeros(vec![2])).value();
    });
    assert!(
        message.starts_with("param: a tensor of shape [2] is not a parameter of the model"),
        "{message}"
    );
}

#[test]
fn a_field_that_is_not_listed_is_a_stranger() {
    struct Forgetful {
        listed: Linear<f64>,
        forgotten: Linear<f64>,
    }
    emmy::module!(Forgetful for f64: listed);
    let model = Forgetful {
        listed: linear(0),
        forgotten: linear(1),
    };
    let tape = Tape::new();
    let pass = Pass::train(&tape, &model, 0);
    let y = model.listed.forward(&pass, features(&tape));
    let message = refused(|| {
        let _ = model.forgotten.forward(&pass, y);
    });
    assert!(message.contains("not listed in `module!`"), "{message}");
}

#[test]
fn a_moved_model_is_another_pass_with_the_same_numbers() {
    let model = linear(0);
    let run = |model: &Linear<f64>| {
        let tape = Tape::new();
        let pass = Pass::train(&tape, model, 0);
        let y = model.forward(&pass, features(&tape));
        (y.value(), pass.gradients(y.tanh().sum_all()))
    };
    let before = run(&model);
    let moved = Box::new(model);
    assert_eq!(run(&moved), before);
}

#[test]
fn a_parameter_in_two_places_is_one_variable() {
    let model = linear(0);
    let tape = Tape::new();
    let pass = Pass::train(&tape, &model, 0);
    let x = features(&tape);
    let y = model.forward(&pass, model.forward(&pass, x).tanh());
    let tied = pass.gradients(y.sum_all());
    // The same with two layers that have equal numbers: the gradients add up.
    let both = [model.clone(), model.clone()];
    let pass = Pass::train(&tape, &both, 0);
    let y = both[1].forward(&pass, both[0].forward(&pass, x).tanh());
    let apart = pass.gradients(y.sum_all());
    for k in 0..2 {
        assert_abs_diff_eq!(
            tied[k],
            (&apart[k] + &apart[k + 2]).into_shared(),
            epsilon = 1e-12
        );
    }
}

#[test]
fn given_variables_stand_for_the_model() {
    let model = linear(0);
    let tape = Tape::new();
    let theta = Pass::differentiable(&tape, &model).vars().to_vec();
    let pass = Pass::bound(&tape, &model, &theta);
    let y = model.forward(&pass, features(&tape)).tanh().sum_all();
    let expected = {
        let pass = Pass::train(&tape, &model, 0);
        pass.gradients(model.forward(&pass, features(&tape)).tanh().sum_all())
    };
    assert_eq!(grad(y, &theta), expected);
    let message = refused(|| {
        let _ = Pass::bound(&tape, &model, &theta[..1]);
    });
    assert_eq!(
        message,
        "bound: variables of shapes [[3, 3]] for parameters of shapes [[3, 3], [3]]"
    );
    let message = refused(|| {
        let _ = pass.gradients(y);
    });
    assert!(
        message.starts_with("gradients: this is no training pass"),
        "{message}"
    );
}

/// Subtracts a running mean of the features, which is updated in training passes.
struct Centre<F: Real> {
    mean: Tensor<F>,
    gain: Tensor<F>,
}
emmy::module!(Centre: gain = Gain; state mean);

impl<F: Real> Layer<F> for Centre<F> {}

impl<F: Real> Centre<F> {
    fn forward<'t>(&self, pass: &Pass<'t, '_, F>, x: Var<'t, F>) -> Var<'t, F> {
        if pass.is_training() {
            let half = F::of(0.5);
            let mean = x.mean(&[0], false).value();
            pass.update(&self.mean, (&self.mean * half + mean * half).into_shared());
        }
        (x - pass.state(&self.mean)) * pass.param(&self.gain)
    }
}

#[test]
fn state_is_saved_and_not_trained() {
    let mut layer = Centre {
        mean: tensor(&[2], vec![0.0, 0.0]),
        gain: tensor(&[2], vec![1.0, 3.0]),
    };
    let x = tensor(&[2, 2], vec![1.0, 2.0, 3.0, 6.0]);
    let names: Vec<String> = entries(&layer).into_iter().map(|e| e.name).collect();
    assert_eq!(names, ["gain", "mean"]);
    assert_eq!(layer.parameters()[0].role, Role::Gain);
    assert_eq!(parameter_count(&layer), 2);

    let tape = Tape::new();
    let pass = Pass::train(&tape, &layer, 0);
    let y = layer.forward(&pass, tape.constant(x.clone()));
    // The pass sees the state as it was when it began.
    assert_eq!(y.value(), tensor(&[2, 2], vec![1.0, 6.0, 3.0, 18.0]));
    assert_eq!(pass.gradients(y.sum_all()), [tensor(&[2], vec![4.0, 8.0])]);
    let updates = pass.into_updates();
    updates.apply(&mut layer);
    assert_eq!(layer.mean, tensor(&[2], vec![1.0, 2.0]));

    let tape = Tape::new();
    let pass = Pass::eval(&tape, &layer);
    let y = layer.forward(&pass, tape.constant(x));
    assert_eq!(y.value(), tensor(&[2, 2], vec![0.0, 0.0, 2.0, 12.0]));
    pass.into_updates().apply(&mut layer);
    assert_eq!(layer.mean, tensor(&[2], vec![1.0, 2.0]));
    // A parameter is not state, and state is not a parameter.
    let tape = Tape::new();
    let pass = Pass::eval(&tape, &layer);
    let message = refused(|| {
        let _ = pass.state(&layer.gain);
    });
    assert!(message.contains("is not state of the model"), "{message}");
    let message = refused(|| {
        let _ = pass.param(&layer.mean);
    });
    assert!(message.contains("is not a parameter"), "{message}");
    assert_eq!(Params::of(&layer).tensors().len(), 1);
}

#[test]
fn a_gain_survives_initialisation_and_biases_start_at_zero() {
    struct Normed<F: Real> {
        first: Linear<F>,
        norm: LayerNorm<F>,
        last: Linear<F>,
    }
    emmy::module!(Normed: first, norm, last);
    let mut net = Normed::<f64> {
        first: linear(0),
        norm: LayerNorm::new(3),
        last: linear(1),
    };
    for p in net.tensors_mut() {
        p.mapv_inplace(|x| x + 0.5);
    }
    let trace = Trace::of(&net, |pass| {
        let y = net
            .norm
            .forward(pass, net.first.forward(pass, features(pass.tape())));
        net.last.forward(pass, y.relu())
    });
    let before = net.norm.gain.clone();
    emmy::init::Initialization::XAVIER
        .apply_to(&mut net, &trace, 5)
        .unwrap();
    assert_eq!(net.norm.gain, before);
    for bias in [&net.first.bias, &net.last.bias] {
        assert!(bias.as_ref().unwrap().iter().all(|&b| b == 0.0));
    }
    assert!(
        net.first
            .weight
            .iter()
            .chain(&net.last.weight)
            .all(|&w| w != 0.0)
    );
}

#[test]
fn a_model_is_a_table() {
    let mlp = Mlp::<f32>::new(&[4, 8, 3], Activation::Relu, true, &mut init::rng(0));
    let text = mlp.trace().summary().to_string();
    let expected = "\
layer       type    output  parameters
            Mlp     [2, 3]          67
  layers.0  Linear  [2, 8]          40
  layers.1  Linear  [2, 3]          27
total                               67
";
    assert_eq!(text, expected);
    // A layer called twice is counted once.
    let layer = linear(0);
    let trace = Trace::of(&layer, |pass| {
        let y = layer.forward(pass, features(pass.tape()));
        layer.forward(pass, y)
    });
    let summary = trace.summary();
    assert_eq!(summary.parameters, 12);
    assert_eq!(
        [summary.rows[0].again, summary.rows[1].again],
        [false, true]
    );
    assert!(summary.to_string().contains("(12, shared)"));
}

/// Names follow the fields, whatever holds them.
#[test]
fn lists_options_boxes_and_pairs_hold_modules() {
    let both = (Some(linear(0)), Box::new([linear(1), linear(2)]));
    let names: Vec<String> = both.parameters().into_iter().map(|p| p.name).collect();
    assert_eq!(
        names,
        [
            "0.weight",
            "0.bias",
            "1.0.weight",
            "1.0.bias",
            "1.1.weight",
            "1.1.bias"
        ]
    );
    let roles = both.parameters().into_iter().map(|p| p.role);
    assert!(roles.take(2).eq([Role::Weight, Role::Bias]));
    fn counted(model: &dyn Module<f64>) -> usize {
        parameter_count(model)
    }
    assert_eq!(counted(&both), 36);
    let _: fn(&mut Fields<&Tensor<f64>>) = |_| ();
}

/// With one neuron such a bias would be broadcast, and the layer would have three outputs.
#[test]
#[should_panic(
    expected = "bias: it has the shape [3], and there are 1 neurons: it must be one number per neuron"
)]
fn a_bias_of_another_length_is_refused() {
    let map = Linear::<f64> {
        weight: Tensor::ones(vec![1, 2]),
        bias: Some(Tensor::ones(vec![3])),
    };
    let tape = Tape::new();
    let x = tape.constant(Tensor::ones(vec![4, 2]));
    map.forward(&Pass::eval(&tape, &map), x);
}
