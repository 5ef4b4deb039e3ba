//! Matrix products.

use crate::autodiff::{Kind, Var};
use crate::kernels::gemm;
use crate::real::Real;

impl<F: Real> Var<'_, F> {
    /// y = a b over the last two axes, the axes before them broadcast,   ā = ȳ bᵀ,   b̄ = aᵀ ȳ   (summed over
    /// what was broadcast)
    ///
    /// Shapes `[.., m, k]` · `[.., k, n]` → `[.., m, n]`. Transposed operands are read in place, without a
    /// copy.
    ///
    /// ```
    /// use emmy::{Tape, autodiff::grad, tensor::tensor};
    /// let tape = Tape::new();
    /// let a = tape.var(tensor(&[2, 2], vec![1.0_f64, 2.0, 3.0, 4.0]));
    /// let b = tape.var(tensor(&[2, 1], vec![1.0, 10.0]));
    /// let y = a.matmul(b);
    /// assert_eq!(y.value(), tensor(&[2, 1], vec![21.0, 43.0]));
    /// // For ȳ = 1 each row of ā is bᵀ, and b̄ is the sum of the rows of a.
    /// let g = grad(y.sum_all(), &[a, b]);
    /// assert_eq!(g[0], tensor(&[2, 2], vec![1.0, 10.0, 1.0, 10.0]));
    /// assert_eq!(g[1], tensor(&[2, 1], vec![4.0, 6.0]));
    /// ```
    ///
    /// # Panics
    /// If an operand has fewer than two dimensions, the inner dimensions differ, or the batch axes do not
    /// broadcast.
    #[track_caller]
    pub fn matmul(self, b: Self) -> Self {
        let (sa, sb) = (self.shape(), b.shape());
        if let (Some([_, k]), Some([k2, _])) = (sa.last_chunk(), sb.last_chunk()) {
            assert!(
                k == k2,
                "matmul: {sa:?} · {sb:?}: inner dimensions {k} ≠ {k2}"
            );
        }
        let y = gemm::matmul_batched(&self.value(), &b.value());
        self.binary(
            Kind::MatMul { transposed: false },
            b,
            y,
            |p| p.gy().matmul(p.b().t()).sum_like(p.a()),
            |p| p.a().t().matmul(p.gy()).sum_like(p.b()),
        )
    }

    /// y = x Wᵀ over the last axis: `[.., n, in]` · `[out, in]` → `[.., n, out]`,   x̄ = ȳ W,   W̄ = ȳᵀ x
    ///
    /// The product of a layer, whose weight is stored `[out, in]`. It equals `x.matmul(w.t())`, but the
    /// derivative of the weight has the memory layout of the weight.
    ///
    /// # Panics
    /// If x has fewer than two axes, W not exactly two, or the last axes differ.
    #[track_caller]
    pub fn linear(self, w: Self) -> Self {
        let (x_shape, w_shape) = (self.shape(), w.shape());
        assert!(
            x_shape.len() >= 2 && w_shape.len() == 2 && x_shape.last() == w_shape.last(),
            "linear: x {x_shape:?}, weight {w_shape:?}: x must be [.., n, in], the weight [out, in]"
        );
        let y = gemm::matmul_batched(&self.value(), &w.value().reversed_axes());
        self.binary(
            Kind::MatMul { transposed: true },
            w,
            y,
            |p| p.gy().matmul(p.b()),
            |p| p.gy().as_matrix().t().matmul(p.a().as_matrix()),
        )
    }

    /// All rows of the last axis as one matrix.
    fn as_matrix(self) -> Self {
        let shape = self.shape();
        match shape.len() {
            2 => self,
            _ => {
                let width = shape[shape.len() - 1];
                let rows: usize = shape[..shape.len() - 1].iter().product();
                self.reshape(&[rows, width])
            }
        }
    }
}
