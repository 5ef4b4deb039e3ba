//! Initialisation of networks.

mod balance;
mod looks_linear;
mod networks;
mod procedure;
mod refusals;
mod schemes;
