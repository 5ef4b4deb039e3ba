//! Feed-forward layers, gated or not.

use super::terms::{linear, read, written};
use emmy::init::Rng;
use emmy::nn::{Activation, Linear, Params, Pass};
use emmy::symmetry::{Law, Symmetry};
use emmy::{Real, Var};

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
