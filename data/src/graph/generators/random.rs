//! Seeded random graphs, drawn in expected time linear in nodes and edges.

use super::{Graph, undirected};
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

/// An undirected graph drawn uniformly from all those with exactly this many undirected edges (Erdős and
/// Rényi's G(n, m)).
///
/// Pairs are drawn until enough of them differ; beyond half of all pairs, the missing ones are drawn instead.
///
/// # Panics
/// If there are fewer than `edges` pairs of distinct nodes, or more than 2³² − 1 nodes.
#[track_caller]
pub fn random_graph(nodes: usize, edges: usize, seed: u64) -> Graph {
    assert!(
        u32::try_from(nodes).is_ok(),
        "random_graph: {nodes} nodes, at most 2³² − 1 are possible"
    );
    let n = nodes as u64;
    let pairs = n * n.saturating_sub(1) / 2;
    assert!(
        edges as u64 <= pairs,
        "random_graph: {edges} edges, {nodes} nodes have only {pairs} pairs"
    );
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let dense = edges as u64 > pairs / 2;
    let drawn = if dense { pairs as usize - edges } else { edges };
    let mut pairs = distinct_pairs(nodes, drawn, &mut rng);
    if dense {
        pairs = complement(nodes, &pairs);
    }
    undirected(nodes, pairs)
}

/// `count` distinct pairs (i, j), j < i, sorted: drawn one after the other, a repeated one drawn again.
fn distinct_pairs(nodes: usize, count: usize, rng: &mut ChaCha8Rng) -> Vec<(u32, u32)> {
    let n = nodes as u32;
    let mut pairs = Vec::with_capacity(count);
    while pairs.len() < count {
        for _ in pairs.len()..count {
            let i = rng.random_range(0..n);
            let j = rng.random_range(0..n - 1);
            // Skipping i makes j uniform over the other nodes.
            let j = j + u32::from(j >= i);
            pairs.push((i.max(j), i.min(j)));
        }
        sort_pairs(nodes, &mut pairs);
        pairs.dedup();
    }
    pairs
}

/// Sorts pairs by their first node with a counting sort, then every group by itself: linear as long as the
/// groups are small.
fn sort_pairs(nodes: usize, pairs: &mut Vec<(u32, u32)>) {
    let mut start = vec![0; nodes + 1];
    for &(i, _) in pairs.iter() {
        start[i as usize + 1] += 1;
    }
    for i in 0..nodes {
        start[i + 1] += start[i];
    }
    let mut next = start.clone();
    let mut sorted = vec![(0, 0); pairs.len()];
    for &(i, j) in pairs.iter() {
        sorted[next[i as usize]] = (i, j);
        next[i as usize] += 1;
    }
    for group in start.windows(2) {
        sorted[group[0]..group[1]].sort_unstable();
    }
    *pairs = sorted;
}

/// All pairs (i, j), j < i, that are not among the given sorted ones.
fn complement(nodes: usize, without: &[(u32, u32)]) -> Vec<(u32, u32)> {
    let mut without = without.iter().peekable();
    let all = (0..nodes as u32).flat_map(|i| (0..i).map(move |j| (i, j)));
    all.filter(|pair| without.next_if_eq(&pair).is_none())
        .collect()
}

/// A stochastic block model (Holland, Laskey and Leinhardt, 1983): block b has `sizes[b]` nodes, numbered
/// block after block, and two nodes of blocks a and b are joined with probability `probabilities[a][b]`,
/// independently of all others.
///
/// Each block pair is walked in steps of geometric length from edge to edge (Batagelj and Brandes, 2005), so
/// absent edges cost nothing.
///
/// # Panics
/// If `probabilities` is not a symmetric matrix of numbers from 0 to 1 with one row and column per block, or
/// there are more than 2³² − 1 nodes.
#[track_caller]
pub fn stochastic_block_model(sizes: &[usize], probabilities: &[Vec<f64>], seed: u64) -> Graph {
    let blocks = sizes.len();
    assert!(
        probabilities.len() == blocks && probabilities.iter().all(|row| row.len() == blocks),
        "stochastic_block_model: {blocks} blocks need {blocks} × {blocks} probabilities"
    );
    for (a, row) in probabilities.iter().enumerate() {
        for (b, &p) in row.iter().enumerate() {
            assert!(
                (0.0..=1.0).contains(&p) && p == probabilities[b][a],
                "stochastic_block_model: probability ({a}, {b}) is {p}: symmetric numbers from 0 to 1 are needed"
            );
        }
    }
    let nodes = sizes.iter().sum::<usize>();
    assert!(
        u32::try_from(nodes).is_ok(),
        "stochastic_block_model: {nodes} nodes, at most 2³² − 1 are possible"
    );
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut pairs = Vec::new();
    let mut first_a = 0;
    for (a, &size_a) in sizes.iter().enumerate() {
        // Within the block: pairs (i, j), j < i, in the order (1, 0), (2, 0), (2, 1), (3, 0), …
        let inner = (size_a * size_a.saturating_sub(1) / 2) as u64;
        let (mut i, mut row_start) = (1_u64, 0_u64);
        bernoulli(inner, probabilities[a][a], &mut rng, |k| {
            while k >= row_start + i {
                row_start += i;
                i += 1;
            }
            pairs.push((
                (first_a as u64 + i) as u32,
                (first_a as u64 + k - row_start) as u32,
            ));
        });
        let mut first_b = first_a + size_a;
        for (b, &size_b) in sizes.iter().enumerate().skip(a + 1) {
            let outer = size_a as u64 * size_b as u64;
            bernoulli(outer, probabilities[a][b], &mut rng, |k| {
                let (i, j) = (k / size_b as u64, k % size_b as u64);
                pairs.push(((first_a as u64 + i) as u32, (first_b as u64 + j) as u32));
            });
            first_b += size_b;
        }
        first_a += size_a;
    }
    undirected(nodes, pairs)
}

/// Chooses each of 0..`total` with probability `p` and calls `hit` with the chosen numbers, ascending, in
/// time proportional to how many there are.
fn bernoulli(total: u64, p: f64, rng: &mut ChaCha8Rng, mut hit: impl FnMut(u64)) {
    if p <= 0.0 {
        return;
    }
    let mut k = 0_u64;
    loop {
        if p < 1.0 {
            // The number of failures before a success: ⌊ln(1 − u) / ln(1 − p)⌋ with u uniform in [0, 1).
            let u: f64 = rng.random();
            let skip = ((-u).ln_1p() / (-p).ln_1p()).floor();
            k = k.saturating_add(skip as u64);
        }
        if k >= total {
            return;
        }
        hit(k);
        k += 1;
    }
}

/// The block of every node of a stochastic block model with these sizes: 0 for the first `sizes[0]` nodes,
/// and so on.
pub fn block_labels(sizes: &[usize]) -> Vec<usize> {
    let block = |(b, &size)| std::iter::repeat_n(b, size);
    sizes.iter().enumerate().flat_map(block).collect()
}
