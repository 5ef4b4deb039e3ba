//! Values that are freed before the tape ends, and computed again if they are read.

use super::sparse::{spmm, spmm_t};
use crate::autodiff::{Kind, Reference, Var};
use crate::real::Real;
use crate::tensor::{Tensor, memory};
use std::rc::Rc;

impl<F: Real> Var<'_, F> {
    /// Frees the memory of the value of a product or a sum. If the value is read later, it is computed again
    /// from the operands, with the same bits, and then stays.
    ///
    /// The derivative of a product or a sum does not read its value. So a layer forgets a product that nothing
    /// else reads. Values of other operations, and of constants, stay.
    ///
    /// ```
    /// use emmy::{Tape, autodiff::grad, tensor::tensor};
    /// let tape = Tape::new();
    /// let x = tape.var(tensor(&[1, 2], vec![3.0_f64, 4.0]));
    /// let w = tape.var(tensor(&[1, 2], vec![10.0, 1.0]));
    /// let product = x.linear(w);
    /// let y = product.relu();
    /// product.forget();
    /// assert_eq!(grad(y.sum_all(), &[x])[0], tensor(&[1, 2], vec![10.0, 1.0]));
    /// assert_eq!(product.value(), tensor(&[1, 1], vec![34.0]));
    /// ```
    pub fn forget(self) {
        if self.is_kept() {
            memory::recycle(self.take());
        }
    }

    /// Its value, which is [forgotten](Self::forget) if that has an effect.
    pub(super) fn take(self) -> Tensor<F> {
        let again = again(&self.tape.node(self.id).kind);
        self.tape.take(self.id, again)
    }
}

/// The operation again, if it is a product or a sum.
fn again<F: Real>(kind: &Kind) -> Option<Rc<Reference<F>>> {
    Some(match kind.clone() {
        Kind::Add => Rc::new(|x: &[Var<'_, F>]| x[0] + x[1]),
        Kind::MatMul { transposed: false } => Rc::new(|x: &[Var<'_, F>]| x[0].matmul(x[1])),
        Kind::MatMul { transposed: true } => Rc::new(|x: &[Var<'_, F>]| x[0].linear(x[1])),
        Kind::SparseProduct {
            pattern,
            transposed,
        } => Rc::new(move |x: &[Var<'_, F>]| match transposed {
            false => spmm(&pattern, x[0], x[1]),
            true => spmm_t(&pattern, x[0], x[1]),
        }),
        _ => return None,
    })
}
