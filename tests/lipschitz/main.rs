//! Lipschitz constants: no bound is exceeded, and the theorems of two papers.

mod reading;
mod sandwich;
