//! Initialisation of networks.

mod balance;
mod blocks;
#[path = "../cases/mod.rs"]
mod cases;
mod draws;
mod looks_linear;
mod networks;
mod procedure;
mod refusals;
mod schemes;
