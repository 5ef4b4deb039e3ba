//! Normalised features: rows C16 to C19.

mod graphs;

use crate::layers::{Gain, Norm};

use crate::compositions::{
    Composition, any_loss, conserved, fails, gradients, idle_bias, linear, names, read, shifts,
    whole, written,
};
use emmy::init::{self, Rng};
use emmy::nn::{Activation, Linear, Module, Params, Pass};
use emmy::symmetry::{Law, Symmetry};
use emmy::{Real, Tensor, Var};
use proptest::prelude::*;

/// A map, a norm, gain and bias, σ, and several maps that read the same.
#[derive(Debug, Clone)]
struct Chain<F: Real> {
    first: Linear<F>,
    affine: Option<Gain<F>>,
    readers: Vec<Linear<F>>,
    norm: Norm,
    activation: Activation,
    x: Tensor<F>,
    seed: u64,
}
emmy::module!(Chain: first, affine, readers);

impl<F: Real> Composition<F> for Chain<F> {
    fn loss<'t>(&self, pass: &Pass<'t, '_, F>) -> Var<'t, F> {
        let x = pass.tape().constant(self.x.clone());
        let y = self.norm.apply(self.first.forward(pass, x));
        let y = match &self.affine {
            Some(affine) => affine.forward(pass, y),
            None => y,
        };
        let y = self.activation.apply(y);
        let read = |(k, map): (u64, &Linear<F>)| any_loss(map.forward(pass, y), self.seed ^ k);
        let losses = (0..).zip(&self.readers).map(read);
        losses.reduce(|a, b| a + b * b).expect("a reader")
    }
}

/// The parts of which a [`Chain`] is drawn.
#[derive(Debug, Clone, Copy)]
struct Case {
    n: usize,
    input: usize,
    width: usize,
    readers: usize,
    affine: bool,
    bias: bool,
    norm: Norm,
    activation: Activation,
    seed: u64,
}

impl Case {
    fn draw<F: Real>(self) -> Chain<F> {
        let rng = &mut init::rng(self.seed);
        let reader = |k: usize, rng: &mut Rng| linear(self.width, k % 3 + 1, self.bias, rng);
        Chain {
            first: linear(self.input, self.width, self.bias, rng),
            affine: self.affine.then(|| Gain::new(self.width, rng)),
            readers: (1..=self.readers).map(|k| reader(k, rng)).collect(),
            norm: self.norm,
            activation: self.activation,
            x: init::normal(&[self.n, self.input], 1.0, rng),
            seed: self.seed,
        }
    }

    fn conserves(self, laws: impl Fn(&Chain<f64>, &Params<'_, f64>) -> Vec<Law>) {
        let net = self.draw::<f64>();
        conserved(&net, &self.draw::<f32>(), &laws(&net, &Params::of(&net)));
    }

    /// For twenty draws, whatever the seed of this.
    fn violates(self, laws: impl Fn(&Chain<f64>, &Params<'_, f64>) -> Vec<Law>) {
        fails(|seed| {
            let net = Self { seed, ..self }.draw::<f64>();
            let laws = laws(&net, &Params::of(&net));
            (net, laws)
        });
    }
}

const CASE: Case = Case {
    n: 7,
    input: 4,
    width: 5,
    readers: 2,
    affine: false,
    bias: true,
    norm: Norm::Layer { eps: 0.0 },
    activation: Activation::Identity,
    seed: 0,
};

/// Four rows, three neurons or more: for two numbers the output of a norm is only a sign.
fn cases() -> impl Strategy<Value = Case> {
    let sizes = (4..8_usize, 3..6_usize, 3..7_usize, 1..4_usize);
    let activation = prop_oneof![
        Just(Activation::Identity),
        Just(Activation::Relu),
        Just(Activation::Gelu)
    ];
    (sizes, any::<[bool; 2]>(), activation, any::<u64>()).prop_map(
        |((n, input, width, readers), [affine, bias], activation, seed)| Case {
            n,
            input,
            width,
            readers,
            affine,
            bias,
            activation,
            seed,
            ..CASE
        },
    )
}

/// C16, C18: ⟨[W b], G⟩ = 0, all neurons as one.
fn scale(net: &Chain<f64>, slots: &Params<'_, f64>) -> Vec<Law> {
    let terms = whole(slots, [&net.first]);
    vec![Law::new("layer 1, scale", 1, Symmetry::Rescaling, terms)]
}

/// C19: ⟨[W b][j,:], G⟩ = 0, neuron by neuron.
fn scales(net: &Chain<f64>, slots: &Params<'_, f64>) -> Vec<Law> {
    let terms = written(slots, &net.first);
    vec![Law::new("layer 1, neurons", 1, Symmetry::Rescaling, terms)]
}

/// The false law C1, as if there were no norm in between.
fn neurons(net: &Chain<f64>, slots: &Params<'_, f64>) -> Vec<Law> {
    let terms = [written(slots, &net.first), read(slots, &net.readers)].concat();
    vec![Law::new("layer 1, neurons", 1, Symmetry::Rescaling, terms)]
}

/// C17.
fn gains(net: &Chain<f64>, slots: &Params<'_, f64>) -> Vec<Law> {
    let affine = net.affine.as_ref().expect("gain and bias");
    vec![affine.against("layer 1, gain and bias".into(), 1, slots, &net.readers)]
}

fn idle(net: &Chain<f64>, slots: &Params<'_, f64>) -> Vec<Law> {
    idle_bias("layer 1, bias", 1, slots, &net.first)
}

proptest! {
    #![proptest_config(crate::support::cases(60))]

    #[test]
    fn c16_before_layer_norm_scale_and_shift_are_free(case in cases()) {
        case.conserves(|net, slots| {
            let shifts = shifts("layer 1, shift of all neurons", 1, slots, &net.first);
            scale(net, slots).into_iter().chain(shifts).collect()
        });
    }

    #[test]
    fn c16_before_rms_norm_scale_alone(case in cases()) {
        Case { norm: Norm::Rms, ..case }.conserves(scale);
    }

    #[test]
    fn c16_with_a_positive_eps_shift_alone(case in cases(), eps in 1e-6..1.0_f64) {
        let case = Case { norm: Norm::Layer { eps }, ..case };
        case.conserves(|net, slots| shifts("layer 1, shift of all neurons", 1, slots, &net.first));
    }

    #[test]
    fn c17_gain_and_bias_are_balanced_against_all_readers(case in cases(), eps in 0.0..1.0_f64, relu: bool, kind in 0..4) {
        let norm = match kind {
            0 => Norm::Layer { eps },
            1 => Norm::Feature { share: 0.7, eps },
            2 => Norm::Rms,
            _ => Norm::Pair { rows: false },
        };
        let activation = if relu { Activation::Relu } else { Activation::Identity };
        Case { norm, activation, affine: true, ..case }.conserves(gains);
    }

    #[test]
    fn c18_before_pair_norm_the_scale_of_the_matrix_is_free(case in cases(), rows: bool) {
        let case = Case { norm: Norm::Pair { rows }, ..case };
        case.conserves(|net, slots| [scale(net, slots), idle(net, slots)].concat());
    }

    #[test]
    fn c19_before_a_norm_of_each_feature_the_scale_of_each_neuron_is_free(case in cases(), share in 0.0..1.0_f64) {
        Case { norm: Norm::Feature { share, eps: 0.0 }, ..case }.conserves(scales);
        let batch = Case { norm: Norm::Feature { share: 1.0, eps: 0.0 }, ..case };
        batch.conserves(|net, slots| [scales(net, slots), idle(net, slots)].concat());
    }
}

#[test]
fn formulas() {
    let net = Case {
        affine: true,
        ..CASE
    }
    .draw::<f64>();
    let slots = Params::of(&net);
    let show = |laws: Vec<Law>| {
        laws.iter()
            .map(|law| law.formula(&names(&net)))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        show(scale(&net, &slots)),
        ["⟨first.weight, G⟩ + ⟨first.bias, G⟩ = 0"]
    );
    assert_eq!(
        show(shifts("", 1, &slots, &net.first)),
        ["Σ G of first.weight[:,j] = 0", "Σ G of first.bias = 0"]
    );
    assert_eq!(
        show(gains(&net, &slots)),
        [
            "⟨affine.gain[j], G⟩ + ⟨affine.bias[j], G⟩ − ⟨readers.0.weight[:,j], G⟩ − ⟨readers.1.weight[:,j], G⟩ = 0"
        ]
    );
    assert_eq!(show(idle(&net, &slots)), ["G of first.bias[j] = 0"]);
    assert_eq!(
        show(scales(&net, &slots)),
        ["⟨first.weight[j,:], G⟩ + ⟨first.bias[j], G⟩ = 0"]
    );
}

#[test]
fn n_with_a_positive_eps_the_scale_is_not_free() {
    let layer = |eps| Case {
        norm: Norm::Layer { eps },
        ..CASE
    };
    layer(1.0).violates(scale);
    let feature = |eps| Case {
        norm: Norm::Feature { share: 1.0, eps },
        ..CASE
    };
    feature(1.0).violates(scales);
    // With an ε as used in practice, δ is about as large as ε: small, but far above rounding
    // errors.
    let worst = |eps: f64| {
        let net = layer(eps).draw::<f64>();
        let law = scale(&net, &Params::of(&net)).swap_remove(0);
        law.measure(&net.tensors(), &gradients(&net)).worst()
    };
    assert!((1e-7..1e-3).contains(&worst(1e-5)), "{:e}", worst(1e-5));
    assert!(worst(0.0) < 1e-14);
}

#[test]
fn n_neurons_before_a_norm_are_not_balanced_against_its_readers() {
    for norm in [
        Norm::Layer { eps: 0.0 },
        Norm::Pair { rows: false },
        Norm::Pair { rows: true },
        Norm::Feature {
            share: 1.0,
            eps: 0.0,
        },
    ] {
        Case { norm, ..CASE }.violates(neurons);
    }
}

#[test]
fn n_rms_norm_sees_a_shift() {
    Case {
        norm: Norm::Rms,
        ..CASE
    }
    .violates(|net, slots| shifts("", 1, slots, &net.first));
}

/// Pair norm and layer norm depend on all neurons together: scaling a single neuron changes the
/// loss.
#[test]
fn n_neurons_before_pair_and_layer_norm_do_not_conserve_their_size() {
    for norm in [Norm::Layer { eps: 0.0 }, Norm::Pair { rows: false }] {
        Case { norm, ..CASE }.violates(scales);
    }
}

#[test]
fn n_a_gain_is_not_balanced_against_one_reader_of_several() {
    Case {
        affine: true,
        ..CASE
    }
    .violates(|net, slots| {
        let mut laws = gains(net, slots);
        laws[0].terms.pop();
        laws
    });
}

#[test]
fn n_a_bias_before_a_norm_that_takes_off_half_the_mean_does_move() {
    let norm = Norm::Feature {
        share: 0.5,
        eps: 0.0,
    };
    Case { norm, ..CASE }.violates(idle);
}
