//! Matrix products.

use crate::autodiff::Var;
use crate::kernels::gemm;
use crate::real::Real;

impl<F: Real> Var<'_, F> {
    /// y = a b over the last two axes, the axes before them broadcast,   ā = ȳ bᵀ,   b̄ = aᵀ ȳ   (summed over what was broadcast)
    ///
    /// Shapes `[.., m, k]` · `[.., k, n]` → `[.., m, n]`. Transposed operands are read where they lie.
    ///
    /// # Panics
    /// If an operand has fewer than two dimensions, the inner dimensions differ, or the batch axes do not broadcast.
    #[track_caller]
    pub fn matmul(self, b: Self) -> Self {
        self.binary(
            "matmul",
            b,
            gemm::matmul_batched,
            |p| p.gy().matmul(p.b().t()).sum_like(p.a()),
            |p| p.a().t().matmul(p.gy()).sum_like(p.b()),
        )
    }
}
