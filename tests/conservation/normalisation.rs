//! Normalised features: rows C16 to C19, from the models that hold the norms.

mod failing;
mod graphs;
mod others;

use crate::compositions::{Composition, any_loss, conserved, incoming, linear, names, vanishes};
use emmy::init::{self, Rng};
use emmy::nn::{
    Activation, BatchNorm, Layer, Linear, Module, Norm, NormLayer, PairMode, PairNorm, Params,
    Pass, Role, Trace, entries_mut,
};
use emmy::symmetry::Law;
use emmy::{Real, Tensor, Var};
use proptest::prelude::*;

/// A norm with gains about 1 and biases about 0.
pub fn drawn<F: Real>(norm: Norm, width: usize, rng: &mut Rng) -> NormLayer<F> {
    let mut layer = norm.build(width, &mut init::rng(0));
    for entry in entries_mut(&mut layer)
        .into_iter()
        .filter(|e| e.is_trained())
    {
        let about = if entry.role == Role::Gain { 1.0 } else { 0.0 };
        let shape = entry.tensor.shape().to_vec();
        *entry.tensor = init::normal::<F>(&shape, 0.5, rng) + F::of(about);
    }
    layer
}

/// A map, a norm, σ, and several maps that read the same.
#[derive(Debug, Clone)]
struct Chain<F: Real> {
    first: Linear<F>,
    norm: NormLayer<F>,
    readers: Vec<Linear<F>>,
    activation: Activation,
    x: Tensor<F>,
    seed: u64,
}
emmy::module!(Chain: first, norm, readers);

impl<F: Real> Chain<F> {
    fn outputs<'t>(&self, pass: &Pass<'t, '_, F>) -> Vec<Var<'t, F>> {
        let x = pass.tape().constant(self.x.clone());
        let y = self.norm.forward(pass, self.first.forward(pass, x));
        let y = self.activation.apply(y);
        self.readers
            .iter()
            .map(|map| map.forward(pass, y))
            .collect()
    }

    /// The laws that its forward pass shows.
    fn laws(&self) -> Vec<Law> {
        Trace::of_several(self, |pass| self.outputs(pass)).laws()
    }

    /// The same rows of data in another order, and other rows.
    fn on(mut self, x: Tensor<F>) -> Self {
        self.x = x;
        self
    }
}

impl<F: Real> Composition<F> for Chain<F> {
    fn loss<'t>(&self, pass: &Pass<'t, '_, F>) -> Var<'t, F> {
        let seen = |(k, y): (u64, Var<'t, F>)| any_loss(y, self.seed ^ k);
        let losses = (0..).zip(self.outputs(pass)).map(seen);
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
            norm: drawn(self.norm, self.width, rng),
            readers: (1..=self.readers).map(|k| reader(k, rng)).collect(),
            activation: self.activation,
            x: init::normal(&[self.n, self.input], 1.0, rng),
            seed: self.seed,
        }
    }

    /// Whether the norm has a γ, so that its output is a stream of its own.
    fn has_gain(self) -> bool {
        self.norm
            .build::<f64>(1, &mut init::rng(0))
            .parameters()
            .iter()
            .any(|p| p.role == Role::Gain)
    }

    /// The names of all its laws, from the rows of the theory.
    fn expected(self) -> Vec<String> {
        let linear = self.activation == Activation::Identity;
        let homogeneous = linear || self.activation == Activation::Relu;
        let plain = !self.has_gain();
        let mut laws: Vec<&str> = Vec::new();
        let shift: &[&str] = match self.bias {
            true => &["first, shift, 1", "first, shift, 2"],
            false => &["first, shift"],
        };
        let offset = self.bias.then_some("first, bias");
        match self.norm {
            Norm::Layer { eps, .. } => {
                laws.extend((eps == 0.0).then_some("first, scale"));
                laws.extend(shift);
            }
            Norm::Rms { eps, .. } => {
                laws.extend((eps == 0.0).then_some("first, scale"));
                laws.extend((plain && linear).then_some("first, turns"));
            }
            Norm::Batch { eps, .. } => {
                laws.extend((eps == 0.0).then_some("first, neurons"));
                laws.extend(offset);
            }
            Norm::Graph { eps } => laws.extend((eps == 0.0).then_some("first, neurons")),
            Norm::Pair(PairNorm { mode, eps, .. }) => {
                let scs = mode == PairMode::PnScs;
                laws.extend((eps == 0.0 && !scs).then_some("first, scale"));
                laws.extend(linear.then_some("first, turns"));
                laws.extend(offset.filter(|_| !scs));
            }
            Norm::Contra(_) | Norm::Registered(_) => {
                unreachable!("they are not drawn here; `lists_through_norms_are_whole` has them")
            }
        }
        laws.extend((!plain && homogeneous).then_some("norm, neurons"));
        let mut laws: Vec<String> = laws.into_iter().map(str::to_owned).collect();
        if matches!(self.norm, Norm::Layer { .. }) && plain && linear {
            laws.extend((1..=self.readers).map(|k| format!("reader {k}, rows")));
        }
        laws
    }

    /// The trace lists these laws, and they hold.
    fn holds(self) {
        let net = self.draw::<f64>();
        let laws = net.laws();
        let found: Vec<&str> = laws.iter().map(|law| law.name.as_str()).collect();
        assert_eq!(found, self.expected(), "{self:?}");
        conserved(&net, &self.draw::<f32>(), &laws);
    }
}

const fn layer(eps: f64, affine: bool) -> Norm {
    Norm::Layer {
        eps,
        gain: affine,
        bias: affine,
    }
}

const fn batch(eps: f64, affine: bool) -> Norm {
    Norm::Batch {
        eps,
        affine,
        momentum: None,
    }
}

const fn pair(eps: f64, mode: PairMode) -> Norm {
    Norm::Pair(PairNorm {
        eps,
        ..PairNorm::new(mode)
    })
}

const CASE: Case = Case {
    n: 7,
    input: 4,
    width: 5,
    readers: 2,
    bias: true,
    norm: layer(0.0, false),
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
    (sizes, any::<bool>(), activation, any::<u64>()).prop_map(
        |((n, input, width, readers), bias, activation, seed)| Case {
            n,
            input,
            width,
            readers,
            bias,
            activation,
            seed,
            ..CASE
        },
    )
}

/// 0, or a number.
fn eps() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.0), 1e-6..1.0_f64]
}

proptest! {
    #![proptest_config(crate::support::proptest_cases(60))]

    #[test]
    fn c16_before_layer_norm_shift_and_with_eps_zero_scale_are_free(case in cases(), eps in eps(), affine: bool) {
        Case { norm: layer(eps, affine), ..case }.holds();
    }

    #[test]
    fn c16_before_rms_norm_scale_alone(case in cases(), eps in eps(), gain: bool) {
        Case { norm: Norm::Rms { eps, gain }, ..case }.holds();
    }

    /// C17 is the law of the norm in all of these tests: γ and β against all readers.
    #[test]
    fn c18_before_pair_norm_the_scale_of_the_matrix_is_free(
        case in cases(),
        eps in eps(),
        mode in prop::sample::select(&[PairMode::Pn, PairMode::PnSi, PairMode::PnScs][..]),
    ) {
        Case { norm: pair(eps, mode), ..case }.holds();
    }

    #[test]
    fn c19_before_a_norm_of_each_feature_the_scale_of_each_neuron_is_free(case in cases(), eps in eps(), affine: bool) {
        Case { norm: batch(eps, affine), ..case }.holds();
        Case { norm: Norm::Graph { eps }, ..case }.holds();
    }
}

#[test]
fn formulas() {
    let show = |norm| {
        let net = Case { norm, ..CASE }.draw::<f64>();
        let formulas = net.laws().into_iter().map(|law| law.formula(&names(&net)));
        formulas.collect::<Vec<_>>()
    };
    let scale = "⟨first.weight, G⟩ + ⟨first.bias, G⟩ = 0";
    let neurons = "⟨first.weight[j,:], G⟩ + ⟨first.bias[j], G⟩ = 0";
    let gains = "⟨norm.gain[j], G⟩ + ⟨norm.bias[j], G⟩ − ⟨readers.0.weight[:,j], G⟩ − ⟨readers.1.weight[:,j], G⟩ = 0";
    let shifts = ["Σ G of first.weight[:,j] = 0", "Σ G of first.bias = 0"];
    assert_eq!(show(layer(0.0, true)), [scale, shifts[0], shifts[1], gains]);
    assert_eq!(show(layer(1e-5, true)), [shifts[0], shifts[1], gains]);
    assert_eq!(
        show(batch(0.0, true)),
        [neurons, "G of first.bias[j] = 0", gains]
    );
    assert_eq!(show(Norm::Graph { eps: 0.0 }), [neurons, gains]);
    let turns = "(G first.weightᵀ − first.weight Gᵀ) + (G first.biasᵀ − first.bias Gᵀ) \
                 + (Gᵀ readers.0.weight − readers.0.weightᵀ G) + (Gᵀ readers.1.weight − readers.1.weightᵀ G) = 0";
    assert_eq!(
        show(pair(0.0, PairMode::Pn)),
        [scale, turns, "G of first.bias[j] = 0"]
    );
    assert_eq!(show(pair(0.0, PairMode::PnScs)), [turns]);
}

/// Running statistics play no part in a training pass. In an evaluation the norm is an affine map: the laws
/// of the training pass do not hold there.
#[test]
fn batch_norm_with_running_statistics_has_its_laws_in_training() {
    let with = |momentum| Norm::Batch {
        eps: 0.0,
        affine: true,
        momentum,
    };
    for seed in crate::cases::cases(10) {
        let [net, without] = [Some(0.1), None].map(|momentum| {
            let norm = with(momentum);
            Case { norm, seed, ..CASE }.draw::<f64>()
        });
        let laws = net.laws();
        assert_eq!(laws, without.laws());
        vanishes(&net, &laws, 1e-10);
        let tape = emmy::Tape::new();
        let pass = Pass::differentiable(&tape, &net);
        let gradients = emmy::autodiff::grad(net.loss(&pass), pass.vars());
        let worst = |law: &Law| law.measure(&net.tensors(), &gradients).worst();
        assert!(
            worst(&laws[0]) > 1e-2,
            "{}: {}",
            laws[0].name,
            worst(&laws[0])
        );
    }
}

/// A norm of each feature removes offsets over all leading axes, not only over the first.
#[test]
fn c19_over_more_than_one_axis_of_rows() {
    let net = Case {
        norm: batch(0.0, true),
        n: 6,
        ..CASE
    };
    let cube = |x: Tensor<f64>| x.into_shape_with_order((2, 3, 4)).expect("24").into_dyn();
    let flat = net.draw::<f64>();
    let x = cube(flat.x.clone());
    let flat_laws = flat.laws();
    let net = flat.on(x);
    let laws = Trace::of_several(&net, |pass| net.outputs(pass)).laws();
    assert_eq!(laws, flat_laws);
    let tape = emmy::Tape::new();
    let pass = Pass::train(&tape, &net, 0);
    let losses = net
        .outputs(&pass)
        .into_iter()
        .map(|y| y.tanh().square().sum_all());
    let gradients = pass.gradients(losses.reduce(|a, b| a * b).expect("a reader"));
    for law in laws {
        assert!(
            law.measure(&net.tensors(), &gradients).worst() < 1e-10,
            "{}",
            law.name
        );
    }
}

/// The norm of the library with γ and without, written down by its parts in a model.
#[test]
fn a_norm_and_its_configuration_have_the_same_laws() {
    let net = Case {
        norm: batch(0.0, true),
        ..CASE
    }
    .draw::<f64>();
    let norm: Option<&BatchNorm<f64>> = net.norm.downcast_ref();
    let BatchNorm { gain, bias, .. } = norm.expect("a batch norm");
    let params = Params::of(&net);
    let own = [gain, bias].map(|p| params.rows(p.as_ref().expect("γ and β")));
    let ports = net.norm.ports(&params).expect("those of a norm");
    assert_eq!(ports.writers, incoming(own));
}
