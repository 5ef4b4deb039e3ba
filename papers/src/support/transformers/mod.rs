//! Deep transformers with ContraNorm and without: what `vision` and `encoder` share.
//!
//! A [`Recipe`] is the part of a cell that both have, [`Arguments`] names it on the command line, [`train`]
//! runs it, [`Layers`] are the measures by layer, and [`show`] draws and prints them.

mod arguments;
mod layers;
mod recipe;
pub mod show;
mod train;

pub use arguments::Arguments;
pub use layers::Layers;
pub use recipe::{Normaliser, Place, Recipe, Variant};
pub use train::{Examples, Outcome, Part, train};
