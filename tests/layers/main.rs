//! The layers, and the passes over models that are made of them.

mod attention;
mod graph;
mod omega_gat;
mod passes;
mod sage;
mod support;
