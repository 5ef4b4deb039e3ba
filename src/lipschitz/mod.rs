//! Lipschitz constants: how far an output can move if the input moves. The result is an interval: its upper
//! end is proven, and its lower end comes from a perturbation that was found.
//!
//! - [`bound`] reads an upper bound off the tape between an input and an output, for p = 1, 2, ∞, for all
//!   inputs, for inputs of limited size, or at one input ([`Domain`]). The result is a formula ([`Bound`]).
//!   Its certified number is rounded up ([`Upper`]); as a variable it can be differentiated. A layer whose
//!   constant is proven by a theorem declares it ([`declare`]).
//! - [`local`] and [`Ascent`] find lower bounds ([`Lower`]): the norm of a Jacobian, also at the worst input
//!   that gradient ascent finds. [`quotient`] is the simplest lower bound.
//! - [`joint`] bounds a whole network of linear maps and activations at once, far below the product of its
//!   layers' constants, with a certificate that everyone can check. [`bound`] does so for the networks of at
//!   most 256 neurons that it finds between input and output; it then depends on the weights of all layers.
//! - [`rounding`] bounds how far the program that runs, in `f32` or `f64`, is from the exact function.
//! - [`invert`] inverts x + g(x) by a fixed-point iteration if g is certified to be a contraction.
//!
//! ‖f(x) − f(x′)‖_p ≤ L ‖x − x′‖_p, where a tensor counts as the vector of its entries. Bounds are those of
//! the function in exact arithmetic, with the weights as stored; [`rounding`] has what holds for the program.

mod attention;
mod blocks;
mod bound;
mod differentiate;
mod estimate;
mod heads;
mod invert;
mod known;
mod matrix;
mod moments;
mod operands;
mod products;
mod reach;
mod read;
mod recorded;
mod rescale;
mod rounding;
mod rows;
mod rule;
mod rules;
mod search;
mod shares;
mod softmax;
mod sparse;
mod tree;
mod walk;
mod whole;

pub use bound::Bound;
#[doc(inline)]
pub use emmy_certificates::joint;
pub use estimate::{Jacobian, jacobian_norm, local, quotient};
pub use invert::{Inverse, invert, iterate};
pub use known::Domain;
pub(crate) use known::check_radius;
pub(crate) use rounding::of_nodes;
pub use rounding::{Rounding, rounding};
pub use search::{Ascent, Objective, Steepest};
pub use softmax::softmax_norm;
pub(crate) use walk::{Unbounded, Walk};
pub use walk::{bound, declare, declare_here};

pub use crate::linalg::{Interval, Lower, Lp, Upper};
