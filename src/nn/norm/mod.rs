//! Normalisers.

mod layer_norm;

pub use layer_norm::LayerNorm;
