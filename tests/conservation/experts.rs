//! C23: experts with a gate.

use crate::compositions::{Composition, any_loss, conserved, fails, linear, listed};
use emmy::init;
use emmy::nn::{Activation, Linear, Mlp, Pass, Trace};
use emmy::symmetry::{Law, Slice, Symmetry, Term};
use emmy::{Real, Tensor, Var};
use proptest::prelude::*;

/// A mixture of experts: Σ_e softmax(W x)_e expert_e(x), Shazeer et al., ICLR 2017, without noise.
#[derive(Debug, Clone)]
struct Experts<F: Real> {
    gate: Linear<F>,
    experts: Vec<Mlp<F>>,
    /// Whether the gate is a sigmoid of each share in place of the softmax.
    alone: bool,
    x: Tensor<F>,
    seed: u64,
}
emmy::module!(Experts: gate, experts);

impl<F: Real> Experts<F> {
    /// Of maps of `input` numbers to 3 through `hidden` neurons.
    fn draw(rows: usize, [input, hidden, experts]: [usize; 3], bias: bool, seed: u64) -> Self {
        let rng = &mut init::rng(seed);
        let mut expert = || Mlp {
            layers: vec![
                linear(input, hidden, bias, rng),
                linear(hidden, 3, bias, rng),
            ],
            activation: Activation::Relu,
        };
        Self {
            experts: (0..experts).map(|_| expert()).collect(),
            gate: linear(input, experts, bias, rng),
            alone: false,
            x: init::normal(&[rows, input], 1.0, rng),
            seed,
        }
    }

    fn outputs<'t>(&self, pass: &Pass<'t, '_, F>) -> Var<'t, F> {
        let x = pass.tape().constant(self.x.clone());
        let gate = self.gate.forward(pass, x);
        let shares = if self.alone {
            gate.sigmoid()
        } else {
            gate.softmax(1)
        };
        let part =
            |(e, expert): (usize, &Mlp<F>)| expert.forward(pass, x) * shares.slice(1, e..e + 1);
        let parts = self.experts.iter().enumerate().map(part);
        parts.reduce(|a, b| a + b).expect("an expert")
    }

    fn laws(&self) -> Vec<Law> {
        Trace::of(self, |pass| self.outputs(pass)).laws()
    }
}

impl<F: Real> Composition<F> for Experts<F> {
    fn loss<'t>(&self, pass: &Pass<'t, '_, F>) -> Var<'t, F> {
        any_loss(self.outputs(pass), self.seed)
    }
}

proptest! {
    #![proptest_config(crate::support::proptest_cases(60))]

    #[test]
    fn c23_each_expert_keeps_its_laws_and_the_gate_sums_to_zero(
        rows in 2..7_usize,
        (input, hidden, experts) in (1..5_usize, 2..5_usize, 2..5_usize),
        bias: bool,
        seed: u64,
    ) {
        let sizes = [input, hidden, experts];
        let net = Experts::<f64>::draw(rows, sizes, bias, seed);
        let laws = net.laws();
        // One for each expert, and one for each parameter of the gate.
        prop_assert_eq!(laws.len(), experts + 1 + usize::from(bias));
        conserved(&net, &Experts::draw(rows, sizes, bias, seed), &laws);
    }
}

#[test]
fn formulas() {
    let net = Experts::<f64>::draw(4, [2, 3, 2], true, 0);
    assert_eq!(
        listed(&net, &net.laws()),
        [
            "gate, shift, 1: Σ G of gate.weight[:,j] = 0",
            "gate, shift, 2: Σ G of gate.bias = 0",
            "expert 1, layer 1, neurons: ⟨experts.0.layers.0.weight[j,:], G⟩ \
             + ⟨experts.0.layers.0.bias[j], G⟩ − ⟨experts.0.layers.1.weight[:,j], G⟩ = 0",
            "expert 2, layer 1, neurons: ⟨experts.1.layers.0.weight[j,:], G⟩ \
             + ⟨experts.1.layers.0.bias[j], G⟩ − ⟨experts.1.layers.1.weight[:,j], G⟩ = 0",
        ]
    );
}

/// The sum over experts is due to the softmax; a gate takes no part in the laws of the experts.
#[test]
fn n_a_gate_of_single_shares_has_no_sum() {
    fails(|seed| {
        let net = Experts::<f64>::draw(6, [3, 4, 3], true, seed);
        let mut laws = net.laws();
        laws.retain(|law| law.symmetry == Symmetry::Translation);
        assert_eq!(laws.len(), 2);
        let net = Experts { alone: true, ..net };
        assert_eq!(net.laws().len(), 3);
        (net, laws)
    });
    fails(|seed| {
        let net = Experts::<f64>::draw(6, [3, 3, 3], true, seed);
        let mut laws = net.laws();
        laws.retain(|law| law.symmetry == Symmetry::Rescaling);
        let rows = Slice::new(0, [1, 3, 3]);
        for law in &mut laws {
            law.terms.push(Term::incoming(rows.clone()));
        }
        (net, laws)
    });
}
