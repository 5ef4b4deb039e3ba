//! Layers and models.

mod module;

pub use module::{Module, Named, Pass};
