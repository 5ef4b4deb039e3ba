//! The graph layers beside GCN, GAT and GATv2: SGC, GIN, GCNII, the graph transformer, the gated graph
//! network.

mod contracts;
mod fixtures;
mod networks;
mod values;
