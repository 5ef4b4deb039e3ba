//! Fused attention against loops that follow the formulas.

mod case;
mod dense;
mod edges;
mod mirrored;
mod symmetric;
