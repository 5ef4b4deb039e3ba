//! Regular families.

use super::{Graph, undirected};

/// The path 0 – 1 – … – (n − 1).
#[track_caller]
pub fn path(nodes: usize) -> Graph {
    undirected(nodes, (1..nodes as u32).map(|i| (i - 1, i)).collect())
}

/// The cycle 0 – 1 – … – (n − 1) – 0.
///
/// # Panics
/// If there are fewer than three nodes.
#[track_caller]
pub fn cycle(nodes: usize) -> Graph {
    assert!(nodes >= 3, "cycle: {nodes} nodes, at least 3 are needed");
    let n = nodes as u32;
    undirected(nodes, (0..n).map(|i| (i, (i + 1) % n)).collect())
}

/// Every node joined to every other.
#[track_caller]
pub fn complete(nodes: usize) -> Graph {
    let n = nodes as u32;
    let pairs = (0..n).flat_map(|i| (0..i).map(move |j| (i, j)));
    undirected(nodes, pairs.collect())
}

/// Node 0 joined to each of the `leaves` other nodes.
#[track_caller]
pub fn star(leaves: usize) -> Graph {
    undirected(leaves + 1, (1..=leaves as u32).map(|i| (0, i)).collect())
}

/// The grid of `rows` × `cols` nodes, each joined to its neighbours above, below, left and right. The node in
/// row r and column c has the number r · cols + c.
#[track_caller]
pub fn grid(rows: usize, cols: usize) -> Graph {
    let node = |r: usize, c: usize| (r * cols + c) as u32;
    let mut pairs = Vec::with_capacity(2 * rows * cols);
    for r in 0..rows {
        for c in 0..cols {
            if c + 1 < cols {
                pairs.push((node(r, c), node(r, c + 1)));
            }
            if r + 1 < rows {
                pairs.push((node(r, c), node(r + 1, c)));
            }
        }
    }
    undirected(rows * cols, pairs)
}

/// The tree in which every node above the last level has `branching` children, with `height` levels below the
/// root; Σ_{k ≤ height} branchingᵏ nodes, numbered level by level from the root, node 0.
///
/// # Panics
/// If the tree has 2³² nodes or more.
#[track_caller]
pub fn balanced_tree(branching: usize, height: usize) -> Graph {
    let (mut nodes, mut level) = (1_usize, 1_usize);
    for _ in 0..height {
        level = level.saturating_mul(branching);
        nodes = nodes.saturating_add(level);
        assert!(
            u32::try_from(nodes).is_ok(),
            "balanced_tree: branching {branching} and height {height} give more than 2³² − 1 nodes"
        );
        if level == 0 {
            break;
        }
    }
    let parent = |i: usize| ((i - 1) / branching) as u32;
    undirected(nodes, (1..nodes).map(|i| (parent(i), i as u32)).collect())
}
