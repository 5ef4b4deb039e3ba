//! ActNorm and spectral normalisation, and the search for laws through every normaliser.

use super::{batch, layer, pair};
use crate::compositions::{
    Composition, any_loss, conserved, fails, is_whole, linear, listed, whole,
};
use emmy::init;
use emmy::nn::contra::After;
use emmy::nn::{
    ActNorm, Activation, ContraConfig, Linear, Norm, NormLayer, PairMode, Params, Pass, Spectral,
    Trace, discover,
};
use emmy::symmetry::{Discovery, Law, Search, Symmetry};
use emmy::{Real, Tensor, Var};
use proptest::prelude::*;

/// A map, ActNorm, σ, a map.
#[derive(Debug, Clone)]
struct Flow<F: Real> {
    first: Linear<F>,
    norm: ActNorm<F>,
    last: Linear<F>,
    activation: Activation,
    x: Tensor<F>,
    seed: u64,
}
emmy::module!(Flow: first, norm, last);

impl<F: Real> Flow<F> {
    /// Started with its own data.
    fn draw(activation: Activation, seed: u64) -> Self {
        let rng = &mut init::rng(seed);
        let (first, last) = (linear(3, 4, true, rng), linear(4, 3, true, rng));
        let x = init::normal(&[6, 3], 1.0, rng);
        let mut norm = ActNorm::new(4);
        norm.initialize(&init::normal(&[9, 4], 2.0, rng));
        Self {
            first,
            norm,
            last,
            activation,
            x,
            seed,
        }
    }

    fn output<'t>(&self, pass: &Pass<'t, '_, F>, x: Var<'t, F>) -> Var<'t, F> {
        let y = self.norm.forward(pass, self.first.forward(pass, x));
        self.last.forward(pass, self.activation.apply(y))
    }

    fn laws(&self) -> Vec<Law> {
        Trace::of(self, |pass| {
            self.output(pass, pass.tape().constant(self.x.clone()))
        })
        .laws()
    }
}

impl<F: Real> Composition<F> for Flow<F> {
    fn loss<'t>(&self, pass: &Pass<'t, '_, F>) -> Var<'t, F> {
        any_loss(
            self.output(pass, pass.tape().constant(self.x.clone())),
            self.seed,
        )
    }
}

/// A map with a spectrally normalised weight, σ, a map.
#[derive(Debug, Clone)]
struct Critic<F: Real> {
    inner: Spectral<F>,
    bias: Tensor<F>,
    last: Linear<F>,
    x: Tensor<F>,
    seed: u64,
}
emmy::module!(Critic: inner, bias = Bias, last);

impl<F: Real> Critic<F> {
    fn draw(seed: u64) -> Self {
        let rng = &mut init::rng(seed);
        Self {
            inner: Spectral::new(init::normal(&[4, 3], 1.0, rng), rng),
            bias: init::normal(&[4], 0.5, rng),
            last: linear(4, 2, true, rng),
            x: init::normal(&[6, 3], 1.0, rng),
            seed,
        }
    }

    fn output<'t>(&self, pass: &Pass<'t, '_, F>, x: Var<'t, F>) -> Var<'t, F> {
        let y = x.linear(self.inner.forward(pass)) + pass.param(&self.bias);
        self.last.forward(pass, y.relu())
    }

    fn laws(&self) -> Vec<Law> {
        Trace::of(self, |pass| {
            self.output(pass, pass.tape().constant(self.x.clone()))
        })
        .laws()
    }
}

impl<F: Real> Composition<F> for Critic<F> {
    fn loss<'t>(&self, pass: &Pass<'t, '_, F>) -> Var<'t, F> {
        any_loss(
            self.output(pass, pass.tape().constant(self.x.clone())),
            self.seed,
        )
    }
}

proptest! {
    #![proptest_config(crate::support::proptest_cases(30))]

    #[test]
    fn act_norm_is_balanced_on_both_sides(seed: u64) {
        let first = "first, neurons: ⟨first.weight[j,:], G⟩ + ⟨first.bias[j], G⟩ − ⟨norm.scale[j], G⟩ = 0";
        let own = "norm, neurons: ⟨norm.scale[j], G⟩ + ⟨norm.bias[j], G⟩ − ⟨last.weight[:,j], G⟩ = 0";
        for (activation, expected) in [
            (Activation::Relu, &[first, own][..]),
            (Activation::Identity, &[first, own]),
            (Activation::Gelu, &[first]),
        ] {
            let net = Flow::<f64>::draw(activation, seed);
            let laws = net.laws();
            prop_assert_eq!(listed(&net, &laws), expected);
            conserved(&net, &Flow::<f32>::draw(activation, seed), &laws);
        }
    }

    /// The size of W has no effect, with u and v as they are and with those of the next iteration.
    #[test]
    fn the_size_of_a_spectrally_normalised_weight_is_free(seed: u64) {
        let net = Critic::<f64>::draw(seed);
        let laws = net.laws();
        prop_assert_eq!(listed(&net, &laws), ["inner, scale: ⟨inner.weight, G⟩ = 0"]);
        conserved(&net, &Critic::<f32>::draw(seed), &laws);
    }
}

/// ActNorm starts as a norm, but is not a norm after the start.
#[test]
fn n_act_norm_sees_the_size_of_its_input() {
    fails(|seed| {
        let net = Flow::<f64>::draw(Activation::Identity, seed);
        let terms = whole(&Params::of(&net), [&net.first]);
        let law = Law::new("scale", 1, Symmetry::Rescaling, terms);
        (net, vec![law])
    });
}

/// A row of W is a part of σ too.
#[test]
fn n_a_row_of_a_spectrally_normalised_weight_is_not_free() {
    fails(|seed| {
        let net = Critic::<f64>::draw(seed);
        let params = Params::of(&net);
        let terms = crate::compositions::incoming([params.rows(&net.inner.weight)]);
        (net, vec![Law::new("rows", 1, Symmetry::Rescaling, terms)])
    });
}

/// A map, a norm, ReLU, a map.
struct Small {
    first: Linear<f64>,
    norm: NormLayer<f64>,
    last: Linear<f64>,
}
emmy::module!(Small for f64: first, norm, last);

fn data(seed: u64, features: usize) -> Tensor<f64> {
    init::normal(&[6, features], 1.0, &mut init::rng(seed))
}

fn search(norm: Norm) -> Discovery {
    let rng = &mut init::rng(0);
    let net = Small {
        first: Linear::new(2, 3, true, rng),
        norm: norm.build(3, &mut init::rng(0)),
        last: Linear::new(3, 2, true, rng),
    };
    discover(&net, &Search::default(), |pass, seed| {
        let x = pass.tape().constant(data(seed, 2));
        let y = net.norm.forward(pass, net.first.forward(pass, x)).relu();
        net.last.forward(pass, y)
    })
}

/// What the trace lists is all that the search finds, and there can be no more.
#[track_caller]
/// ContraNorm with rows of length 1 inside the softmax, and LayerNorm with ε = 0 after it.
fn unit_rows(scale: f64) -> ContraConfig {
    ContraConfig {
        after: After::LayerNorm { eps: 0.0 },
        ..ContraConfig::text_code(scale)
    }
}

/// For batch norm without running statistics: the search runs evaluations, in which they would make it an
/// affine map.
#[test]
#[ignore = "takes seconds: cargo test -- --include-ignored"]
fn lists_through_norms_are_whole() {
    let rms = |gain| Norm::Rms { eps: 0.0, gain };
    for (norm, laws) in [
        // Scale, 2 + 1 columns whose sum is free, γ and β of 3 neurons.
        (layer(0.0, true), 1 + 3 + 3),
        (layer(0.1, true), 3 + 3),
        (layer(0.0, false), 1 + 3),
        (rms(true), 1 + 3),
        (rms(false), 1),
        // Per neuron the scale, the bias, γ and β.
        (batch(0.0, true), 3 + 3 + 3),
        (batch(0.1, true), 3 + 3),
        (batch(0.0, false), 3 + 3),
        (Norm::Graph { eps: 0.0 }, 3 + 3),
        // Scale, and the bias per neuron.
        (pair(0.0, PairMode::Pn), 1 + 3),
        (pair(0.0, PairMode::PnSi), 1 + 3),
        (pair(0.1, PairMode::Pn), 3),
        (pair(0.0, PairMode::PnScs), 0),
        // Rotations do not pass through the ReLU; the size does, if rows are compared at length 1.
        (Norm::Contra(ContraConfig::stopped(0.4)), 0),
        (Norm::Contra(ContraConfig::text_code(0.4)), 1),
        (Norm::Contra(ContraConfig::new(0.4)), 3),
        (Norm::Contra(unit_rows(0.4)), 1 + 3),
    ] {
        is_whole(&search(norm), laws, &format!("{norm:?}"));
    }
}

#[test]
fn lists_of_act_norm_and_spectral_normalisation_are_whole() {
    let net = Flow::<f64>::draw(Activation::Relu, 0);
    let found = discover(&net, &Search::default(), |pass, seed| {
        net.output(pass, pass.tape().constant(data(seed, 3)))
    });
    is_whole(&found, 4 + 4, "ActNorm");
    let net = Critic::<f64>::draw(0);
    let found = discover(&net, &Search::default(), |pass, seed| {
        net.output(pass, pass.tape().constant(data(seed, 3)))
    });
    is_whole(&found, 1, "spectral normalisation");
}
