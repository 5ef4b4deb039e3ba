//! Layers composed of the library's operations, with the laws they state. Tests use them too.

// The example uses a part of them.
#![allow(dead_code, unused_imports)]

pub mod attention;
mod attention_laws;
mod feed_forward;
pub mod norms;
pub mod terms;

pub use attention::{Attention, Reach, Score, Shape, Sizes};
pub use feed_forward::FeedForward;
pub use norms::Norm;
