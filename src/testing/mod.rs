//! A testing kit: your own model against the theorems that this library states.
//!
//! A [`Subject`] is a model with its forward pass, an input and a seed. A check measures something of it and
//! returns a [`Report`], a row per statement, which a training loop, a notebook or CI prints, as a table or
//! as JSON. An assertion is its check and a panic with the report.
//!
//! | check | assertion | statement |
//! |---|---|---|
//! | [`check_laws`], [`check_laws_of`], [`check_laws_at`] | [`assert_laws`] | δ = 0 for every law that is read off a pass, and for a loss |
//! | [`check_complete`] | [`assert_complete`] | there are no other laws: search and count |
//! | [`check_drift`], [`check_drift_of`] | [`assert_drift`] | c after steps of descent, with momentum, decay and clipping, is what [`Drift`](crate::symmetry::Drift) predicts |
//! | [`check_invariant`], [`check_invariant_of`] | [`assert_invariant`] | moving along the symmetry of a law changes no output |
//! | [`check_lipschitz`], [`check_bound`] | [`assert_lipschitz`] | no attack exceeds the bound; r = found / bound |
//! | [`check_grads`] | [`assert_grads`] | ∂f = differences of f; ⟨u, J w⟩ = ⟨Jᵀu, w⟩ |
//! | [`check_hessian`] | [`assert_hessian`] | H w = differences of ∂f; H = Hᵀ |
//! | [`check_equivariant`] | [`assert_equivariant`] | f(P x, P A Pᵀ) = P f(x, A) |
//! | [`check_kind`] | [`assert_kind`] | what an operation says of itself |
//! | [`check_same_bits`] | [`assert_same_bits`] | the number of threads changes no bit |
//! | [`check_round_trip`] | [`assert_round_trip`] | a file in between changes no bit |
//! | [`check_torch_names`] | [`assert_torch_names`] | the names and shapes of PyTorch's `state_dict` |
//!
//! The crate `emmy-strategies` draws graphs, features, losses and models that shrink to the smallest case
//! that still fails. [Testing your own model](crate::book::testing) is the chapter; `cargo run --example
//! check` shows all of it on one model.

mod attack;
mod derivatives;
mod laws;
mod loss;
mod motion;
mod problem;
mod quotient;
mod report;
mod same;
mod subject;
mod worst_weights;

pub use attack::{Attack, assert_lipschitz, check_bound, check_lipschitz};
pub use derivatives::{
    assert_grads, assert_hessian, assert_kind, check_grads, check_hessian, check_kind,
};
pub use laws::{
    assert_complete, assert_laws, check_complete, check_laws, check_laws_at, check_laws_of,
    tolerance,
};
pub use loss::Loss;
pub use motion::{
    Descent, assert_drift, assert_invariant, check_drift, check_drift_of, check_invariant,
    check_invariant_of,
};
pub use problem::Problem;
pub use report::{Relation, Report, Row, Verdict};
pub use same::{
    assert_equivariant, assert_round_trip, assert_same_bits, assert_torch_names, check_equivariant,
    check_round_trip, check_same_bits, check_torch_names,
};
pub use subject::Subject;
