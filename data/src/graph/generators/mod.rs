//! Graphs that need no file: regular families, seeded random graphs, and Zachary's karate club.
//!
//! All of them are undirected (both directions of every edge are there) and without self-loops.

mod families;
mod karate;
mod random;

pub use families::{balanced_tree, complete, cycle, grid, path, star};
pub use karate::{KARATE_COMMUNITIES, KARATE_FACTIONS, karate_club};
pub use random::{block_labels, random_graph, stochastic_block_model};

use super::{Duplicates, Graph, SelfLoops};

/// The undirected graph of the given pairs, each of distinct nodes in range, given once in one direction.
#[track_caller]
fn undirected(nodes: usize, mut pairs: Vec<(u32, u32)>) -> Graph {
    pairs.extend_from_within(..);
    let half = pairs.len() / 2;
    for (s, t) in &mut pairs[half..] {
        std::mem::swap(s, t);
    }
    Graph::new(nodes, &pairs, Duplicates::Reject, SelfLoops::Reject)
        .unwrap_or_else(|e| panic!("{e}"))
}
