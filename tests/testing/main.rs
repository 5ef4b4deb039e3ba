//! The testing kit, tested: what is right passes, and what is planted is found.

mod checks;
mod planted;
mod reports;
mod statements;
mod strategies;
mod wrong;
