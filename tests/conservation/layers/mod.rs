//! Layers of the library with any options, and their laws written down by hand.

// The tests of the laboratory use a part of them.
#![allow(dead_code, unused_imports)]

pub mod attention;
mod attention_laws;
mod feed_forward;
pub mod terms;

pub use attention::{Attention, Score, Shape, Sizes, attention};
pub use feed_forward::{feed_forward, gate_and_down, up_and_down};
