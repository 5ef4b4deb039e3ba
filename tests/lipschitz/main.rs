//! Lipschitz constants: no bound is exceeded, and the theorems of two papers.

mod attacked;
mod ball;
#[path = "../cases/mod.rs"]
mod cases;
mod exact;
mod heads;
mod here;
mod joint;
mod kept;
mod layers;
mod magnitudes;
mod normalization;
mod norms;
mod pieces;
mod programs;
mod reading;
mod rounding;
mod rounding_steps;
mod sandwich;
mod scores;
mod self_attention;
mod shares;
mod support;
mod tightness;
mod two_layers;
mod unusual;
mod whole;
