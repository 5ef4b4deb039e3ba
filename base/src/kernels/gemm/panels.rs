//! The sizes of the pieces into which the factors of a product are cut.

use crate::kernels::dispatch;
use crate::real::Real;
use pulp::{Simd, WithSimd};
use std::marker::PhantomData;

/// A multiple of the columns of a panel on every processor. The columns of a right factor may be cut here.
pub(crate) const CUT: usize = 64;

/// M, the rows of a microkernel, is no larger than this.
pub(super) const ROWS: usize = 6;

/// The numbers of columns for which there is a microkernel on this processor. The first is that of a panel.
pub(super) fn widths<F: Real>() -> [usize; 3] {
    struct Ask<F>(PhantomData<F>);
    impl<F: Real> WithSimd for Ask<F> {
        type Output = [usize; 3];

        #[inline(always)]
        fn with_simd<S: Simd>(self, _: S) -> [usize; 3] {
            vectors::<S>().map(|v| v * F::lanes::<S>())
        }
    }
    dispatch(Ask(PhantomData::<F>))
}

/// Vectors per row of a panel, and of the narrower microkernels for the last panel.
#[inline(always)]
pub(super) const fn vectors<S: Simd>() -> [usize; 3] {
    match (S::IS_SCALAR, S::F32_LANES) {
        (true, _) => [8, 4, 2],
        (_, 16) => [4, 2, 1],
        _ => [2, 1, 1],
    }
}
