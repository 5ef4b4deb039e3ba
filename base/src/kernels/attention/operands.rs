//! What the kernels of an attention along edges read and return. Letters: see the table of
//! [the parent module](super).

use crate::real::Real;
use crate::tensor::memory::Buffer;

/// The operands of [`Attention::forward`](super::Attention::forward).
#[derive(Debug, Clone, Copy)]
pub struct Operands<'a, F> {
    /// The values, shape [m, H, D].
    pub v: &'a [F],
    /// The rows of the sources that the score reads, shape [m, H, K]; `None` where k = v.
    pub k: Option<&'a [F]>,
    /// The rows of the targets that it reads, shape [n, H, K]; `None` where q = k = v, on a square pattern.
    pub q: Option<&'a [F]>,
    /// K.
    pub width: usize,
    /// The attention vector, shape [H, K]; `None` stands for 1.
    pub a: Option<&'a [F]>,
    /// The inverse temperature, shape [n, H]; `None` stands for 1.
    pub t: Option<&'a [F]>,
}

/// The results of the forward kernel and the adjoint of y.
#[derive(Debug, Clone, Copy)]
pub struct Backward<'a, F> {
    /// The coefficients, shape [nnz, H].
    pub alpha: &'a [F],
    /// The output, shape [n, H, D].
    pub y: &'a [F],
    /// The adjoint of y, shape [n, H, D].
    pub gy: &'a [F],
    /// Whether f(k, q) = f(q, k), and the two derivatives are exchanged with k and q, for all k and q.
    pub symmetric: bool,
}

/// The adjoints of the operands of [`Attention::forward`](super::Attention::forward), each of the shape of
/// its operand.
#[derive(Debug, Clone, PartialEq)]
pub struct Adjoints<F: Real> {
    /// Of v, and of what is the same as v.
    pub v: Buffer<F>,
    /// Of k; empty if k = v.
    pub k: Buffer<F>,
    /// Of q; empty if q = v.
    pub q: Buffer<F>,
    /// Of a; empty without it.
    pub a: Buffer<F>,
    /// Of t; empty without a temperature.
    pub t: Buffer<F>,
}
