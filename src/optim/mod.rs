//! Optimisers, clipping, and learning-rate schedules.
//!
//! A [`Rule`] says how a parameter and its state change in a step: [`Sgd`], [`Adam`], [`AdamW`], [`Muon`],
//! or one of your own. An [`Algorithm`] is a rule in a configuration. An [`Optimizer`] is an algorithm and
//! the state of all parameters; [`step`](Optimizer::step) applies one update to parameters, in place. The
//! learning rate is an argument of each step: a base rate times the factors of a [`Schedule`] (a function
//! of the number of epochs or steps) and of a [`Plateau`] (which watches a loss). [`Clip`] makes gradients
//! smaller before a step.

mod adam;
mod algorithm;
mod clip;
mod muon;
mod optimizer;
mod plateau;
mod rule;
mod schedule;
mod sgd;

#[doc(inline)]
pub use crate::kernels::update::blocks;
pub use adam::{Adam, AdamW};
pub use algorithm::{Algorithm, RegisteredRule};
pub use clip::Clip;
pub use muon::Muon;
pub use optimizer::Optimizer;
pub use plateau::{Plateau, PlateauState};
pub use rule::{Parameter, Rates, Rule};
pub use schedule::{Decay, Schedule, Unit};
pub use sgd::Sgd;
