//! Orders of the nodes, for speed: nodes that exchange messages get numbers close to each other, so that the
//! rows of neighbours are in the cache when they are read. What a network computes does not depend on it.

use super::Graph;
use std::cmp::Reverse;

impl Graph {
    /// The reverse Cuthill–McKee order: breadth first from a node of lowest degree of each component, the
    /// neighbours of a node by ascending degree, the whole sequence reversed (Cuthill and McKee, "Reducing
    /// the Bandwidth of Sparse Symmetric Matrices", 1969; George, 1971). The edges are read in both
    /// directions.
    ///
    /// Returns the new number of each node, as [`permute`](Self::permute) takes it. Takes O(n log n + m log m)
    /// steps for n nodes and m edges. A pass over a grid whose nodes have random numbers is 4 times as fast
    /// with this order, one over a random graph 1.2 times (`benches/README.md`).
    ///
    /// ```
    /// use emmy::graph::generators::cycle;
    ///
    /// let shuffled = cycle(6).permute(&[0, 3, 1, 5, 2, 4]);
    /// assert_eq!(shuffled.bandwidth(), 4);
    /// assert_eq!(shuffled.permute(&shuffled.cuthill_mckee()).bandwidth(), 2);
    /// ```
    pub fn cuthill_mckee(&self) -> Vec<usize> {
        let both = self.symmetrise();
        let degrees = both.in_degrees();
        let mut roots: Vec<_> = (0..self.nodes()).collect();
        roots.sort_by_key(|&i| degrees[i]);
        let mut found = vec![false; self.nodes()];
        let mut sequence = Vec::with_capacity(self.nodes());
        for root in roots {
            let mut next = sequence.len();
            if !std::mem::replace(&mut found[root], true) {
                sequence.push(root);
            }
            while next < sequence.len() {
                let neighbours = both.sources(sequence[next]).iter().map(|&j| j as usize);
                next += 1;
                let first = sequence.len();
                sequence.extend(neighbours.filter(|&j| !std::mem::replace(&mut found[j], true)));
                sequence[first..].sort_by_key(|&j| degrees[j]);
            }
        }
        sequence.reverse();
        inverse(&sequence)
    }

    /// The order of descending out-degree: the rows that most edges read come first and are close together.
    ///
    /// Returns the new number of each node, as [`permute`](Self::permute) takes it. It is meant for graphs in
    /// which few nodes have most of the edges; no such graph was measured.
    pub fn by_degree(&self) -> Vec<usize> {
        let degrees = self.out_degrees();
        let mut sequence: Vec<_> = (0..self.nodes()).collect();
        sequence.sort_by_key(|&i| Reverse(degrees[i]));
        inverse(&sequence)
    }

    /// The largest |i − j| of an edge j → i; 0 without edges.
    pub fn bandwidth(&self) -> usize {
        let distances = self.edge_list().map(|(j, i)| i.abs_diff(j) as usize);
        distances.max().unwrap_or(0)
    }
}

/// The inverse of a permutation: where `to[i]` is the new number of node i, the old number of each new one.
///
/// ```
/// assert_eq!(emmy::graph::inverse(&[2, 0, 1]), [1, 2, 0]);
/// ```
///
/// # Panics
/// If `to` is not a permutation of 0..n.
#[track_caller]
pub fn inverse(to: &[usize]) -> Vec<usize> {
    let n = to.len();
    let mut from = vec![usize::MAX; n];
    for (i, &k) in to.iter().enumerate() {
        assert!(
            k < n && from[k] == usize::MAX,
            "new numbers: {k} (for node {i}) is out of range or taken: a permutation of 0..{n} is needed"
        );
        from[k] = i;
    }
    from
}
