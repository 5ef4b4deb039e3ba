//! The linear maps around attention: W_V of each head before it, and W_O behind all heads.
//!
//! y = Σ_h W_O^h W_V^h Z_h + constant, where Z_h = P_h u are means of the inputs u by the coefficients of
//! head h, and W_O^h the columns of W_O that read it. With constants c_h of Z_h in u,
//!
//! L ≤ ‖\[W_O^1 W_V^1, …, W_O^H W_V^H\]‖ √Σ c_h².
//!
//! This does not change under the symmetry v → g v, W_O → W_O g⁻¹ of each head; ‖W_O‖ √Σ ‖W_V^h‖² c_h² does.

use super::matrix::norm;
use super::matrix::{Matrix, finite, multiply};
use crate::autodiff::{Tape, Var};
use crate::linalg::{Lp, Upper};
use crate::real::Real;
use ndarray::{Array2, s};

/// W_O and the W_V of all heads; several heads may share one.
#[derive(Debug)]
pub(super) struct HeadMaps {
    /// `[out, H d]`.
    pub output: Matrix,
    /// The node of W_V, `[H d / share, in]`.
    pub value: usize,
    pub heads: usize,
    /// How many heads share a W_V.
    pub share: usize,
}

impl HeadMaps {
    /// The rows of W_V that belong to a head, of d rows each.
    fn rows(&self, head: usize, d: usize) -> std::ops::Range<usize> {
        let group = head / self.share.max(1);
        group * d..(group + 1) * d
    }

    /// ‖\[W_O^1 W_V^1, …\]‖₂: of W_O times the matrix with the blocks W_V^h.
    pub fn upper<F: Real>(&self, tape: &Tape<F>) -> Upper {
        let w_o = self.output.values(tape).swap_remove(0);
        let w_v = Matrix::from(self.value).values(tape).swap_remove(0);
        if !(finite(w_o.iter()) && finite(w_v.iter())) {
            return Upper::INFINITE;
        }
        let (d, width) = (w_o.ncols() / self.heads.max(1), w_v.ncols());
        let mut blocks = Array2::zeros((w_o.ncols(), self.heads * width));
        for h in 0..self.heads {
            let own = w_v.slice(s![self.rows(h, d), ..]);
            let place = s![h * d..(h + 1) * d, h * width..(h + 1) * width];
            blocks.slice_mut(place).assign(&own);
        }
        let (product, error) = multiply(&[&w_o, &blocks]);
        match finite(product.iter()) {
            true => Lp::Two.matrix(product.view()) + error,
            false => Upper::INFINITE,
        }
    }

    /// The same as a variable.
    pub fn var<'t, F: Real>(&self, tape: &'t Tape<F>) -> Var<'t, F> {
        let (w_o, w_v) = (self.output.var(tape), tape.handle(self.value));
        let d = w_o.shape()[1] / self.heads.max(1);
        let of = |h: usize| {
            let own = w_v.slice(0, self.rows(h, d));
            w_o.slice(1, h * d..(h + 1) * d).matmul(own)
        };
        let all: Vec<_> = (0..self.heads).map(of).collect();
        norm(Lp::Two, Var::concat(&all, 1))
    }
}
