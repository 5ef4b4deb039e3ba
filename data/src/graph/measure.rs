//! Properties of a graph: degrees, symmetry, homophily, components.

use super::Graph;

impl Graph {
    /// The number of edges into each node, self-loops among them: the row sums of A.
    pub fn in_degrees(&self) -> Vec<usize> {
        let indptr = self.pattern().indptr();
        indptr.windows(2).map(|w| w[1] - w[0]).collect()
    }

    /// The number of edges out of each node, self-loops among them: the column sums of A.
    pub fn out_degrees(&self) -> Vec<usize> {
        let mut degrees = vec![0; self.nodes()];
        for &j in self.pattern().indices() {
            degrees[j as usize] += 1;
        }
        degrees
    }

    /// Whether i → j is an edge for each edge j → i.
    pub fn is_symmetric(&self) -> bool {
        *self.pattern().transposed().pattern == **self.pattern()
    }

    /// The number of edges from a node to itself.
    pub fn self_loops(&self) -> usize {
        self.edge_list().filter(|(j, i)| j == i).count()
    }

    /// The nodes that have no edge to or from any other node, ascending.
    pub fn isolated(&self) -> Vec<usize> {
        let mut alone = vec![true; self.nodes()];
        for (j, i) in self.edge_list().filter(|(j, i)| j != i) {
            alone[i as usize] = false;
            alone[j as usize] = false;
        }
        (0..self.nodes()).filter(|&i| alone[i]).collect()
    }

    /// The share of edges, self-loops left out, whose two ends have the same label; `None` for a graph
    /// without such edges.
    ///
    /// For an undirected graph this is the edge homophily of Zhu et al. (NeurIPS 2020, definition 1).
    ///
    /// # Panics
    /// If there is not one label per node.
    #[track_caller]
    pub fn edge_homophily(&self, labels: &[usize]) -> Option<f64> {
        assert_eq!(
            labels.len(),
            self.nodes(),
            "edge_homophily: {} nodes need as many labels",
            self.nodes()
        );
        let (mut edges, mut equal) = (0_usize, 0_usize);
        for (j, i) in self.edge_list().filter(|(j, i)| j != i) {
            edges += 1;
            equal += usize::from(labels[i as usize] == labels[j as usize]);
        }
        (edges > 0).then(|| equal as f64 / edges as f64)
    }

    /// The number of the weakly connected component of each node. Components are numbered in the order of
    /// their lowest node.
    pub fn components(&self) -> Vec<usize> {
        let (rows, cols) = (self.pattern(), &self.pattern().transposed().pattern);
        let mut component = vec![usize::MAX; self.nodes()];
        let mut count = 0;
        let mut waiting = Vec::new();
        for start in 0..self.nodes() {
            if component[start] != usize::MAX {
                continue;
            }
            component[start] = count;
            waiting.push(start);
            while let Some(i) = waiting.pop() {
                for side in [rows, cols] {
                    for &j in &side.indices()[side.row(i)] {
                        if component[j as usize] == usize::MAX {
                            component[j as usize] = count;
                            waiting.push(j as usize);
                        }
                    }
                }
            }
            count += 1;
        }
        component
    }
}
