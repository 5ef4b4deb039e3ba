//! Vector fields of the parameters that are made of the gradient.

use super::Layout;
use crate::linalg::svd;
use ndarray::Array2;

/// The direction in which the parameters move.
///
/// A quadratic c = ½ θᵀBθ + bᵀθ is conserved along a field V if ⟨Bθ + b, V⟩ = 0. For the gradient these are
/// the laws. For another field there are fewer: what is left rests on entries, or combinations of rows,
/// whose gradients are zero or equal, not on a sum of products that cancels.
///
/// ```
/// use emmy::symmetry::{Field, Layout, ParametricFunction, Search, discover};
/// use emmy::init;
/// let shapes = [("W1", vec![3, 2]), ("W2", vec![2, 3])];
/// let layout = Layout::new(shapes.map(|(name, shape)| (name.to_owned(), shape)));
/// let net = ParametricFunction::new(layout, |tape, w, seed| {
///     let x = tape.constant(init::normal(&[4, 2], 1.0, &mut init::rng(seed)));
///     x.matmul(w[0].t()).relu().matmul(w[1].t())
/// });
/// let found = |field| discover(&net, &[], &Search { field, ..Search::default() }).found;
/// assert_eq!([Field::Gradient, Field::Sign, Field::Polar].map(found), [3, 0, 0]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Field {
    /// G: gradient flow.
    #[default]
    Gradient,
    /// The sign of each entry of G: the first step of Adam.
    Sign,
    /// U Vᵀ of each matrix G = U S Vᵀ, singular values of zero left out, and the signs of other parameters:
    /// the first step of Muon with exact orthogonal matrices.
    Polar,
}

/// An entry counts as zero if it is at most this part of the largest one of the gradient.
const ZERO: f64 = 1e-11;

impl Field {
    /// The vector of the field where the gradient is this one.
    pub(super) fn of(self, layout: &Layout, gradient: Vec<f64>) -> Vec<f64> {
        if self == Self::Gradient {
            return gradient;
        }
        let largest = gradient.iter().fold(0.0_f64, |m, x| m.max(x.abs()));
        let sign = |x: &f64| {
            if x.abs() > ZERO * largest {
                x.signum()
            } else {
                0.0
            }
        };
        let mut out = Vec::with_capacity(gradient.len());
        for (k, shape) in layout.shapes().iter().enumerate() {
            let start = layout.start(k);
            let part = &gradient[start..start + shape.iter().product::<usize>()];
            match (self, &shape[..]) {
                (Self::Polar, &[rows, columns]) => {
                    let g = Array2::from_shape_vec((rows, columns), part.to_vec());
                    let (u, s, vt) = svd(g.expect("the shape of the layout").view());
                    let kept = s.mapv(|s| f64::from(s > ZERO * largest));
                    let rank = kept.len();
                    let u = u.slice(ndarray::s![.., ..rank]).to_owned() * &kept;
                    out.extend(u.dot(&vt.slice(ndarray::s![..rank, ..])));
                }
                _ => out.extend(part.iter().map(sign)),
            }
        }
        out
    }
}
