//! A data set for node classification: graph, sparse features, labels, splits.
//!
//! | letter | meaning |
//! |---|---|
//! | n | nodes |
//! | d | features per node |

use crate::error::{Error, Result};
use crate::graph::{Graph, inverse};
use crate::real::Real;
use crate::sparse::{Csr, Pattern};

/// The nodes for training, for choosing the best epoch and for testing: three disjoint masks, one flag per
/// node. Nodes in none of the masks still send and receive messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// Nodes whose labels enter the loss.
    pub train: Vec<bool>,
    /// Nodes by which the best epoch is chosen.
    pub val: Vec<bool>,
    /// Nodes on which the reported accuracy is measured.
    pub test: Vec<bool>,
}

impl Split {
    /// The masks over `nodes` nodes that hold the given node numbers.
    ///
    /// # Panics
    /// If a number is not below `nodes`.
    #[track_caller]
    pub fn from_indices(nodes: usize, train: &[usize], val: &[usize], test: &[usize]) -> Self {
        let mask = |indices: &[usize]| {
            let mut mask = vec![false; nodes];
            for &i in indices {
                assert!(i < nodes, "Split: node {i}, there are {nodes}");
                mask[i] = true;
            }
            mask
        };
        Self {
            train: mask(train),
            val: mask(val),
            test: mask(test),
        }
    }

    /// How many nodes are in train, val and test.
    pub fn counts(&self) -> [usize; 3] {
        [&self.train, &self.val, &self.test].map(|mask| mask.iter().filter(|&&m| m).count())
    }
}

/// A graph with a row of features and a label for every node.
#[derive(Debug, Clone, PartialEq)]
pub struct Dataset {
    /// The name by which the set is requested.
    pub name: String,
    /// n nodes; no self-loops in any of the sets of this crate.
    pub graph: Graph,
    /// Features as published, n × d.
    pub features: Csr<f32>,
    /// The class of each node, below `classes`; 0 for a node without a label, which is in no part of a
    /// split.
    pub labels: Vec<usize>,
    /// The number of classes.
    pub classes: usize,
    /// At least one split; the public splits where there are any.
    pub splits: Vec<Split>,
}

impl Dataset {
    /// A data set whose parts agree with each other.
    ///
    /// # Errors
    /// If there is not one row of features, one label and one flag of each mask for every node, a label is
    /// not below `classes`, a feature is not finite, the masks of a split overlap, or there is no split.
    pub fn new(
        name: impl Into<String>,
        graph: Graph,
        features: Csr<f32>,
        labels: Vec<usize>,
        classes: usize,
        splits: Vec<Split>,
    ) -> Result<Self> {
        let (name, n) = (name.into(), graph.nodes());
        let wrong = |what: &str, expected: String, found: String| {
            Err(Error::invalid(format!("{name}: {what}"), expected, found))
        };
        for (what, found) in [
            ("rows of features", features.pattern.rows()),
            ("labels", labels.len()),
        ] {
            if found != n {
                return wrong(what, format!("{n}, one per node"), found.to_string());
            }
        }
        if let Some(i) = labels.iter().position(|&l| l >= classes) {
            return wrong(
                &format!("label of node {i}"),
                format!("a class below {classes}"),
                labels[i].to_string(),
            );
        }
        if let Some(e) = features.values.iter().position(|x| !x.is_finite()) {
            let i = features.pattern.rows_of()[e];
            return wrong(
                &format!("features of node {i}"),
                "finite numbers".into(),
                features.values[[e]].to_string(),
            );
        }
        if splits.is_empty() {
            return wrong("splits", "at least one".into(), "none".into());
        }
        for (k, Split { train, val, test }) in splits.iter().enumerate() {
            let what = format!("split {k}");
            if [train, val, test].iter().any(|mask| mask.len() != n) {
                let found = format!("{}, {} and {}", train.len(), val.len(), test.len());
                return wrong(&what, format!("three masks of {n} flags"), found);
            }
            let in_two = |&i: &usize| u8::from(train[i]) + u8::from(val[i]) + u8::from(test[i]) > 1;
            if let Some(i) = (0..n).find(in_two) {
                let found = format!("node {i} in more than one");
                return wrong(&what, "disjoint masks".into(), found);
            }
        }
        Ok(Self {
            name,
            graph,
            features,
            labels,
            classes,
            splits,
        })
    }

    /// The number of nodes n.
    pub fn nodes(&self) -> usize {
        self.graph.nodes()
    }

    /// The number of features d of a node.
    pub fn feature_count(&self) -> usize {
        self.features.pattern.cols()
    }

    /// The number of nodes of each class. Nodes without a label count as class 0.
    pub fn class_sizes(&self) -> Vec<usize> {
        let mut sizes = vec![0; self.classes];
        for &label in &self.labels {
            sizes[label] += 1;
        }
        sizes
    }

    /// Split number `k`.
    ///
    /// # Errors
    /// If there is no split with this number.
    pub fn split(&self, k: usize) -> Result<&Split> {
        self.splits.get(k).ok_or_else(|| {
            let count = self.splits.len();
            Error::invalid(
                format!("{}: split", self.name),
                format!("a number below {count}"),
                k.to_string(),
            )
        })
    }

    /// The split without the nodes that have no edge to or from another node: they are removed from its
    /// masks, and the graph stays as it is.
    ///
    /// The code of "Are GATs Out of Balance?" can do this. Among the public sets only CiteSeer has such
    /// nodes: 48, of which 6 are validation nodes and 12 are test nodes. The paper says that they are removed
    /// (section 9), but Table 8 counts 500 and 1000 nodes there.
    ///
    /// # Panics
    /// If the masks do not have one flag per node.
    #[track_caller]
    pub fn without_isolated(&self, split: &Split) -> Split {
        let mut split = split.clone();
        let isolated = self.graph.isolated();
        for mask in [&mut split.train, &mut split.val, &mut split.test] {
            let (flags, n) = (mask.len(), self.nodes());
            assert!(
                flags == n,
                "without_isolated: a mask of {flags} flags for {n} nodes"
            );
            for &i in &isolated {
                mask[i] = false;
            }
        }
        split
    }

    /// The same set with its nodes renumbered: node i becomes node `to[i]`, with its edges, features, label
    /// and masks.
    ///
    /// ```
    /// let club = emmy::data::karate();
    /// let close = club.permute(&club.graph.cuthill_mckee());
    /// assert!(close.graph.bandwidth() < club.graph.bandwidth());
    /// ```
    ///
    /// # Panics
    /// If `to` is not a permutation of 0..n, or there is not one label and one flag per node.
    #[track_caller]
    pub fn permute(&self, to: &[usize]) -> Self {
        let graph = self.graph.permute(to);
        let from = inverse(to);
        let moved = |mask: &[bool]| from.iter().map(|&i| mask[i]).collect();
        let splits = self.splits.iter().map(|split| Split {
            train: moved(&split.train),
            val: moved(&split.val),
            test: moved(&split.test),
        });
        Self {
            name: self.name.clone(),
            graph,
            features: self.features.select_rows(&from),
            labels: from.iter().map(|&i| self.labels[i]).collect(),
            classes: self.classes,
            splits: splits.collect(),
        }
    }

    /// The features as they are, as numbers of type `F`.
    pub fn raw_features<F: Real>(&self) -> Csr<F> {
        self.features.cast()
    }

    /// The features with rows that sum to one: with x the features minus their minimum m over the whole
    /// matrix, x_ij / max(1, Σ_j x_ij). Rows of zeros stay zero.
    ///
    /// This is PyTorch Geometric's `NormalizeFeatures`; GCN and GAT are trained on its result on Cora,
    /// CiteSeer and PubMed. Entries that are not stored count as zeros, so m ≤ 0 unless every entry is
    /// stored; where m = 0, as in all sets of this crate, the pattern stays. Where m ≠ 0, all entries change,
    /// and the result stores all that are then not 0: memory for up to n d numbers. Computed in `f64`,
    /// rounded once.
    ///
    /// # Panics
    /// If the result has more than 2³² − 1 entries.
    #[track_caller]
    pub fn normalized_features<F: Real>(&self) -> Csr<F> {
        let (n, d) = self.features.pattern.shape();
        let full = self.features.pattern.nnz() == n * d;
        let start = if full { f64::INFINITY } else { 0.0 };
        let least = self.features.values.iter();
        let m = least.fold(start, |m, &x| m.min(f64::from(x)));
        if m != 0.0 && m.is_finite() {
            return self.shifted_rows_to_one(m);
        }
        rows_to_one(&self.features.cast())
    }

    /// (x_ij − m) / max(1, Σ_j (x_ij − m)), row by row.
    #[track_caller]
    fn shifted_rows_to_one<F: Real>(&self, m: f64) -> Csr<F> {
        let (n, d) = self.features.pattern.shape();
        let (mut indptr, mut indices, mut values) = (vec![0], Vec::new(), Vec::new());
        let mut row = vec![0.0; d];
        for i in 0..n {
            row.fill(-m);
            for e in self.features.pattern.row(i) {
                let j = self.features.pattern.indices()[e] as usize;
                row[j] = f64::from(self.features.values[[e]]) - m;
            }
            let total = row.iter().sum::<f64>().max(1.0);
            for (j, &x) in row.iter().enumerate().filter(|(_, x)| **x != 0.0) {
                indices.push(j as u32);
                values.push(F::of(x / total));
            }
            indptr.push(indices.len());
        }
        let pattern = Pattern::new(n, d, indptr, indices).unwrap_or_else(|e| panic!("{e}"));
        Csr::new(pattern, values)
    }
}

/// x_ij / max(1, Σ_j x_ij).
fn rows_to_one<F: Real>(x: &Csr<f64>) -> Csr<F> {
    let sums: Vec<f64> = (0..x.pattern.rows())
        .map(|i| {
            x.pattern
                .row(i)
                .map(|e| x.values[[e]])
                .sum::<f64>()
                .max(1.0)
        })
        .collect();
    let rows = x.pattern.rows_of().iter();
    let values = rows
        .zip(&x.values)
        .map(|(&i, v)| F::of(v / sums[i as usize]));
    Csr::new(x.pattern.clone(), values.collect())
}
