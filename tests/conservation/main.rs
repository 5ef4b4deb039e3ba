//! Conservation laws hold at every point, for every network that states them, and fail where they should.

mod arbitrary;
mod attention;
mod biases;
mod chains;
mod compositions;
mod contracts;
mod convolutions;
mod differentiable;
mod discovery;
mod drift;
mod errata;
mod experts;
mod failing;
mod formulas;
mod gated;
mod handmade;
mod invariance;
mod layers;
mod lists;
mod means;
mod measures;
#[allow(dead_code, reason = "the program shows more of them")]
#[path = "../../papers/src/laws/models.rs"]
mod models;
#[path = "../../papers/src/laws/nets.rs"]
mod nets;
mod networks;
mod normalisation;
mod own_operations;
mod passages;
mod plain;
mod ports;
mod problems;
mod recurrent;
mod runs;
mod score_norms;
mod search;
mod slices;
mod streams;
mod sums;
mod support;
mod totals;
#[allow(dead_code, reason = "the program shows more of it")]
#[path = "../../papers/src/laws/training.rs"]
mod training;
mod transformer;
