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
    /// The propagation of graph convolutional networks (Kipf and Welling, ICLR 2017, equation 2). On a directed graph d is the
    /// in-degree at both ends, as in PyTorch Geometric's `gcn_norm`; a self-loop that was there already is not counted twice.
    pub fn gcn_norm<F: Real>(&self) -> Csr<F> {
        self.normalised(|d_i, d_j| (d_i * d_j).sqrt().recip())
    }

    /// D⁻¹ (A + I): the value at the edge j → i is 1 / d_i, so every row sums to 1 and a product with it takes means.
    ///
    /// On a directed graph d is the in-degree.
    pub fn row_norm<F: Real>(&self) -> Csr<F> {
        self.normalised(|d_i, _| d_i.recip())
    }

    /// The matrix with the pattern of Â and the value `weight(d_i, d_j)` at the edge j → i.
    fn normalised<F: Real>(&self, weight: impl Fn(f64, f64) -> f64) -> Csr<F> {
        let looped = self.with_self_loops();
        let degrees = looped.in_degrees();
        let degree = |i: u32| degrees[i as usize] as f64;
        let values = looped
            .edge_list()
            .map(|(j, i)| F::of(weight(degree(i), degree(j))))
            .collect();
        Csr::new(Arc::clone(looped.pattern()), values)
    }
}
