//! Fused attention against loops that follow the formulas.

mod dense;
mod edges;
mod symmetric;
