//! The testing kit, tested: what is right passes, and what is planted is found.

#[path = "../cases/mod.rs"]
mod cases;
mod checks;
mod models;
mod planted;
mod reports;
mod statements;
mod strategies;
mod wrong;
