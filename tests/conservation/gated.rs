//! Gated linear units: row C15.

use crate::compositions::{Composition, any_loss, conserved, fails, linear, names, read, written};
use emmy::init::{self, Rng};
use emmy::nn::{Activation, Linear, Params, Pass};
use emmy::symmetry::{Law, Symmetry, Term};
use emmy::{Real, Tensor, Var};
use proptest::prelude::*;

/// y = (σ(x W_gateᵀ) ⊙ x W_upᵀ) W_downᵀ, each with its bias if there are any; SwiGLU if σ is SiLU. Shazeer,
/// "GLU Variants Improve Transformer", 2020, Eq. (6). Without a gate y = σ(x W_upᵀ) W_downᵀ.
#[derive(Debug, Clone)]
pub struct FeedForward<F: Real> {
    pub gate: Option<Linear<F>>,
    pub up: Linear<F>,
    pub down: Linear<F>,
    pub activation: Activation,
}
emmy::module!(FeedForward: gate, up, down);

impl<F: Real> FeedForward<F> {
    /// Of `widths` of input, inside and output.
    pub fn new(
        widths: [usize; 3],
        gated: bool,
        activation: Activation,
        bias: bool,
        rng: &mut Rng,
    ) -> Self {
        let [input, inside, out] = widths;
        Self {
            gate: gated.then(|| linear(input, inside, bias, rng)),
            up: linear(input, inside, bias, rng),
            down: linear(inside, out, bias, rng),
            activation,
        }
    }

    pub fn forward<'t>(&self, pass: &Pass<'t, '_, F>, x: Var<'t, F>) -> Var<'t, F> {
        let up = self.up.forward(pass, x);
        let inside = match &self.gate {
            Some(gate) => self.activation.apply(gate.forward(pass, x)) * up,
            None => self.activation.apply(up),
        };
        self.down.forward(pass, inside)
    }

    /// C15: ⟨W_up[j,:], G⟩ − ⟨W_down[:,j], G⟩ = 0, whatever σ. Without a gate it is C1, and σ must be
    /// homogeneous.
    pub fn up_and_down(&self, slots: &Params<'_, F>, layer: usize) -> Vec<Law> {
        let degree = match self.gate {
            Some(_) => Some(1),
            None => self.activation.degree(),
        };
        let law =
            |k| self.against_down(format!("layer {layer}, neurons"), layer, slots, &self.up, k);
        degree.map(law).into_iter().collect()
    }

    /// ⟨W_gate[j,:], G⟩ − k ⟨W_down[:,j], G⟩ = 0, if σ is homogeneous of degree k.
    pub fn gate_and_down(&self, slots: &Params<'_, F>, layer: usize) -> Vec<Law> {
        let law =
            |(gate, k)| self.against_down(format!("layer {layer}, gates"), layer, slots, gate, k);
        let gate = self.gate.as_ref().zip(self.activation.degree());
        gate.map(law).into_iter().collect()
    }

    fn against_down(
        &self,
        name: String,
        layer: usize,
        slots: &Params<'_, F>,
        map: &Linear<F>,
        degree: u32,
    ) -> Law {
        let readers = read(slots, [&self.down]).into_iter();
        let readers = readers.map(|term| term.times(degree.into()));
        let terms = written(slots, map).into_iter().chain(readers).collect();
        Law::new(name, layer, Symmetry::Rescaling, terms)
    }
}

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
        unit: FeedForward::new(widths, gated, activation, bias, rng),
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
    #![proptest_config(crate::support::cases(60))]

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
        let mut laws = net.unit.up_and_down(&slots, 1);
        laws.extend(net.unit.gate_and_down(&slots, 1));
        conserved(&net, &draw::<f32>(n, widths, gated, activation, bias, seed), &laws);
    }
}

#[test]
fn formulas() {
    let net = draw::<f64>(3, [3, 4, 2], true, Activation::ReluSquared, false, 0);
    let slots = Params::of(&net);
    let show = |laws: Vec<Law>| laws[0].formula(&names(&net.unit));
    assert_eq!(
        show(net.unit.up_and_down(&slots, 1)),
        "⟨up.weight[j,:], G⟩ − ⟨down.weight[:,j], G⟩ = 0"
    );
    assert_eq!(
        show(net.unit.gate_and_down(&slots, 1)),
        "⟨gate.weight[j,:], G⟩ − 2 ⟨down.weight[:,j], G⟩ = 0"
    );
}

/// The law of the unit, and false laws with the gate beside W_up or in its place.
#[test]
fn n_a_smooth_gate_takes_no_part() {
    let drawn = |seed| draw::<f64>(8, [4, 5, 3], true, Activation::Silu, false, seed);
    fails(|seed| {
        let net = drawn(seed);
        let slots = Params::of(&net);
        let gate = net.unit.gate.as_ref().expect("a gate");
        let mut laws = net.unit.up_and_down(&slots, 1);
        laws[0].terms.push(Term::incoming(slots.rows(&gate.weight)));
        (net, laws)
    });
    fails(|seed| {
        let net = drawn(seed);
        let slots = Params::of(&net);
        let gate = net.unit.gate.as_ref().expect("a gate");
        let mut laws = net.unit.up_and_down(&slots, 1);
        laws[0].terms[0] = Term::incoming(slots.rows(&gate.weight));
        (net, laws)
    });
}
