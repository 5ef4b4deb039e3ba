//! Conservation laws: identities between parameters and gradients that follow from a symmetry of the loss.
//!
//! If the loss does not change when some parameters grow by a factor and others shrink by it, its derivative
//! along that change is zero: a sum of products of parameters and gradients that vanishes at every point, for
//! any data, loss and optimiser (Noether's theorem). A [`Law`] names the parameters on both sides; δ
//! ([`Law::measure`], on the tape [`delta`]) is that sum, for every neuron.
//!
//! Under gradient flow the law is a conservation law: c ([`Law::balance`]) does not change. Under plain
//! gradient descent c changes by a known amount ([`Law::drift`]). A network that starts with c = 0
//! ([`Balancing`](crate::init::Balancing)) keeps it under the flow, and nearly so under small steps.
//!
//! | letter | meaning |
//! |---|---|
//! | θ, G | a parameter, ∂L/∂θ |
//! | j | a neuron |
//! | M, N | the entries of θ and of G that belong to a space of neurons, one row per neuron |
//! | δ, c | the sum that vanishes, the quantity that is conserved |
//! | η, λ | learning rate, weight decay |
//!
//! | symmetry | δ | c |
//! |---|---|---|
//! | [`Rescaling`](Symmetry::Rescaling) | δ_j = Σ w ⟨M_j, N_j⟩, w = 1 for incoming entries, −1 for attention, −k for outgoing entries | Σ w ‖M_j‖² |
//! | [`Linear`](Symmetry::Linear) | Σ_in N Mᵀ − Σ_rest M Nᵀ, the rest being attention and outgoing entries | Σ_in M Mᵀ − Σ_rest M Mᵀ |
//! | [`Rotation`](Symmetry::Rotation) | Σ N Mᵀ − M Nᵀ | none |
//! | [`Translation`](Symmetry::Translation) | δ_j = Σ w N_j | Σ w M_j |
//!
//! Mustafa, Bojchevski and Burkholz, "Are GATs Out of Balance?", NeurIPS 2023, Theorem 2.2, for graph
//! attention; Kunin et al., "Neural Mechanics", ICLR 2021, for the principle. Layers say which of their
//! parameters are incoming and which outgoing ([`Ports`]), and operations between them say how they act on a
//! symmetry ([`Passage`]); the laws of a model are read off a recorded pass ([`crate::nn::Trace::laws`]).
//!
//! [`discover`] needs no declaration: it searches for the laws of any function of parameters, and computes an
//! upper bound on their number ([`crate::nn::discover`] for models).

mod discover;
mod flow;
mod formula;
mod generator;
mod law;
mod measure;
mod passage;
mod ports;
mod sum;
mod tape;

pub use discover::{Ansatz, Discovery, Field, FoundLaw, ParametricFunction, Search, discover};
pub use generator::{Drift, Generator, Layout};
pub use law::{Law, Side, Slice, Symmetry, Term};
pub use measure::Residual;
pub use passage::{Change, Passage, Way};
pub use ports::{Ports, Reader};
pub use tape::{balance, delta};
