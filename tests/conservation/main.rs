//! Conservation laws hold at every point, for every network that states them, and fail where they should.

mod attention;
mod compositions;
mod gated;
mod networks;
mod normalisation;
mod transformer;
