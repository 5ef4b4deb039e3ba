//! Two small models for the symmetries that no network lists: rotation, and scaling of a whole matrix.

use crate::cases::cases;
use crate::support::*;
use emmy::init;
use emmy::nn::{Linear, Params, Pass};
use emmy::symmetry::{Law, Slice, Symmetry, Term};
use emmy::{Real, Tensor, Var};

/// y = z zᵀ with z = x Wᵀ: the output depends on the neurons only through their products, as in attention by
/// distances with one weight for both sides.
#[derive(Debug, Clone)]
pub struct Gram<F: Real> {
    pub weight: Tensor<F>,
}
emmy::module!(Gram: weight);

impl<F: Real> Network<F> for Gram<F> {
    fn outputs<'t>(&self, pass: &Pass<'t, '_, F>, problem: &Problem) -> Var<'t, F> {
        let z = problem.input(pass.tape()).linear(pass.param(&self.weight));
        z.matmul(z.t())
    }
}

impl<F: Real> Gram<F> {
    pub fn new(inputs: usize, width: usize, seed: u64) -> Self {
        let mut net = Self {
            weight: init::zeros(&[width, inputs]),
        };
        draw_all(&mut net, seed);
        net
    }

    pub fn law(&self) -> Law {
        let rows = Params::of(self).rows(&self.weight);
        Law::new("Gram", 1, Symmetry::Rotation, vec![Term::incoming(rows)])
    }
}

/// y = relu(PairNorm(x Wᵀ)) Vᵀ + b, PairNorm z ↦ √n (z − mean) / ‖z − mean‖: the size of W does not matter
/// (C18).
#[derive(Debug, Clone)]
pub struct Normed<F: Real> {
    pub weight: Tensor<F>,
    pub last: Linear<F>,
}
emmy::module!(Normed: weight, last);

impl<F: Real> Network<F> for Normed<F> {
    fn outputs<'t>(&self, pass: &Pass<'t, '_, F>, problem: &Problem) -> Var<'t, F> {
        let z = problem.input(pass.tape()).linear(pass.param(&self.weight));
        let z = z - z.mean(&[0], true);
        let nodes = F::of(problem.graph.nodes() as f64);
        let z = (z / z.frobenius_norm()).scale(nodes.sqrt());
        self.last.forward(pass, z.relu())
    }
}

impl<F: Real> Normed<F> {
    pub fn new(inputs: usize, width: usize, seed: u64) -> Self {
        let mut net = Self {
            weight: init::zeros(&[width, inputs]),
            last: Linear::new(width, 3, true, &mut init::rng(0)),
        };
        draw_all(&mut net, seed);
        net
    }

    /// ⟨W, G⟩ = 0: all entries as one neuron that nothing reads.
    pub fn law(&self) -> Law {
        let all = Slice::new(0, [1, 1, self.weight.len()]);
        Law::new("scale", 1, Symmetry::Rescaling, vec![Term::incoming(all)])
    }
}

#[test]
fn what_is_seen_through_products_may_be_turned() {
    for seed in cases(20) {
        let problem = example(4, Loss::ALL[seed as usize % 5], seed);
        let net = Gram::<f64>::new(4, 3, seed);
        holds(&[net.law()], &net, &problem);
        let net = Gram::<f32>::new(4, 3, seed);
        holds(&[net.law()], &net, &problem);
    }
}

#[test]
fn what_is_normalised_may_be_scaled_as_a_whole_and_no_neuron_alone() {
    let mut alone = Vec::new();
    for seed in cases(20) {
        let problem = example(4, Loss::ALL[seed as usize % 5], seed);
        let net = Normed::<f64>::new(4, 3, seed);
        holds(&[net.law()], &net, &problem);
        let slots = Params::of(&net);
        let terms = vec![
            Term::incoming(slots.rows(&net.weight)),
            Term::outgoing(slots.columns(&net.last.weight)),
        ];
        let neurons = Law::new("neurons", 1, Symmetry::Rescaling, terms);
        alone.extend(spread(&[neurons], &net, &problem));
        let net = Normed::<f32>::new(4, 3, seed);
        holds(&[net.law()], &net, &problem);
    }
    typically(alone, 0.1, "neurons before PairNorm");
}
