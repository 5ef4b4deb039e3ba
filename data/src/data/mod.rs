//! Data sets for node classification: the public benchmark files, and sets that need no file. Texts are in
//! [`text`], images in [`images`].
//!
//! [`load`] gives any of them by its name; [`ALL`] is the table of names, files and readers, and [`Source`]
//! says how to add a set. A graph of your own, an edge list and a table of nodes, is read by [`csv::load`].
//!
//! ```
//! use emmy::data::{self, Options};
//!
//! let karate = data::load("karate", &Options::default())?;
//! assert_eq!((karate.nodes(), karate.classes), (34, 2));
//! # Ok::<(), emmy::Error>(())
//! ```
//!
//! Files are read as upstream publishes them, by Rust code alone. Nothing in them is trusted: every offset,
//! length and number is checked before it is used, and a file whose content is not as expected gives an error
//! with file, byte and expectation. The sizes that a file may declare are limited, so that what is read can
//! be trained on as well: for Planetoid and heterophilic files to 65 536 nodes, 65 536 features of a node,
//! 1 048 576 edges and 256 classes; [`ogb`] and [`csv`] have larger limits.
//!
//! | set | from | file |
//! |---|---|---|
//! | Cora, CiteSeer, PubMed | [`planetoid`] | `ind.NAME.*` |
//! | Chameleon, Squirrel, Actor, Cornell, Texas, Wisconsin | [`heterophilic`] | `NAME.npz` |
//! | ogbn-arxiv and other sets of the Open Graph Benchmark | [`ogb`] | a folder of CSV files |
//! | your own | [`csv`] | an edge list and a table of nodes |
//! | cora-like | [`cora_like`](fn@cora_like) | none: a seeded contextual block model |
//! | karate | [`karate`] | none: Zachary's karate club |

mod cora_like;
pub mod csv;
mod dataset;
#[doc(hidden)]
pub mod files;
pub mod heterophilic;
pub mod images;
mod karate;
pub mod locate;
pub mod ogb;
mod pickle;
pub mod planetoid;
mod source;
pub mod text;

pub use cora_like::cora_like;
pub use dataset::{Dataset, Split};
pub use karate::karate;
pub use locate::Files;
pub use source::{ALL, Source, features, find};

use crate::error::Result;
use std::path::PathBuf;

/// How the edges of a file are read that has each edge once. Heterophilic files have (u, v) with u < v.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Direction {
    /// Both u → v and v → u, as upstream's own loader of heterophilic files does.
    #[default]
    Symmetrised,
    /// u → v alone, as the code of "Are GATs Out of Balance?" (NeurIPS 2023) reads them: many nodes then
    /// receive no message.
    Directed,
}

/// How to load a data set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// The folder to look in; `None` stands for the folders that [`locate`] names.
    pub folder: Option<PathBuf>,
    /// How the edges of heterophilic files and of those of the Open Graph Benchmark are read; the other
    /// sets are undirected.
    pub direction: Direction,
    /// The seed of `cora-like`; the other sets have none.
    pub seed: u64,
}

/// Loads the data set with this name; [`ALL`] lists them.
///
/// # Errors
/// If no set has this name. [`Error::NotFound`](crate::error::Error::NotFound) if its files are in none of
/// the places; an error with file, byte and expectation if a file is damaged.
pub fn load(name: &str, options: &Options) -> Result<Dataset> {
    find(name)?.load(options)
}
