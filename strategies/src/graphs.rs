//! Graphs.

use emmy::graph::generators::{path, star, stochastic_block_model};
use emmy::graph::{Duplicates, Graph, SelfLoops};
use proptest::collection::vec;
use proptest::prelude::*;
use std::ops::Range;

/// Graphs of every family here, the simplest first: no edges, paths, stars, trees, blocks, and arbitrary
/// ones.
pub fn graphs() -> impl Strategy<Value = Graph> {
    prop_oneof![
        1 => edgeless(1..6),
        1 => paths(1..9),
        1 => stars(0..8),
        1 => trees(1..9),
        1 => stochastic_blocks(1..4, 1..5),
        5 => arbitrary_graphs(),
    ]
}

/// A number of nodes and edges as pairs, with self-loops and parallel edges.
pub fn edge_lists(
    nodes: Range<u32>,
    edges: Range<usize>,
) -> impl Strategy<Value = (usize, Vec<(u32, u32)>)> {
    let end = nodes.end.max(1);
    (nodes, vec((0..end, 0..end), edges)).prop_map(|(n, pairs)| {
        let n = n.max(1);
        let edges = pairs.into_iter().map(|(s, t)| (s % n, t % n));
        (n as usize, edges.collect())
    })
}

/// Directed or not, with and without self-loops, the last nodes sometimes without any edge. Parallel edges
/// of the list are merged.
pub fn arbitrary_graphs() -> impl Strategy<Value = Graph> {
    let lists = edge_lists(1..9, 0..25);
    (lists, 0_usize..3, any::<bool>()).prop_map(|((n, edges), loners, directed)| {
        let graph = graph(n + loners, &edges);
        if directed { graph } else { graph.symmetrise() }
    })
}

fn graph(nodes: usize, edges: &[(u32, u32)]) -> Graph {
    Graph::new(nodes, edges, Duplicates::Merge, SelfLoops::Keep).expect("edges between its nodes")
}

/// Nodes without edges.
pub fn edgeless(nodes: Range<usize>) -> impl Strategy<Value = Graph> {
    nodes.prop_map(|n| graph(n, &[]))
}

/// Undirected paths.
pub fn paths(nodes: Range<usize>) -> impl Strategy<Value = Graph> {
    nodes.prop_map(path)
}

/// A centre with leaves.
pub fn stars(leaves: Range<usize>) -> impl Strategy<Value = Graph> {
    leaves.prop_map(star)
}

/// Undirected trees: every node but the first hangs on one before it, and shrinks towards the first.
pub fn trees(nodes: Range<usize>) -> impl Strategy<Value = Graph> {
    let end = nodes.end.max(1);
    (nodes, vec(any::<u32>(), end)).prop_map(|(n, parents)| {
        let edge = |k: usize| (k as u32, parents[k] % k as u32);
        let edges: Vec<_> = (1..n).map(edge).collect();
        graph(n, &edges).symmetrise()
    })
}

/// The stochastic block model: dense blocks, few edges between them.
pub fn stochastic_blocks(blocks: Range<usize>, size: Range<usize>) -> impl Strategy<Value = Graph> {
    (vec(size, blocks), any::<u64>()).prop_map(|(sizes, seed)| {
        let p = |a: usize, b: usize| if a == b { 0.8 } else { 0.1 };
        let k = sizes.len();
        let rows: Vec<Vec<f64>> = (0..k).map(|a| (0..k).map(|b| p(a, b)).collect()).collect();
        stochastic_block_model(&sizes, &rows, seed)
    })
}

/// A permutation of 0..n.
pub fn permutations(n: usize) -> impl Strategy<Value = Vec<usize>> {
    Just((0..n).collect::<Vec<_>>()).prop_shuffle()
}
