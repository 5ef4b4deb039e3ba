//! ωGAT: the attention layers with S_ω = I − Ω (I − α) in the place of α.

mod formula;
mod laws;
mod networks;
