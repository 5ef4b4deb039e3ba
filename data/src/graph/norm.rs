//! The adjacency matrix with self-loops, normalised by degree.
//!
//! | letter | meaning |
//! |---|---|
//! | A | adjacency, n × n, A_ij = 1 for the edge j → i |
//! | Â | A + I, each self-loop exactly once ([`Graph::with_self_loops`]) |
//! | d_i | Σ_j Â_ij, the number of edges of Â **into** node i; at least 1 |

use super::Graph;
use crate::real::Real;
use crate::sparse::Csr;
use std::sync::Arc;

impl Graph {
    /// D^-½ (A + I) D^-½: the value at the edge j → i is 1 / √(d_i d_j).
    ///
    /// The propagation of graph convolutional networks (Kipf and Welling, ICLR 2017, equation 2). On a
    /// directed graph d is the in-degree at both ends, as in PyTorch Geometric's `gcn_norm`; a self-loop that
    /// was there already is not counted twice.
    pub fn gcn_norm<F: Real>(&self) -> Csr<F> {
        self.with_self_loops().symmetric_norm()
    }

    /// D^-½ A D^-½ of the graph as it is, with d_i = Σ_j A_ij: [`gcn_norm`](Self::gcn_norm) without adding
    /// self-loops. An edge from a node that no edge leads into (d_j = 0, on directed graphs) gets 0, as in
    /// PyTorch Geometric.
    pub fn symmetric_norm<F: Real>(&self) -> Csr<F> {
        self.weighted(|d_i, d_j| {
            if d_j > 0.0 {
                (d_i * d_j).sqrt().recip()
            } else {
                0.0
            }
        })
    }

    /// D⁻¹ (A + I): the value at the edge j → i is 1 / d_i, so every row sums to 1 and a product with it
    /// takes means.
    ///
    /// On a directed graph d is the in-degree.
    pub fn row_norm<F: Real>(&self) -> Csr<F> {
        self.with_self_loops().mean_norm()
    }

    /// D⁻¹ A of the graph as it is: the value at the edge j → i is 1 / d_i. A node that no edge leads into
    /// has an empty row.
    pub fn mean_norm<F: Real>(&self) -> Csr<F> {
        self.weighted(|d_i, _| d_i.recip())
    }

    /// The matrix with the pattern of the graph and the value `weight(d_i, d_j)` at the edge j → i.
    fn weighted<F: Real>(&self, weight: impl Fn(f64, f64) -> f64) -> Csr<F> {
        let degrees = self.in_degrees();
        let degree = |i: u32| degrees[i as usize] as f64;
        let values = self
            .edge_list()
            .map(|(j, i)| F::of(weight(degree(i), degree(j))))
            .collect();
        Csr::new(Arc::clone(self.pattern()), values)
    }
}
