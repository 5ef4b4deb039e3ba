//! The engine and the operations: values, derivatives, errors, and the claims of a trace about them.

mod bounds;
#[path = "../cases/mod.rs"]
mod cases;
mod check_grads;
mod contracts;
mod conventions;
mod engine;
mod extremes;
mod facts;
mod fixtures;
mod forgotten;
mod kinds;
mod literals;

mod named_panics;
mod passages;
#[path = "../fixtures/mod.rs"]
mod reference;
mod registry;
mod rounding;
mod scores;
mod tiles;
mod values;
