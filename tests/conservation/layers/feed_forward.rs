//! The library's feed-forward layers of any widths, gated or not, and their laws written down.

use super::terms::{linear, read, written};
use emmy::Real;
use emmy::init::Rng;
use emmy::nn::{Activation, Dropout, FeedForward, Linear, Params};
use emmy::symmetry::{Law, Symmetry};

/// Of `widths` of input, inside and output, with every weight and bias drawn.
pub fn feed_forward<F: Real>(
    widths: [usize; 3],
    gated: bool,
    activation: Activation,
    bias: bool,
    rng: &mut Rng,
) -> FeedForward<F> {
    let [input, inside, out] = widths;
    FeedForward {
        gate: gated.then(|| linear(input, inside, bias, rng)),
        up: linear(input, inside, bias, rng),
        down: linear(inside, out, bias, rng),
        activation,
        dropout: Dropout::new(0.0),
    }
}

/// C15: ⟨W_up[j,:], G⟩ − ⟨W_down[:,j], G⟩ = 0, whatever σ. Without a gate it is C1, and σ must be
/// homogeneous.
pub fn up_and_down<F: Real>(
    unit: &FeedForward<F>,
    slots: &Params<'_, F>,
    layer: usize,
) -> Vec<Law> {
    let degree = match unit.gate {
        Some(_) => Some(1),
        None => unit.activation.degree(),
    };
    let law = |k| {
        against_down(
            unit,
            format!("layer {layer}, neurons"),
            layer,
            slots,
            &unit.up,
            k,
        )
    };
    degree.map(law).into_iter().collect()
}

/// ⟨W_gate[j,:], G⟩ − k ⟨W_down[:,j], G⟩ = 0, if σ is homogeneous of degree k.
pub fn gate_and_down<F: Real>(
    unit: &FeedForward<F>,
    slots: &Params<'_, F>,
    layer: usize,
) -> Vec<Law> {
    let law =
        |(gate, k)| against_down(unit, format!("layer {layer}, gates"), layer, slots, gate, k);
    let gate = unit.gate.as_ref().zip(unit.activation.degree());
    gate.map(law).into_iter().collect()
}

fn against_down<F: Real>(
    unit: &FeedForward<F>,
    name: String,
    layer: usize,
    slots: &Params<'_, F>,
    map: &Linear<F>,
    degree: u32,
) -> Law {
    let readers = read(slots, [&unit.down]).into_iter();
    let readers = readers.map(|term| term.times(degree.into()));
    let terms = written(slots, map).into_iter().chain(readers).collect();
    Law::new(name, layer, Symmetry::Rescaling, terms)
}
