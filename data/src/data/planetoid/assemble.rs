//! Builds a data set from the eight parts.
//!
//! | letter | meaning |
//! |---|---|
//! | m | rows of `allx`: nodes 0..m are not test nodes |
//! | n | nodes; m..n are the test nodes and, in CiteSeer, 15 nodes without data |

use super::test_index::TestNode;
use crate::data::dataset::{Dataset, Split};
use crate::data::pickle::{Adjacency, Labels, Matrix};
use crate::error::{Error, Result};
use crate::graph::{Duplicates, Graph, SelfLoops};
use crate::sparse::{Csr, Pattern};
use std::path::PathBuf;

/// The number of validation nodes, which follow the training nodes.
const VALIDATION: usize = 500;

/// The parts as read.
pub(super) struct Parts<'a> {
    pub(super) x: Matrix,
    pub(super) tx: Matrix,
    pub(super) allx: Matrix,
    pub(super) y: Labels,
    pub(super) ty: Labels,
    pub(super) ally: Labels,
    pub(super) graph: Adjacency,
    pub(super) test: Vec<TestNode>,
    /// Where a part was read from.
    pub(super) path: &'a dyn Fn(&'static str) -> PathBuf,
}

impl Parts<'_> {
    pub(super) fn assemble(self, name: &str) -> Result<Dataset> {
        self.check_sizes()?;
        self.check_prefix()?;
        let row_of = self.rows_of_test_nodes()?;
        let (m, n) = (self.allx.csr.pattern.rows(), self.graph.nodes);

        let d = self.allx.csr.pattern.cols();
        let (mut indptr, mut indices, mut values) = (vec![0], Vec::new(), Vec::new());
        let mut labels = self.ally.labels.clone();
        for i in 0..n {
            let source = match i.checked_sub(m) {
                None => Some((&self.allx.csr, i)),
                Some(k) => row_of[k].map(|row| (&self.tx.csr, row)),
            };
            if let Some((csr, row)) = source {
                let entries = csr.pattern.row(row);
                indices.extend_from_slice(&csr.pattern.indices()[entries.clone()]);
                values.extend(entries.map(|e| csr.values[[e]]));
            }
            indptr.push(indices.len());
            if i >= m {
                // A node without data gets class 0, as argmax of a row of zeros.
                labels.push(row_of[i - m].map_or(0, |row| self.ty.labels[row]));
            }
        }
        let features = Csr::new(Pattern::new(n, d, indptr, indices)?, values);

        let train: Vec<usize> = (0..self.y.labels.len()).collect();
        let val: Vec<usize> = (train.len()..train.len() + VALIDATION).collect();
        let test: Vec<usize> = self.test.iter().map(|t| t.node as usize).collect();
        let split = Split::from_indices(n, &train, &val, &test);
        let graph = self.undirected()?;
        Dataset::new(
            name,
            graph,
            features,
            labels,
            self.ally.classes,
            vec![split],
        )
    }

    /// Rows and columns of features and labels agree.
    fn check_sizes(&self) -> Result<()> {
        let pairs = [
            ("x", &self.x, "y", &self.y),
            ("tx", &self.tx, "ty", &self.ty),
            ("allx", &self.allx, "ally", &self.ally),
        ];
        for (features, matrix, labels, one_hot) in pairs {
            let (rows, cols) = matrix.csr.pattern.shape();
            let d = self.allx.csr.pattern.cols();
            let found = format!("{rows} × {cols}");
            if rows != one_hot.labels.len() {
                let expected = format!(
                    "{} rows, as many as the labels of part {labels}",
                    one_hot.labels.len()
                );
                return Err(self.error(features, 0, expected, found));
            }
            if cols != d {
                let expected = format!("{d} columns, as many as part allx");
                return Err(self.error(features, 0, expected, found));
            }
            if one_hot.classes != self.ally.classes {
                let expected = format!("{} classes, as many as part ally", self.ally.classes);
                let found = one_hot.classes.to_string();
                return Err(self.error(labels, one_hot.rows_at, expected, found));
            }
        }
        if self.test.len() != self.tx.csr.pattern.rows() {
            let expected = format!(
                "{} numbers, one per row of part tx",
                self.tx.csr.pattern.rows()
            );
            let found = self.test.len().to_string();
            return Err(self.error("test.index", 0, expected, found));
        }
        let (labelled, known) = (self.y.labels.len(), self.ally.labels.len());
        if labelled == 0 {
            let expected = "at least one node to train on".to_owned();
            return Err(self.error("y", self.y.rows_at, expected, "none"));
        }
        if labelled + VALIDATION > known {
            let expected = format!(
                "at least {labelled} + {VALIDATION} rows, the nodes to train on and to validate"
            );
            return Err(self.error("allx", 0, expected, known.to_string()));
        }
        Ok(())
    }

    /// The first rows of `allx` and `ally` are `x` and `y`: files of different sets are not mixed.
    fn check_prefix(&self) -> Result<()> {
        for i in 0..self.y.labels.len() {
            let (part, whole) = (&self.x.csr, &self.allx.csr);
            let (a, b) = (part.pattern.row(i), whole.pattern.row(i));
            let columns = part.pattern.indices()[a.clone()] == whole.pattern.indices()[b.clone()];
            let at = self.x.indices_at + 4 * a.start as u64;
            if !columns || !a.zip(b).all(|(e, f)| part.values[[e]] == whole.values[[f]]) {
                let expected = format!("row {i} to be that of part allx");
                return Err(self.error("x", at, expected, "another row"));
            }
            if self.y.labels[i] != self.ally.labels[i] {
                let at = self.y.rows_at + (4 * self.y.classes * i) as u64;
                let expected = format!("class {}, as in part ally", self.ally.labels[i]);
                return Err(self.error("y", at, expected, self.y.labels[i].to_string()));
            }
        }
        Ok(())
    }

    /// The row in `tx` of each of the nodes m..n. The numbers in `test.index` are distinct and reach from m
    /// to n − 1.
    fn rows_of_test_nodes(&self) -> Result<Vec<Option<usize>>> {
        let (m, n) = (self.allx.csr.pattern.rows(), self.graph.nodes);
        let mut row_of = vec![None; n.saturating_sub(m)];
        for (row, &TestNode { node, at }) in self.test.iter().enumerate() {
            let slot = (node as usize)
                .checked_sub(m)
                .and_then(|k| row_of.get_mut(k));
            let Some(slot) = slot else {
                let expected = format!(
                    "a node number from {m} (rows of part allx) to below {n} (nodes of part graph)"
                );
                return Err(self.error("test.index", at, expected, node.to_string()));
            };
            if slot.replace(row).is_some() {
                let found = format!("{node} again");
                return Err(self.error("test.index", at, "each number once".into(), found));
            }
        }
        for (end, node) in [(row_of.first(), m), (row_of.last(), n.saturating_sub(1))] {
            if !matches!(end, Some(Some(_))) {
                let expected = format!("numbers from {m} to {}, both among them", n as i64 - 1);
                return Err(self.error("test.index", 0, expected, format!("no {node}")));
            }
        }
        Ok(row_of)
    }

    /// The lists hold both directions of each edge, some of them twice, and self-loops, which are left out.
    fn undirected(&self) -> Result<Graph> {
        let Adjacency { nodes, edges, at } = &self.graph;
        let graph = Graph::new(*nodes, edges, Duplicates::Merge, SelfLoops::Remove)?;
        if !graph.is_symmetric() {
            let one_way = |&(i, j): &(u32, u32)| i != j && !graph.has_edge(j as usize, i as usize);
            let k = edges.iter().position(one_way).unwrap_or(0);
            let (i, j) = edges[k];
            let expected = format!("neighbour {j} of node {i} to have {i} in its list");
            return Err(self.error("graph", at[k].into(), expected, "a list without it"));
        }
        Ok(graph)
    }

    fn error(
        &self,
        part: &'static str,
        byte: u64,
        expected: String,
        found: impl Into<String>,
    ) -> Error {
        Error::format((self.path)(part), byte, expected, found)
    }
}
