//! Graphs made from other graphs.

use super::{Graph, inverse};
use std::sync::Arc;

impl Graph {
    /// The undirected graph: j → i is an edge if j → i or i → j was. Self-loops stay.
    ///
    /// # Panics
    /// If it has more than 2³² − 1 edges.
    #[track_caller]
    pub fn symmetrise(&self) -> Self {
        if self.is_symmetric() {
            return self.clone();
        }
        let (rows, cols) = (self.pattern(), &self.pattern().transposed().pattern);
        let mut indptr = vec![0];
        let mut indices = Vec::with_capacity(2 * self.edges());
        for i in 0..self.nodes() {
            let start = indices.len();
            indices.extend_from_slice(&rows.indices()[rows.row(i)]);
            indices.extend_from_slice(&cols.indices()[cols.row(i)]);
            // Two ascending runs: the stable sort merges them in linear time.
            indices[start..].sort();
            let mut kept = start;
            for e in start..indices.len() {
                if kept == start || indices[kept - 1] != indices[e] {
                    indices[kept] = indices[e];
                    kept += 1;
                }
            }
            indices.truncate(kept);
            indptr.push(kept);
        }
        Self::from_rows(self.nodes(), indptr, indices)
    }

    /// A + I in the sense of PyTorch Geometric's `add_remaining_self_loops`: every node has exactly one
    /// self-loop, whether it had one before or not.
    ///
    /// # Panics
    /// If it has more than 2³² − 1 edges.
    #[track_caller]
    pub fn with_self_loops(&self) -> Self {
        let mut indices = Vec::with_capacity(self.edges() + self.nodes());
        let mut indptr = vec![0];
        for i in 0..self.nodes() {
            let sources = self.sources(i);
            let below = sources.partition_point(|&j| (j as usize) < i);
            let above = sources.partition_point(|&j| j as usize <= i);
            indices.extend_from_slice(&sources[..below]);
            indices.push(i as u32);
            indices.extend_from_slice(&sources[above..]);
            indptr.push(indices.len());
        }
        Self::from_rows(self.nodes(), indptr, indices)
    }

    /// The graph without its self-loops.
    pub fn without_self_loops(&self) -> Self {
        if self.self_loops() == 0 {
            return self.clone();
        }
        let mut indices = Vec::with_capacity(self.edges());
        let mut indptr = vec![0];
        for i in 0..self.nodes() {
            indices.extend(self.sources(i).iter().filter(|&&j| j as usize != i));
            indptr.push(indices.len());
        }
        Self::from_rows(self.nodes(), indptr, indices)
    }

    /// The graph with every edge reversed.
    pub fn reversed(&self) -> Self {
        let reversed = Arc::clone(&self.pattern().transposed().pattern);
        Self::from_pattern(reversed).expect("the transpose of a square pattern is square")
    }

    /// The same graph with its nodes renumbered: node i becomes node `to[i]`.
    ///
    /// # Panics
    /// If `to` is not a permutation of 0..n.
    #[track_caller]
    pub fn permute(&self, to: &[usize]) -> Self {
        let n = self.nodes();
        assert_eq!(to.len(), n, "permute: {n} nodes need as many new numbers");
        let from = inverse(to);
        let mut indices = Vec::with_capacity(self.edges());
        let mut indptr = vec![0];
        for &i in &from {
            let start = indices.len();
            indices.extend(self.sources(i).iter().map(|&j| to[j as usize] as u32));
            indices[start..].sort_unstable();
            indptr.push(indices.len());
        }
        Self::from_rows(n, indptr, indices)
    }

    /// The two graphs side by side, without an edge between them: node i of `other` becomes node n + i.
    ///
    /// # Panics
    /// If there are more than 2³² − 1 nodes or edges together.
    #[track_caller]
    pub fn disjoint_union(&self, other: &Self) -> Self {
        let n = self.nodes();
        let total = n + other.nodes();
        assert!(
            u32::try_from(total).is_ok(),
            "disjoint_union: {total} nodes, at most 2³² − 1 are possible"
        );
        let mut indices = self.pattern().indices().to_vec();
        indices.extend(other.pattern().indices().iter().map(|&j| j + n as u32));
        let mut indptr = self.pattern().indptr().to_vec();
        let later = other.pattern().indptr()[1..].iter();
        indptr.extend(later.map(|&e| e + self.edges()));
        Self::from_rows(total, indptr, indices)
    }
}
