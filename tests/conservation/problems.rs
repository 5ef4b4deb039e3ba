//! A problem for networks that is the same each time.

use emmy::Graph;
use emmy::graph::generators::random_graph;
use emmy::graph::{Duplicates, SelfLoops};
use emmy::testing::{Loss, Problem};

/// A graph of twelve nodes, some with a self-loop and one isolated, dense features.
pub fn example(inputs: usize, loss: Loss, seed: u64) -> Problem {
    let graph = random_graph(11, 18, seed);
    let loops: Vec<_> = (0..4).map(|i| (i, i)).collect();
    let edges: Vec<_> = graph.edge_list().chain(loops).collect();
    Problem {
        graph: Graph::new(12, &edges, Duplicates::Reject, SelfLoops::Keep).expect("valid"),
        inputs,
        sparse: false,
        loss,
        seed,
    }
}
