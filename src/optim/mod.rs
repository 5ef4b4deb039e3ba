//! Optimisers and learning-rate schedules.
//!
//! An [`Optimizer`] is a method and its state; [`step`](Optimizer::step) applies one update to parameters, in place. The learning
//! rate is handed in with each step, as a base rate times what a [`Schedule`] (a function of the epoch) and a [`Plateau`] (which
//! watches a loss) make of it.

mod optimizer;
mod plateau;
mod schedule;

pub use optimizer::{Method, Optimizer};
pub use plateau::{Plateau, PlateauState};
pub use schedule::{Decay, Schedule};
