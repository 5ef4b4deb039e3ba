//! Laws that fail: with ε > 0; for single neurons before a norm of all neurons; and for changes that a norm
//! does not remove.

use super::{CASE, Case, Chain, batch, layer, pair};
use crate::compositions::{fails, gradients, idle_bias, read, shifts, whole, written};
use emmy::nn::{Layer, Module, Norm, PairMode, Params};
use emmy::symmetry::{Law, Symmetry};

impl Case {
    /// For twenty draws, whatever the seed of this.
    fn violates(self, laws: impl Fn(&Chain<f64>, &Params<'_, f64>) -> Vec<Law>) {
        fails(|seed| {
            let net = Self { seed, ..self }.draw::<f64>();
            let laws = laws(&net, &Params::of(&net));
            (net, laws)
        });
    }
}

/// The false law of scale where ε > 0, or of a norm that sees the size: ⟨[W b], G⟩ = 0, all neurons as one.
fn scale(net: &Chain<f64>, slots: &Params<'_, f64>) -> Vec<Law> {
    let terms = whole(slots, [&net.first]);
    vec![Law::new("layer 1, scale", 1, Symmetry::Rescaling, terms)]
}

/// The same neuron by neuron: ⟨[W b][j,:], G⟩ = 0.
fn scales(net: &Chain<f64>, slots: &Params<'_, f64>) -> Vec<Law> {
    let terms = written(slots, &net.first);
    vec![Law::new("layer 1, neurons", 1, Symmetry::Rescaling, terms)]
}

/// The false law C1, as if there were no norm in between.
fn neurons(net: &Chain<f64>, slots: &Params<'_, f64>) -> Vec<Law> {
    let terms = [written(slots, &net.first), read(slots, &net.readers)].concat();
    vec![Law::new("layer 1, neurons", 1, Symmetry::Rescaling, terms)]
}

fn idle(net: &Chain<f64>, slots: &Params<'_, f64>) -> Vec<Law> {
    idle_bias("layer 1, bias", 1, slots, &net.first)
}

#[test]
fn n_with_a_positive_eps_the_scale_is_not_free() {
    let layer = |eps| Case {
        norm: layer(eps, false),
        ..CASE
    };
    layer(1.0).violates(scale);
    Case {
        norm: batch(1.0, false),
        ..CASE
    }
    .violates(scales);
    Case {
        norm: Norm::Graph { eps: 1.0 },
        ..CASE
    }
    .violates(scales);
    Case {
        norm: Norm::Rms {
            eps: 1.0,
            gain: false,
        },
        ..CASE
    }
    .violates(scale);
    Case {
        norm: pair(1.0, PairMode::PnSi),
        ..CASE
    }
    .violates(scale);
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
        layer(0.0, false),
        pair(0.0, PairMode::Pn),
        pair(0.0, PairMode::PnSi),
        pair(0.0, PairMode::PnScs),
        batch(0.0, false),
    ] {
        Case { norm, ..CASE }.violates(neurons);
    }
}

#[test]
fn n_rms_norm_sees_a_shift() {
    let norm = Norm::Rms {
        eps: 0.0,
        gain: false,
    };
    Case { norm, ..CASE }.violates(|net, slots| shifts("", 1, slots, &net.first));
}

/// Pair norm and layer norm depend on all neurons together: scaling a single neuron changes the
/// loss.
#[test]
fn n_neurons_before_pair_and_layer_norm_do_not_conserve_their_size() {
    for norm in [layer(0.0, false), pair(0.0, PairMode::Pn)] {
        Case { norm, ..CASE }.violates(scales);
    }
}

/// PN-SCS subtracts a mean that was not scaled.
#[test]
fn n_pair_norm_scs_sees_the_size_and_an_offset() {
    let norm = pair(0.0, PairMode::PnScs);
    Case { norm, ..CASE }.violates(scale);
    Case { norm, ..CASE }.violates(idle);
}

#[test]
fn n_a_gain_is_not_balanced_against_one_reader_of_several() {
    let norm = layer(0.0, true);
    Case { norm, ..CASE }.violates(|net, slots| {
        let own = net.norm.ports(slots).expect("those of a norm").writers;
        let terms = [own, read(slots, &net.readers[1..])].concat();
        vec![Law::new("gain", 1, Symmetry::Rescaling, terms)]
    });
}

/// α is drawn about 1.
#[test]
fn n_a_bias_before_a_norm_that_subtracts_a_share_of_the_mean_does_move() {
    let norm = Norm::Graph { eps: 0.0 };
    Case { norm, ..CASE }.violates(idle);
}
