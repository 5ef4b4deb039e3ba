//! A small transformer and all its laws at once: what "Are GATs Out of Balance?" leaves to future work
//! (Section 3, Limitations).

mod model;

use crate::cases::cases;
use crate::compositions::{drifts, fails, gradients, names, stays, vanishes};
use emmy::linalg;
use emmy::nn::{Module, parameter_count};
use emmy::optim::{Algorithm, Optimizer};
use emmy::symmetry::{Law, Symmetry};
use model::{BARE, DEEP, EPS, Plan, STREAM, Transformer, rms};
use ndarray::Array2;

/// The formulas of the laws of one block.
#[test]
fn what_a_block_conserves() {
    let one = Plan {
        gated: &[true],
        ..DEEP
    };
    let net = one.draw::<f64>(0);
    let short = |text: String| {
        let names = ["blocks.0.", "attention.", "forward.", ".weight"];
        names.iter().fold(text, |text, name| text.replace(name, ""))
    };
    let found: Vec<_> = (net.laws().iter())
        .map(|law| format!("{}: {}", law.name, short(law.formula(&names(&net)))))
        .collect();
    let expected = [
        "embed, scale: \
         ⟨embed, G⟩ + ⟨embed.bias, G⟩ + ⟨output, G⟩ + ⟨output.bias, G⟩ + ⟨down, G⟩ + ⟨down.bias, G⟩ = 0",
        "embed, shift, 1: Σ G of embed[:,j] = 0",
        "embed, shift, 2: Σ G of embed.bias = 0",
        "block 1, attention, shift, 1: Σ G of output[:,j] = 0",
        "block 1, attention, shift, 2: Σ G of output.bias = 0",
        "block 1, forward, down, shift, 1: Σ G of down[:,j] = 0",
        "block 1, forward, down, shift, 2: Σ G of down.bias = 0",
        "block 1, norm1, neurons: \
         ⟨norm1.gain[j], G⟩ + ⟨norm1.bias[j], G⟩ − ⟨query[:,j], G⟩ − ⟨key[:,j], G⟩ − ⟨value[:,j], G⟩ = 0",
        "block 1, attention, head 1, queries and keys: \
         G query[0..3,:]ᵀ + G query.bias[0..3]ᵀ − key[0..3,:] Gᵀ − key.bias[0..3] Gᵀ = 0",
        "block 1, attention, head 1, values and output: \
         G value[0..2,:]ᵀ + G value.bias[0..2]ᵀ − output[:,0..2]ᵀ G = 0",
        "block 1, attention, head 2, queries and keys: \
         G query[3..6,:]ᵀ + G query.bias[3..6]ᵀ − key[3..6,:] Gᵀ − key.bias[3..6] Gᵀ = 0",
        "block 1, attention, head 2, values and output: \
         G value[2..4,:]ᵀ + G value.bias[2..4]ᵀ − output[:,2..4]ᵀ G = 0",
        "block 1, attention, bias of the keys: G of key.bias[j] = 0",
        "block 1, norm2, neurons: \
         ⟨norm2.gain[j], G⟩ + ⟨norm2.bias[j], G⟩ − ⟨up[:,j], G⟩ − ⟨gate[:,j], G⟩ = 0",
        "block 1, forward, up, neurons: ⟨up[j,:], G⟩ + ⟨up.bias[j], G⟩ − ⟨down[:,j], G⟩ = 0",
        "last, neurons: ⟨last.gain[j], G⟩ + ⟨last.bias[j], G⟩ − ⟨head[:,j], G⟩ = 0",
        "head, sum over classes, 1: Σ G of head[:,j] = 0",
        "head, sum over classes, 2: Σ G of head.bias = 0",
    ];
    assert_eq!(found, expected);
}

#[test]
fn all_laws_of_a_transformer_hold_at_once() {
    for plan in [DEEP, EPS, BARE] {
        let mut sizes: Vec<Vec<f64>> = Vec::new();
        for seed in cases(20) {
            let net = plan.draw::<f64>(seed);
            let laws = net.laws();
            vanishes(&net, &laws, 1e-10);
            vanishes(&plan.draw::<f32>(seed), &laws, 1e-3);
            stays(&net, &laws);
            let gradients = gradients(&net);
            let size = |law: &Law| law.measure(&net.tensors(), &gradients).size;
            sizes.push(laws.iter().flat_map(size).collect());
        }
        // The law of a dead neuron holds trivially; no neuron is dead in all twenty draws.
        let all = sizes
            .into_iter()
            .reduce(|a, b| a.iter().zip(b).map(|(a, b)| a + b).collect());
        assert!(all.expect("seeds").iter().all(|size| *size > 1e-3));
    }
}

#[test]
fn its_degree_of_balance_moves_as_predicted() {
    for (plan, seed) in [(DEEP, 0), (DEEP, 1), (EPS, 2), (BARE, 3)] {
        let net = plan.draw::<f64>(seed);
        drifts(&net, &net.laws(), 20);
    }
}

/// δ is about one point, so it vanishes at every point that an optimiser reaches.
#[test]
fn the_laws_hold_all_along_a_run_with_adam() {
    let mut net = DEEP.draw::<f64>(1);
    let laws = net.laws();
    let mut optimizer = Optimizer::new(Algorithm::ADAM);
    for _ in 0..20 {
        let gradients = gradients(&net);
        optimizer.step(net.tensors_mut(), &gradients, 0.01);
        vanishes(&net, &laws, 1e-10);
    }
}

#[test]
fn n_with_a_positive_eps_the_length_of_the_stream_matters() {
    fails(|seed| {
        let net = DEEP.draw::<f64>(seed);
        let mut laws = net.laws();
        laws.retain(|law| law.name == "embed, scale");
        (net.with_eps(1.0), laws)
    });
}

/// A gain per coordinate of the stream distinguishes the coordinates.
#[test]
fn n_with_gains_the_stream_does_not_turn() {
    let gains = Plan {
        norm: rms(true),
        ..BARE
    };
    fails(|seed| {
        let (bare, net) = (BARE.draw::<f64>(seed), gains.draw::<f64>(seed));
        let mut laws = bare.laws();
        laws.retain(|law| law.symmetry == Symmetry::Rotation);
        assert_eq!(laws.len(), 1);
        // The same parameters, which have other numbers beside the gains.
        let (from, to) = (names(&bare), names(&net));
        for term in &mut laws[0].terms {
            let name = &from[term.slice.parameter];
            term.slice.parameter = to.iter().position(|n| n == name).expect("it is there too");
        }
        (net, laws)
    });
}

/// The directions in which no loss on any data changes are orthogonal to the gradients of any number of
/// losses. Their number agrees with the laws, so the list is complete.
#[test]
#[ignore = "takes seconds: cargo test -- --include-ignored"]
fn the_list_is_complete() {
    for gated in [&[true], &[false]] {
        // Nothing but matrices, and a draw without dead neurons: no more and no less.
        let bare = Plan { gated, ..BARE }.draw::<f64>(3);
        assert_eq!(blind_directions(&bare), dimension(&bare.laws()));
        // LayerNorm with gain and bias adds changes that no law here has a term for: they move one parameter
        // by a multiple of another. The output of the norm is γ ⊙ z + β with Σ z_i = 0, so W + u
        // (1/γ)ᵀ reads γ ⊙ z as W does. Hence
        let full = Plan {
            gated,
            bias: false,
            ..DEEP
        }
        .draw::<f64>(3);
        let beta = 3 * STREAM; // u in every reader of β compensates a shift of β;
        let keys = 2 * 3; // u in W_K adds the same to all keys of a head, as b_K would;
        let constants = 1; // u in W_V adds constants to the stream: two heads of two, three of four coordinates seen;
        let turns = 3; // the stream turns about (1, .., 1), each reader as W diag(γ).
        let more = beta + keys + constants + turns;
        assert_eq!(blind_directions(&full), dimension(&full.laws()) + more);
    }
}

/// The number of independent symmetries: a matrix of rotations is antisymmetric.
fn dimension(laws: &[Law]) -> usize {
    let one = |law: &Law| match law.symmetry {
        Symmetry::Rotation => law.neurons() * (law.neurons() - 1) / 2,
        _ => law.entries(),
    };
    laws.iter().map(one).sum()
}

/// The dimension of the space orthogonal to the gradients of the net on twice as many data sets as
/// it has parameters.
fn blind_directions(net: &Transformer<f64>) -> usize {
    let count = parameter_count(net);
    let gradient = |seed| -> Vec<f64> {
        let gradients = gradients(&net.clone().on(seed));
        gradients.iter().flat_map(|g| g.iter().copied()).collect()
    };
    let rows: Vec<f64> = (0..2 * count as u64).flat_map(gradient).collect();
    let rows = Array2::from_shape_vec((2 * count, count), rows).expect("a row a loss");
    let (_, sigma, _) = linalg::svd(rows.view());
    let seen = sigma.iter().filter(|s| **s > 1e-9).count();
    assert!(
        sigma[seen - 1] > 1e-4,
        "the smallest that counts is {:.1e}",
        sigma[seen - 1]
    );
    count - seen
}
