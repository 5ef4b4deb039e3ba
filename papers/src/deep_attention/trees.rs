//! TREES of section 7.2: labels that must travel from the leaves of binary trees to the root.
//!
//! As in Alon and Yahav, "On the Bottleneck of Graph Neural Networks and its Practical Implications" (ICLR
//! 2021), whom the paper follows. A tree of depth d has 2^d green nodes at its lowest level, each with a
//! different number of blue neighbours (0 to 2^d − 1) and a different label (of 2^d). The root is green too;
//! its label is that of the green node with as many blue neighbours as the root has.
//!
//! | node | features, 2^(d+1) of them |
//! |---|---|
//! | green, at the lowest level | its number of blue neighbours and its label, each one-hot |
//! | the root | its number of blue neighbours |
//! | all others | zeros |
//!
//! The blue nodes themselves are left out, as in the paper. Messages go up, from children to parents: the
//! paper's trees are "directed from the root to the leaves", and along such edges the root would receive no
//! messages.

use emmy::data::{Dataset, Split};
use emmy::graph::{Duplicates, Graph, SelfLoops};
use emmy::init::{self, Rng};
use emmy::sparse::{Csr, Pattern};
use emmy::{Error, Result};
use rand::seq::SliceRandom;

/// The depths of the paper.
pub const DEPTHS: std::ops::RangeInclusive<usize> = 2..=10;

/// The name of the set of trees of a depth.
pub fn name(depth: usize) -> String {
    format!("trees-{depth}")
}

/// The depth of a set with this name, `trees-4`.
pub fn depth(name: &str) -> Option<usize> {
    let depth: usize = name.strip_prefix("trees-")?.parse().ok()?;
    DEPTHS.contains(&depth).then_some(depth)
}

/// The number of nodes of one tree.
pub const fn nodes(depth: usize) -> usize {
    (1 << (depth + 1)) - 1
}

/// Trees of one depth as one graph. Eight tenths of the roots are for training, one tenth each for validation
/// and test.
///
/// # Errors
/// If there are fewer than ten trees, or too many nodes.
pub fn trees(depth: usize, count: usize, seed: u64) -> Result<Dataset> {
    if count < 10 {
        return Err(Error::invalid("--trees", "at least 10", count.to_string()));
    }
    let (each, leaves) = (nodes(depth), 1_usize << depth);
    let all = each.saturating_mul(count);
    if u32::try_from(all).is_err() {
        let rule = "fewer than 2³² nodes in all";
        return Err(Error::invalid("--trees", rule, all.to_string()));
    }
    let rng = &mut init::rng(seed);
    let mut edges = Vec::with_capacity(all);
    let (mut indptr, mut indices) = (vec![0], Vec::new());
    let mut labels = vec![0; all];
    for tree in 0..count {
        let root = tree * each;
        // Numbered level by level, as in `balanced_tree`.
        edges.extend((1..each).map(|i| ((root + i) as u32, (root + (i - 1) / 2) as u32)));
        let (counts, values) = (permutation(leaves, rng), permutation(leaves, rng));
        let asked = rand::RngExt::random_range(rng, 0..leaves);
        labels[root] = values[asked];
        for node in 0..each {
            if node == 0 {
                indices.push(counts[asked] as u32);
            } else if let Some(leaf) = node.checked_sub(leaves - 1) {
                labels[root + node] = values[leaf];
                indices.extend([counts[leaf] as u32, (leaves + values[leaf]) as u32]);
            }
            indptr.push(indices.len());
        }
    }
    let ones = vec![1.0; indices.len()];
    let pattern = Pattern::new(all, 2 * leaves, indptr, indices)?;
    let graph = Graph::new(all, &edges, Duplicates::Reject, SelfLoops::Reject)?;
    let tenth = count / 10;
    let roots = |trees: std::ops::Range<usize>| trees.map(|tree| tree * each).collect::<Vec<_>>();
    let split = Split::from_indices(
        all,
        &roots(2 * tenth..count),
        &roots(0..tenth),
        &roots(tenth..2 * tenth),
    );
    let features = Csr::new(pattern, ones);
    Dataset::new(name(depth), graph, features, labels, leaves, vec![split])
}

fn permutation(n: usize, rng: &mut Rng) -> Vec<usize> {
    let mut all: Vec<usize> = (0..n).collect();
    all.shuffle(rng);
    all
}
