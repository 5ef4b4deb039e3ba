//! The layers, losses, measures and searches that only the laboratory has, and the laws of its models.

#[path = "../../../tests/cases/mod.rs"]
mod cases;
#[path = "../../../tests/conservation/compositions.rs"]
#[allow(dead_code, reason = "the tests of the library need all of it")]
mod compositions;
mod contrastive;
mod diff_group_norm;
mod groups;
mod laws;
mod layers {
    pub use crate::terms;
}
mod omega_gat;
mod published;
#[path = "../../../tests/collapse/support.rs"]
#[allow(dead_code, reason = "the tests of the library need all of it")]
mod support;
#[path = "../../../tests/conservation/layers/terms.rs"]
#[allow(dead_code, reason = "the tests of the library need all of it")]
pub mod terms;
