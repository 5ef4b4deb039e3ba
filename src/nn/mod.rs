//! Layers and models.
//!
//! A layer owns its parameters as plain tensors; its forward function takes a [`Pass`], which binds them to a tape. Weights are
//! stored `[out, in]`, so that row i of W is what flows into neuron i and a layer computes x Wᵀ.
//!
//! | layer | formula | paper |
//! |---|---|---|
//! | [`Linear`] | x Wᵀ + b | |
//! | [`Embedding`] | rows of a table | |
//! | [`Dropout`], [`Activation`] | | Srivastava et al. 2014 |
//! | [`GcnConv`] | Â x Wᵀ + b | Kipf and Welling, ICLR 2017 |
//! | [`GatConv`] | Σ_j α_ij W x_j, static attention | Veličković et al., ICLR 2018 |
//! | [`Gatv2Conv`] | Σ_j α_ij W x_j, dynamic attention | Brody et al., ICLR 2022 |
//! | both with [`Omega`] | (I − Ω (I − α)) W x | Eliasof et al., ICML 2023 |
//! | [`Mlp`] | a stack of [`Linear`] | |
//! | [`GraphNet`] | a stack of one of the three graph layers | |
//!
//! Layers say which of their parameters flow where ([`Ports`]); a [`Stack`] of them lists its conservation laws.
//! [`Initialization`] is how a stack starts.

mod activation;
mod dropout;
mod embedding;
mod gat;
mod gatv2;
mod gcn;
mod heads;
mod initialize;
mod input;
mod linear;
mod mlp;
mod module;
mod network;
mod omega;
mod ports;

pub(crate) use crate::kernels::random::mix;
pub use activation::Activation;
pub use dropout::Dropout;
pub use embedding::Embedding;
pub use gat::GatConv;
pub use gatv2::Gatv2Conv;
pub use gcn::GcnConv;
pub use heads::{AttentionOptions, Heads};
pub use initialize::{AttentionInit, Initialization, TargetInit, WeightInit};
pub use input::Input;
pub use linear::Linear;
pub use mlp::Mlp;
pub use module::{Module, Named, Pass};
pub use network::{Conv, GraphLayer, GraphNet, GraphNetConfig};
pub use omega::Omega;
pub use ports::{Ports, Slots, Stack, stream_law};
