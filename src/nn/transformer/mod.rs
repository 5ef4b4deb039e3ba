//! Transformers: feed-forward layers, blocks, stacks of blocks, and the models made of them.

mod bert;
mod block;
mod contra;
mod drop_path;
mod feed_forward;
mod language;
mod stack;
mod start;
mod vision;

pub use bert::{Bert, BertConfig};
pub use block::{BlockConfig, TransformerBlock};
pub use contra::{BlockContra, ContraPlace};
pub use drop_path::DropPath;
pub use feed_forward::{FeedForward, FeedForwardConfig};
pub use language::{LanguageConfig, LanguageModel, Positions};
pub use stack::Transformer;
pub use vision::{VisionConfig, VisionTransformer};
