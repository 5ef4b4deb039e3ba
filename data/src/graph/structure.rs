//! The graph itself: edges in compressed form, checked when it is made.

use crate::error::{Error, Result};
use crate::sparse::Pattern;
use std::sync::Arc;

/// What to do with an edge that is given more than once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duplicates {
    /// Refuse the list of edges.
    Reject,
    /// Keep it once.
    Merge,
}

/// What to do with an edge from a node to itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SelfLoops {
    /// Refuse the list of edges.
    Reject,
    /// Keep it as it is.
    Keep,
    /// Leave it out.
    Remove,
}

/// A directed graph of n nodes without edge weights: the square pattern whose entry (i, j) is the edge j → i.
///
/// An undirected graph is one that holds both directions of each edge ([`Graph::symmetrise`]). Nodes without
/// edges are fine. A graph is immutable and cheap to clone.
///
/// ```
/// use emmy::graph::{Duplicates, Graph, SelfLoops};
///
/// let triangle_and_a_loner = Graph::new(4, &[(0, 1), (1, 2), (2, 0)], Duplicates::Reject, SelfLoops::Reject)?;
/// assert_eq!(triangle_and_a_loner.sources(1), [0]);
/// assert_eq!(triangle_and_a_loner.symmetrise().edges(), 6);
/// # Ok::<(), emmy::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Graph {
    pattern: Arc<Pattern>,
}

impl Graph {
    /// A graph of `nodes` nodes from its edges as (source, target) pairs in any order. Time and memory are
    /// linear in nodes and edges.
    ///
    /// # Errors
    /// If a node number is not below `nodes`, an edge violates one of the two policies, or there are more
    /// than 2³² − 1 nodes or edges.
    pub fn new(
        nodes: usize,
        edges: &[(u32, u32)],
        duplicates: Duplicates,
        self_loops: SelfLoops,
    ) -> Result<Self> {
        // Checked before anything is allocated, since one list has an element per node.
        if u32::try_from(nodes).is_err() {
            return Err(Error::invalid(
                "graph: nodes",
                format!("at most {}", u32::MAX),
                nodes.to_string(),
            ));
        }
        for (k, &(source, target)) in edges.iter().enumerate() {
            if source as usize >= nodes || target as usize >= nodes {
                return Err(Error::invalid(
                    format!("graph: edge {k}"),
                    format!("two node numbers below {nodes}"),
                    format!("{source} → {target}"),
                ));
            }
            if source == target && self_loops == SelfLoops::Reject {
                return Err(Error::invalid(
                    format!("graph: edge {k}"),
                    "no self-loop",
                    format!("{source} → {target}"),
                ));
            }
        }
        let wanted = |&(s, t): &(u32, u32)| s != t || self_loops == SelfLoops::Keep;
        let (indptr, indices) = compress(nodes, || edges.iter().copied().filter(wanted));
        let (indptr, indices) = merge(indptr, indices, duplicates)?;
        Self::from_pattern(Pattern::new(nodes, nodes, indptr, indices)?)
    }

    /// The graph whose edge j → i is the entry (i, j) of a square pattern; the diagonal is its self-loops.
    ///
    /// # Errors
    /// If the pattern is not square.
    pub fn from_pattern(pattern: Arc<Pattern>) -> Result<Self> {
        if pattern.rows() != pattern.cols() {
            return Err(Error::invalid(
                "graph: pattern",
                "as many rows as columns",
                format!("{} × {}", pattern.rows(), pattern.cols()),
            ));
        }
        Ok(Self { pattern })
    }

    /// From rows that are valid by construction: ascending sources, in range.
    ///
    /// # Panics
    /// If there are more than 2³² − 1 edges.
    #[track_caller]
    pub(super) fn from_rows(nodes: usize, indptr: Vec<usize>, indices: Vec<u32>) -> Self {
        Pattern::new(nodes, nodes, indptr, indices)
            .and_then(Self::from_pattern)
            .unwrap_or_else(|e| panic!("graph: {e}"))
    }

    /// The n × n pattern: rows are targets, columns are sources.
    pub fn pattern(&self) -> &Arc<Pattern> {
        &self.pattern
    }

    /// The number of nodes n.
    pub fn nodes(&self) -> usize {
        self.pattern.rows()
    }

    /// The number of directed edges, self-loops among them; an undirected edge counts twice.
    pub fn edges(&self) -> usize {
        self.pattern.nnz()
    }

    /// The nodes with an edge to `target`, ascending.
    ///
    /// # Panics
    /// If `target` is out of range.
    #[track_caller]
    pub fn sources(&self, target: usize) -> &[u32] {
        &self.pattern.indices()[self.pattern.row(target)]
    }

    /// All edges as (source, target), sorted by target, then by source.
    pub fn edge_list(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let sources = self.pattern.indices().iter().copied();
        sources.zip(self.pattern.rows_of().iter().copied())
    }

    /// Whether there is an edge from `source` to `target`.
    ///
    /// # Panics
    /// If `target` is out of range.
    #[track_caller]
    pub fn has_edge(&self, source: usize, target: usize) -> bool {
        self.pattern.find(target, source).is_some()
    }
}

/// Rows by target with ascending sources, duplicates still in: two counting sorts, by source, then (stable)
/// by target.
fn compress<I: Iterator<Item = (u32, u32)>>(
    nodes: usize,
    edges: impl Fn() -> I,
) -> (Vec<usize>, Vec<u32>) {
    let mut by_source = vec![0; nodes + 1];
    let mut by_target = vec![0; nodes + 1];
    for (s, t) in edges() {
        by_source[s as usize + 1] += 1;
        by_target[t as usize + 1] += 1;
    }
    for i in 0..nodes {
        by_source[i + 1] += by_source[i];
        by_target[i + 1] += by_target[i];
    }
    let mut targets = vec![0; by_source[nodes]];
    let mut next = by_source.clone();
    for (s, t) in edges() {
        targets[next[s as usize]] = t;
        next[s as usize] += 1;
    }
    let mut indices = vec![0; targets.len()];
    next.copy_from_slice(&by_target);
    for source in 0..nodes {
        for &t in &targets[by_source[source]..by_source[source + 1]] {
            indices[next[t as usize]] = source as u32;
            next[t as usize] += 1;
        }
    }
    (by_target, indices)
}

/// Applies the policy for duplicates to sorted rows, in place.
fn merge(
    mut indptr: Vec<usize>,
    mut indices: Vec<u32>,
    duplicates: Duplicates,
) -> Result<(Vec<usize>, Vec<u32>)> {
    let (mut kept, mut start) = (0, 0);
    for target in 0..indptr.len() - 1 {
        let end = indptr[target + 1];
        let first = kept;
        for e in start..end {
            if kept > first && indices[kept - 1] == indices[e] {
                if duplicates == Duplicates::Reject {
                    return Err(Error::invalid(
                        "graph: edges",
                        "every edge once",
                        format!("{} → {target} more than once", indices[e]),
                    ));
                }
                continue;
            }
            indices[kept] = indices[e];
            kept += 1;
        }
        start = end;
        indptr[target + 1] = kept;
    }
    indices.truncate(kept);
    Ok((indptr, indices))
}
