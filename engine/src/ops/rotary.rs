//! Rotary positions.

use crate::autodiff::{Map, Var};
use crate::kernels::rotary::Rotary;
use crate::real::Real;
use crate::tensor::contiguous;

impl<F: Real> Var<'_, F> {
    /// y: plane (x_2p, x_2p+1) of the token at position i turned by the angle i · base^(−2p/d), in every
    /// head, x̄ = ȳ turned back
    ///
    /// Shape `[.., n, H, d]` with d even; the first of the n tokens has the position `start`. Su et al.,
    /// "RoFormer", 2021, Eq. (15) with θ_p = base^(−2p/d), base 10000 in the paper. Its planes are pairs of
    /// neighbours; LLaMA's code pairs p with p + d/2, which is another order of the same planes.
    ///
    /// One head of one plane, p = 0: whatever the base, the token at position i is turned by the angle i.
    ///
    /// ```
    /// use emmy::{Tape, tensor::tensor};
    /// let tape = Tape::new();
    /// // Two tokens, one head, width 2.
    /// let x = tape.var(tensor(&[2, 1, 2], vec![1.0_f64, 0.0, 1.0, 0.0]));
    /// let y = x.rotate_planes(0, 10_000.0);
    /// assert_eq!(y.shape(), [2, 1, 2]);
    /// let expected = [1.0, 0.0, 1_f64.cos(), 1_f64.sin()];
    /// assert!(y.value().iter().zip(expected).all(|(y, e)| (y - e).abs() < 1e-12));
    /// ```
    ///
    /// # Panics
    /// If x has fewer than three dimensions, or d is odd.
    #[track_caller]
    pub fn rotate_planes(self, start: usize, base: f64) -> Self {
        self.rotated(start, base, 1.0)
    }

    #[track_caller]
    fn rotated(self, start: usize, base: f64, direction: f64) -> Self {
        let shape = self.shape();
        let Some(&[n, heads, d]) = shape.last_chunk() else {
            panic!("rotate_planes: x has shape {shape:?}, it must be [.., n, heads, d]")
        };
        assert!(
            d.is_multiple_of(2),
            "rotate_planes: x has shape {shape:?}: the width {d} of a head is odd"
        );
        let rotary = Rotary {
            shape: [n, heads, d],
            start,
            base,
            direction,
        };
        let x = contiguous(&self.value());
        let y = rotary.apply(x.as_slice().expect("contiguous"));
        self.unary(Map::Rotate, y.into_tensor(&shape), move |p| {
            p.gy().rotated(start, base, -direction)
        })
    }
}
