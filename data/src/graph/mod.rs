//! Graphs: validated once, then shared.
//!
//! A [`Graph`] is a square [`Pattern`](crate::sparse::Pattern) whose **rows are targets** i and
//! whose **columns are sources** j: the entry (i, j) is the edge j → i, along which a message flows from j to
//! i. One layer of message passing is then a CSR product by rows, `out[i] = Σ_{e in row i} v_e x[col(e)]`,
//! and attention softmax runs over a row.
//!
//! | file | holds |
//! |---|---|
//! | `structure` | [`Graph`], its policies for duplicates and self-loops, access |
//! | `transform` | symmetrise, self-loops, permutation of nodes, disjoint union |
//! | `measure` | degrees, symmetry, homophily, components |
//! | `norm` | D^-½ (A + I) D^-½ and D⁻¹ (A + I) |
//! | `order` | orders of the nodes in which neighbours are close in memory |
//! | `neighbourhood` | the edges in the forms that layers ask for |
//! | [`generators`] | seeded random graphs, grids, trees, the karate club |

pub mod generators;
mod measure;
mod neighbourhood;
mod norm;
mod order;
mod structure;
mod transform;

pub use neighbourhood::Neighbourhood;
pub use order::inverse;
pub use structure::{Duplicates, Graph, SelfLoops};
