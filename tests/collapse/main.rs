//! Collapse: the measures, and the statements of "ContraNorm: A Contrastive Learning Perspective on
//! Oversmoothing and Beyond" (Guo, Wang, Du and Wang, ICLR 2023), as printed and as they hold.

#[path = "../cases/mod.rs"]
mod cases;
mod contrastive;
mod depth;
mod energies;
mod errata;
#[path = "../data/files/mod.rs"]
mod files;
mod forms;
mod invariance;
mod layer;
mod measures;
mod rank;
mod reading;
mod support;
mod variance;
