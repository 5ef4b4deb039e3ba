//! Conservation laws hold at every point, for every network that states them, and fail where they should.

mod arbitrary;
mod attention;
mod chains;
mod compositions;
mod contracts;
mod differentiable;
mod drift;
mod errata;
mod experts;
mod failing;
mod gated;
mod handmade;
mod invariance;
#[path = "../../examples/laws/layers/mod.rs"]
mod layers;
mod lists;
mod means;
mod networks;
mod normalisation;
mod plain;
mod problems;
mod runs;
mod streams;
mod sums;
mod support;
mod transformer;
