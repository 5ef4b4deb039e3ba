//! The layers, and the passes over models that are made of them.

mod attention;
mod configurations;
mod convolutions;
mod graph;
mod local_constants;
mod norms;
mod own_layer;
mod own_norm;
mod own_score;
mod passes;
mod recurrent;
#[path = "../fixtures/mod.rs"]
mod reference;
mod sage;
#[path = "../../papers/src/vision/strokes.rs"]
mod strokes;
mod support;
mod transformer;
