//! How networks start.

mod balance;
mod looks_linear;
mod networks;
mod refusals;
mod schemes;
