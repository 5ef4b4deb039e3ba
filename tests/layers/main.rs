//! The layers, and the passes over models that are made of them.

mod attention;
mod graph;
mod local_constants;
mod omega_gat;
mod passes;
mod recurrent;
#[path = "../fixtures/mod.rs"]
mod reference;
mod sage;
mod support;
