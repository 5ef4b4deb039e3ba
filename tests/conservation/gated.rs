//! Gated linear units: row C15.

use crate::compositions::{Composition, any_loss, conserved, fails, names};
use crate::layers::{feed_forward, gate_and_down, up_and_down};
use emmy::init;
use emmy::nn::{Activation, FeedForward, Params, Pass, Trace};
use emmy::symmetry::{Law, Term};
use emmy::{Real, Tensor, Var};
use proptest::prelude::*;

/// The unit on random tokens, with a random loss of its outputs.
#[derive(Debug, Clone)]
struct Alone<F: Real> {
    unit: FeedForward<F>,
    x: Tensor<F>,
    seed: u64,
}
emmy::module!(Alone: unit);

impl<F: Real> Composition<F> for Alone<F> {
    fn loss<'t>(&self, pass: &Pass<'t, '_, F>) -> Var<'t, F> {
        let x = pass.tape().constant(self.x.clone());
        any_loss(self.unit.forward(pass, x), self.seed)
    }
}

fn draw<F: Real>(
    n: usize,
    widths: [usize; 3],
    gated: bool,
    activation: Activation,
    bias: bool,
    seed: u64,
) -> Alone<F> {
    let rng = &mut init::rng(seed);
    Alone {
        unit: feed_forward(widths, gated, activation, bias, rng),
        x: init::normal(&[n, widths[0]], 1.0, rng),
        seed,
    }
}

const ALL: [Activation; 7] = [
    Activation::Silu,
    Activation::Gelu,
    Activation::Sigmoid,
    Activation::Tanh,
    Activation::Identity,
    Activation::Relu,
    Activation::ReluSquared,
];

proptest! {
    #![proptest_config(crate::support::proptest_cases(60))]

    #[test]
    fn c15_up_is_balanced_against_down_whatever_the_gate(
        n in 1..8_usize,
        widths in prop::array::uniform3(1..6_usize),
        activation in prop::sample::select(&ALL),
        (gated, bias) in any::<(bool, bool)>(),
        seed: u64,
    ) {
        let net = draw::<f64>(n, widths, gated, activation, bias, seed);
        let slots = Params::of(&net);
        let mut laws = up_and_down(&net.unit, &slots, 1);
        laws.extend(gate_and_down(&net.unit, &slots, 1));
        // They are among those that are read off the pass; the others hold too.
        let read = Trace::of(&net, |pass| net.loss(pass)).laws();
        let formulas = |laws: &[Law]| -> Vec<String> {
            laws.iter().map(|law| law.formula(&names(&net))).collect()
        };
        let of_pass = formulas(&read);
        prop_assert!(formulas(&laws).iter().all(|law| of_pass.contains(law)), "{of_pass:?}");
        laws.extend(read);
        conserved(&net, &draw::<f32>(n, widths, gated, activation, bias, seed), &laws);
    }
}

#[test]
fn formulas() {
    let net = draw::<f64>(3, [3, 4, 2], true, Activation::ReluSquared, false, 0);
    let slots = Params::of(&net);
    let show = |laws: Vec<Law>| laws[0].formula(&names(&net.unit));
    assert_eq!(
        show(up_and_down(&net.unit, &slots, 1)),
        "⟨up.weight[j,:], G⟩ − ⟨down.weight[:,j], G⟩ = 0"
    );
    assert_eq!(
        show(gate_and_down(&net.unit, &slots, 1)),
        "⟨gate.weight[j,:], G⟩ − 2 ⟨down.weight[:,j], G⟩ = 0"
    );
}

/// The law of the unit, and false laws with the gate in addition to W_up or in its place.
#[test]
fn n_a_smooth_gate_takes_no_part() {
    let drawn = |seed| draw::<f64>(8, [4, 5, 3], true, Activation::Silu, false, seed);
    fails(|seed| {
        let net = drawn(seed);
        let slots = Params::of(&net);
        let gate = net.unit.gate.as_ref().expect("a gate");
        let mut laws = up_and_down(&net.unit, &slots, 1);
        laws[0].terms.push(Term::incoming(slots.rows(&gate.weight)));
        (net, laws)
    });
    fails(|seed| {
        let net = drawn(seed);
        let slots = Params::of(&net);
        let gate = net.unit.gate.as_ref().expect("a gate");
        let mut laws = up_and_down(&net.unit, &slots, 1);
        laws[0].terms[0] = Term::incoming(slots.rows(&gate.weight));
        (net, laws)
    });
}
