//! Conservation laws hold at every point, for every network that states them, and fail where they should.
//!
//! The names of laws in these tests, for a layer W, its bias b, its reader W⁺, an attention vector a, and a
//! gradient G of each:
//!
//! | name | where | δ = 0 |
//! |---|---|---|
//! | C1 | a neuron with an activation of degree 1 | ⟨W\[j,:], G⟩ + b_j G_b − ⟨W⁺\[:,j], G⟩ |
//! | C2 | all neurons of a linear hidden layer | G Wᵀ − W⁺ᵀ G⁺ |
//! | C3, C4, C5 | a neuron of GATv2 with shared weights, of GAT, of GATv2 with separate weights | C1 − ⟨a\[j], G⟩ |
//! | C6 | heads side by side, and averaged | C3 to C5 per head, and in sum over the heads |
//! | C7 | a bias after the aggregation | is one of the incoming terms |
//! | C8, C9 | attention by dot products | G_Q W_Qᵀ − W_K G_Kᵀ, and G_V W_Vᵀ − W_Oᵀ G_O |
//! | C10, C11 | the same with biases, with grouped queries | W beside b, and ∂L/∂b_K; sums over the heads of a group |
//! | C12, C13, C14 | rotary positions, normalised queries and keys, distances with W_Q = W_K | per plane; ⟨W_Q, G⟩; W_Q G_Qᵀ is symmetric |
//! | C15 | a gated linear unit | ⟨W_up\[j,:], G⟩ − ⟨W_down\[:,j], G⟩ |
//! | C16, C18, C19 | a linear map before LayerNorm, PairNorm, a norm per feature | ⟨W, G⟩ of all of it, or per row |
//! | C17 | gain γ and bias β of a norm, and their readers | γ_i G + β_i G − ⟨W⁺\[:,i], G⟩ |
//! | C20 | the classes before a softmax | 1ᵀ G |
//! | C21 | a residual stream | Σ_writers ⟨W\[i,:], G⟩ − Σ_readers ⟨W\[:,i], G⟩ |
//! | C22 | the mean of a stream that norms remove | Σ_writers ⟨P W, G⟩ − Σ_readers ⟨W P, G⟩, P = 11ᵀ/d |
//! | C23 | a mixture of experts | those of each expert, and Σ_experts G of the gate |
//! | C24 | sign descent, Muon | δ = 0, and nothing quadratic is conserved |

mod arbitrary;
mod attention;
mod biases;
#[path = "../cases/mod.rs"]
mod cases;
mod chains;
mod compositions;
mod contracts;
mod convolutions;
mod differentiable;
mod drift;
mod errata;
mod experts;
mod failing;
mod fields;
mod formulas;
mod gated;
mod handmade;
mod invariance;
mod known_laws;
mod layers;
mod lists;
mod means;
mod measures;
mod networks;
mod normalisation;
mod one_reader;
mod own_operations;
mod passages;
mod plain;
mod ports;
mod problems;
mod programs;
mod recurrent;
mod runs;
mod score_norms;
mod search;
mod slices;
mod streams;
mod sums;
mod support;
mod totals;
mod transformer;
mod unusual;
