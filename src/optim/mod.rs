//! Optimisers, clipping, and learning-rate schedules.
//!
//! An [`Optimizer`] is an algorithm and its state; [`step`](Optimizer::step) applies one update to
//! parameters, in place. The learning rate is an argument of each step: a base rate times the factors of a
//! [`Schedule`] (a function of the number of epochs or steps) and of a [`Plateau`] (which watches a loss).
//! [`Clip`] makes gradients smaller before a step.

mod clip;
mod optimizer;
mod plateau;
mod schedule;

pub use clip::Clip;
pub use optimizer::{Algorithm, Optimizer};
pub use plateau::{Plateau, PlateauState};
pub use schedule::{Decay, Schedule, Unit};
