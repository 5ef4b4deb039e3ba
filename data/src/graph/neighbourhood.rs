//! Who hears whom, in the forms that layers ask for.

use super::Graph;
use crate::real::Real;
use crate::sparse::{Csr, Pattern};
use std::sync::{Arc, OnceLock};

/// The edges of a graph as layers need them: the bare pattern for attention, matrices with values for fixed
/// propagation. A matrix is made when a layer first asks for it, and kept.
///
/// ```
/// use emmy::{Graph, graph::{Duplicates, Neighbourhood, SelfLoops}};
/// let path = Graph::new(3, &[(0, 1), (1, 0), (1, 2), (2, 1)], Duplicates::Reject, SelfLoops::Reject)?;
/// let neighbours = Neighbourhood::<f64>::of(path.with_self_loops());
/// assert_eq!(neighbours.symmetric_norm().values, path.gcn_norm::<f64>().values);
/// assert_eq!(neighbours.mean().values[0], 0.5);
/// # Ok::<(), emmy::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Neighbourhood<F: Real> {
    graph: Graph,
    symmetric: OnceLock<Csr<F>>,
    mean: OnceLock<Csr<F>>,
    with_self_loops: OnceLock<Arc<Pattern>>,
}

impl<F: Real> Neighbourhood<F> {
    /// The neighbourhood in a graph as it is: a node is its own neighbour if it has a self-loop
    /// ([`Graph::with_self_loops`], [`Graph::without_self_loops`]).
    pub fn of(graph: Graph) -> Self {
        Self {
            graph,
            symmetric: OnceLock::new(),
            mean: OnceLock::new(),
            with_self_loops: OnceLock::new(),
        }
    }

    /// The graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The number of nodes.
    pub fn nodes(&self) -> usize {
        self.graph.nodes()
    }

    /// Which entries exist: rows are targets, columns sources.
    pub fn pattern(&self) -> &Arc<Pattern> {
        self.graph.pattern()
    }

    /// The same with an entry for each node and itself.
    pub fn pattern_with_self_loops(&self) -> &Arc<Pattern> {
        let all = || self.graph.with_self_loops().pattern().clone();
        self.with_self_loops.get_or_init(all)
    }

    /// D^-½ A D^-½ ([`Graph::symmetric_norm`]); with self-loops that of graph convolution.
    pub fn symmetric_norm(&self) -> &Csr<F> {
        self.symmetric.get_or_init(|| self.graph.symmetric_norm())
    }

    /// D⁻¹ A: a product with it takes the mean over the neighbours of each node, 0 for a node without any.
    pub fn mean(&self) -> &Csr<F> {
        self.mean.get_or_init(|| self.graph.mean_norm())
    }
}
