//! A space that grows vector by vector.

use crate::kernels::random::mix;
use ndarray::Array1;

/// Orthonormal vectors that span those added so far.
pub(super) struct Span {
    basis: Vec<Array1<f64>>,
    /// The smallest part of an added vector that was orthogonal to the vectors before it.
    weakest: f64,
}

/// The least part of a vector, relative to its length, that must be orthogonal to the span for a new
/// direction.
const NEW: f64 = 1e-8;

impl Span {
    pub fn new() -> Self {
        Self {
            basis: Vec::new(),
            weakest: 1.0,
        }
    }

    pub fn rank(&self) -> usize {
        self.basis.len()
    }

    /// Adds a vector if more than `least` of its length is orthogonal to the span; returns whether it was
    /// added.
    pub fn add(&mut self, vector: &[f64], least: f64) -> bool {
        let Some((rest, left)) = self.rest(vector) else {
            return false;
        };
        // The rounding error of a basis vector was divided by the length of its orthogonal part when it was
        // added.
        let new = left > least.max(NEW).max(1e-14 / self.weakest);
        if new {
            self.weakest = self.weakest.min(left);
            self.basis.push(rest);
        }
        new
    }

    /// Whether a vector lies in the span; true of zero.
    pub fn contains(&self, vector: &[f64]) -> bool {
        self.rest(vector).is_none_or(|(_, left)| left <= NEW)
    }

    /// The part of a vector that is orthogonal to the span, as a unit vector, and its length relative to the
    /// vector's length; `None` for the zero vector.
    fn rest(&self, v: &[f64]) -> Option<(Array1<f64>, f64)> {
        let before = norm(v);
        if before == 0.0 {
            return None;
        }
        let mut v = Array1::from_vec(v.to_vec()) / before;
        // The second pass removes the rounding errors of the first.
        for _ in 0..2 {
            for e in &self.basis {
                let overlap = v.dot(e);
                v.scaled_add(-overlap, e);
            }
        }
        let left = v.dot(&v).sqrt();
        if left > 0.0 {
            v /= left;
        }
        Some((v, left))
    }
}

/// A linear image of a vector with at most `length` entries: every entry is added to one of them, or
/// subtracted. The rank of a few vectors is, with high probability, the rank of their images.
pub(super) fn image(vector: &[f64], length: usize) -> Vec<f64> {
    if vector.len() <= length {
        return vector.to_vec();
    }
    let mut out = vec![0.0; length];
    for (i, x) in vector.iter().enumerate() {
        let random = mix(0, i as u64);
        let sign = if random & 1 == 0 { 1.0 } else { -1.0 };
        out[(random >> 1) as usize % length] += sign * x;
    }
    out
}

/// √Σ x², without overflow.
pub(super) fn norm(v: &[f64]) -> f64 {
    let largest = v.iter().fold(0.0_f64, |m, x| m.max(x.abs()));
    if largest == 0.0 || !largest.is_finite() {
        return largest;
    }
    largest * v.iter().map(|x| (x / largest).powi(2)).sum::<f64>().sqrt()
}
