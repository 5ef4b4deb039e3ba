//! Attention with queries, keys and values: rows C8 to C14.

mod cases;

use crate::compositions::{idle_bias, names};
use crate::layers::{Attention, Score, Sizes};
use cases::{CASE, Case, cases};
use emmy::nn::Params;
use emmy::symmetry::Law;
use proptest::prelude::*;

/// C8 and C9, with C10 and C11 if there are biases and shared keys.
fn both(layer: &Attention<'_, f64>, slots: &Params<'_, f64>) -> Vec<Law> {
    let queries = layer.queries_and_keys(slots, 1);
    [queries, layer.values_and_output(slots, 1)].concat()
}

proptest! {
    #![proptest_config(crate::support::proptest_cases(60))]

    #[test]
    fn c8_queries_are_balanced_against_keys(case in cases()) {
        case.conserves(|layer, slots| layer.queries_and_keys(slots, 1));
    }

    #[test]
    fn c9_values_are_balanced_against_the_output(case in cases()) {
        case.conserves(|layer, slots| layer.values_and_output(slots, 1));
    }

    #[test]
    fn c10_biases_join_their_weights(case in cases()) {
        case.biased(true).conserves(both);
    }

    #[test]
    fn c10_the_bias_of_the_keys_never_moves(case in cases()) {
        // Enough tokens that some softmax is not saturated: if every softmax selects one token, the
        // gradient of W_K is zero as well.
        let case = case.sized(|s| Sizes { d_y: s.d_y + 2, ..s });
        let case = Case { n: case.n + 3, m: case.m + 3, ..case };
        case.biased(true).conserves(|layer, slots| layer.key_bias(slots, 1));
    }

    #[test]
    fn c11_a_key_is_balanced_against_all_queries_it_serves(case in cases(), share in 2..4_usize, bias: bool) {
        case.biased(bias).shared(share).conserves(both);
    }

    #[test]
    fn c12_rotary_positions_leave_growth_and_turn_of_each_plane(case in cases(), share in 1..3_usize, bias: bool) {
        let case = case.biased(bias).shared(share).scored(Score::Rotary);
        case.sized(|s| Sizes { d_k: 2 * s.d_k, ..s }).conserves(|layer, slots| {
            let planes = [layer.planes(slots), layer.turns_of_planes(slots)].concat();
            [planes, layer.values_and_output(slots, 1)].concat()
        });
    }

    #[test]
    fn c13_normalised_queries_and_keys_conserve_their_size(case in cases(), share in 1..3_usize, bias: bool) {
        // For a single number, or a single feature without bias, the output of a norm is only a
        // sign.
        let case = case.sized(|s| Sizes { d_x: s.d_x + 1, d_y: s.d_y + 1, d_k: s.d_k + 1, ..s });
        case.biased(bias).shared(share).scored(Score::Normalised).conserves(|layer, slots| {
            [layer.sizes(slots), layer.turns(slots), layer.values_and_output(slots, 1)].concat()
        });
    }

    #[test]
    fn c14_distances_are_kept_by_turns_and_shifts(case in cases(), bias: bool, tied: bool) {
        let score = if tied { Score::Tied } else { Score::Distance };
        // Enough tokens that some softmax is not saturated, as for the bias of the keys.
        let case = case.sized(|s| Sizes { d_x: s.d_x + 2, d_y: s.d_x + 2, ..s });
        let case = Case { n: case.n + 3, m: case.m + 3, ..case };
        case.biased(bias).scored(score).conserves(|layer, slots| {
            let isometries = [layer.turns(slots), layer.shifts(slots)].concat();
            [isometries, layer.values_and_output(slots, 1)].concat()
        });
    }
}

/// The formulas of the laws of a model with these layers.
#[test]
fn formulas() {
    type Laws = fn(&Attention<'_, f64>, &Params<'_, f64>) -> Vec<Law>;
    let show = |case: Case, laws: Laws, k: usize| {
        let net = case.draw::<f64>();
        let law = &laws(&Attention(&net.layer), &Params::of(&net))[k];
        let names = law.formula(&names(&net.layer)).replace(".weight", "");
        format!("{}: {names}", law.name)
    };
    let one = CASE.sized(|s| Sizes {
        heads: 1,
        groups: 1,
        ..s
    });
    let expected = [
        (
            one,
            both as Laws,
            0,
            "layer 1, head 1, queries and keys: G queryᵀ − key Gᵀ = 0",
        ),
        (
            one,
            both,
            1,
            "layer 1, head 1, values and output: G valueᵀ − outputᵀ G = 0",
        ),
        (
            CASE,
            both,
            1,
            "layer 1, head 2, queries and keys: G query[4..8,:]ᵀ − key[4..8,:] Gᵀ = 0",
        ),
        (
            CASE,
            both,
            3,
            "layer 1, head 2, values and output: G value[3..6,:]ᵀ − output[:,3..6]ᵀ G = 0",
        ),
        (
            one.biased(true),
            both,
            0,
            "layer 1, head 1, queries and keys: G queryᵀ + G query.biasᵀ − key Gᵀ − key.bias Gᵀ = 0",
        ),
        (
            one.biased(true),
            |layer, slots| layer.key_bias(slots, 1),
            0,
            "layer 1, bias of the keys: G of key.bias[j] = 0",
        ),
        (
            one.shared(2),
            both,
            0,
            "layer 1, heads 1 to 2, queries and keys: G query[0..4,:]ᵀ + G query[4..8,:]ᵀ − key Gᵀ = 0",
        ),
        (
            one.shared(2),
            both,
            1,
            "layer 1, heads 1 to 2, values and output: G valueᵀ − output[:,0..3]ᵀ G − output[:,3..6]ᵀ G = 0",
        ),
        (
            one,
            |layer, slots| layer.planes(slots),
            0,
            "head 1, planes: ⟨query[j,:], G⟩ − ⟨key[j,:], G⟩ = 0",
        ),
        (
            CASE,
            |layer, slots| layer.sizes(slots),
            1,
            "heads, keys: ⟨key[j,:], G⟩ = 0",
        ),
        (
            one,
            |layer, slots| layer.turns(slots),
            0,
            "head 1, turns: (G queryᵀ − query Gᵀ) + (G keyᵀ − key Gᵀ) = 0",
        ),
        (
            one.biased(true),
            |layer, slots| layer.shifts(slots),
            0,
            "biases of queries and keys: G of query.bias[j] + G of key.bias[j] = 0",
        ),
    ];
    for (case, laws, k, text) in expected {
        assert_eq!(show(case, laws, k), text);
    }
}

#[test]
fn n_the_matrix_law_fails_behind_rotary_positions_norms_and_distances() {
    for score in [Score::Rotary, Score::Normalised, Score::Distance] {
        CASE.scored(score)
            .violates(|layer, slots| layer.each_query_and_its_key(slots));
    }
}

#[test]
fn n_a_shared_key_is_not_balanced_against_one_of_its_queries() {
    CASE.shared(2)
        .violates(|layer, slots| layer.each_query_and_its_key(slots));
}

#[test]
fn n_weights_without_their_biases_are_not_balanced() {
    CASE.biased(true).violates(|layer, slots| {
        let mut laws = both(layer, slots);
        for law in &mut laws {
            law.terms
                .retain(|term| !matches!(term.slice.shape, [1, _, 1]));
        }
        laws
    });
}

#[test]
fn n_the_bias_of_queries_does_move() {
    let idle =
        |layer: &Attention<'_, _>, slots: &Params<'_, _>| idle_bias("", 1, slots, &layer.query);
    CASE.biased(true).violates(idle);
}

#[test]
fn n_without_norms_queries_do_not_conserve_their_size() {
    CASE.violates(|layer, slots| layer.sizes(slots));
}

#[test]
fn n_untied_queries_and_keys_cannot_turn_apart() {
    CASE.scored(Score::Distance).violates(|layer, slots| {
        let mut laws = layer.turns(slots);
        for law in &mut laws {
            law.terms.truncate(1);
        }
        laws
    });
}
