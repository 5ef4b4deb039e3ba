//! Affine maps, and their terms in laws.

use emmy::nn::{Linear, Params};
use emmy::symmetry::{Law, Slice, Symmetry, Term};
use emmy::{Real, Tensor, init};
use std::ops::Range;

/// A map with weights of variance 1/in, and biases of variance ¼.
pub fn linear<F: Real>(input: usize, out: usize, bias: bool, rng: &mut init::Rng) -> Linear<F> {
    Linear {
        weight: init::normal(&[out, input], (input as f64).powf(-0.5), rng),
        bias: bias.then(|| init::normal(&[out], 0.5, rng)),
    }
}

/// [W b] of a map whose outputs are the neurons in groups of `per`; only the neurons in `range`.
pub fn rows<F: Real>(
    slots: &Params<'_, F>,
    map: &Linear<F>,
    per: usize,
    range: Range<usize>,
) -> Vec<Slice> {
    let groups = map.weight.shape()[0] / per;
    let parameters = std::iter::once(&map.weight).chain(&map.bias);
    let slice = |p| slots.grouped(p, 1, groups).narrow(range.clone());
    parameters.map(slice).collect()
}

/// Slices as incoming terms.
pub fn incoming(slices: impl IntoIterator<Item = Slice>) -> Vec<Term> {
    slices.into_iter().map(Term::incoming).collect()
}

/// Slices as outgoing terms.
pub fn outgoing(slices: impl IntoIterator<Item = Slice>) -> Vec<Term> {
    slices.into_iter().map(Term::outgoing).collect()
}

/// [W b] of a map as the terms of one side; its single outputs are the neurons.
pub fn written<F: Real>(slots: &Params<'_, F>, map: &Linear<F>) -> Vec<Term> {
    incoming(rows(slots, map, 1, 0..map.weight.shape()[0]))
}

/// The columns of maps, as outgoing terms of the neurons that they read.
pub fn read<'a, F: Real>(
    slots: &Params<'_, F>,
    maps: impl IntoIterator<Item = &'a Linear<F>>,
) -> Vec<Term> {
    outgoing(maps.into_iter().map(|map| slots.columns(&map.weight)))
}

/// [W b] of maps as one neuron each: they grow together or not at all.
pub fn whole<'a, F: Real>(
    slots: &Params<'_, F>,
    maps: impl IntoIterator<Item = &'a Linear<F>>,
) -> Vec<Term> {
    let slices = |map: &Linear<F>| rows(slots, map, map.weight.shape()[0], 0..1);
    incoming(maps.into_iter().flat_map(slices))
}

/// 1ᵀ G of the weight and of the bias of a map whose outputs may be shifted all alike.
pub fn shifts<F: Real>(
    name: &str,
    layer: usize,
    slots: &Params<'_, F>,
    map: &Linear<F>,
) -> Vec<Law> {
    let law = |slice| Law::new(name, layer, Symmetry::Translation, incoming([slice]));
    let weight = std::iter::once(slots.columns(&map.weight));
    let slices = weight.chain(map.bias.iter().map(|b| slots.whole(b)));
    slices.map(law).collect()
}

/// b of a map if it has no effect at all: the gradient of each of its entries is zero. It is compared with
/// the gradient of the row of W.
pub fn idle_bias<F: Real>(
    name: &str,
    layer: usize,
    slots: &Params<'_, F>,
    map: &Linear<F>,
) -> Vec<Law> {
    let law = |bias: &Tensor<F>| {
        let terms = vec![
            Term::incoming(slots.rows(bias)),
            Term::reference(slots.rows(&map.weight)),
        ];
        Law::new(name, layer, Symmetry::Translation, terms)
    };
    map.bias.iter().map(law).collect()
}
