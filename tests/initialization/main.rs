//! Initialisation of networks.

mod balance;
mod blocks;
mod draws;
mod looks_linear;
mod networks;
mod procedure;
mod refusals;
mod schemes;
