//! A space that grows vector by vector.

use ndarray::Array1;

/// Orthonormal vectors that span those added so far (Gram and Schmidt, each vector twice).
///
/// ```
/// use emmy::linalg::Span;
/// let mut span = Span::default();
/// assert!(span.add(&[1.0, 0.0, 0.0], 0.0) && span.add(&[1.0, 1.0, 0.0], 0.0));
/// assert!(!span.add(&[0.0, 2.0, 0.0], 0.0));
/// assert_eq!(span.rank(), 2);
/// assert!(span.contains(&[3.0, -1.0, 0.0]) && !span.contains(&[0.0, 0.0, 1.0]));
/// ```
#[derive(Debug, Clone)]
pub struct Span {
    basis: Vec<Array1<f64>>,
    /// The smallest part of an added vector that was orthogonal to the vectors before it.
    weakest: f64,
}

/// The least part of a vector, relative to its length, that must be orthogonal to the span for a new
/// direction.
const NEW: f64 = 1e-8;

impl Default for Span {
    /// The span of no vector.
    fn default() -> Self {
        Self {
            basis: Vec::new(),
            weakest: 1.0,
        }
    }
}

impl Span {
    /// The number of vectors of the basis.
    pub fn rank(&self) -> usize {
        self.basis.len()
    }

    /// Adds a vector if more than `least` of its length is orthogonal to the span; returns whether it was
    /// added.
    ///
    /// # Panics
    /// If the vector has not as many entries as those before.
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
    ///
    /// # Panics
    /// If the vector has not as many entries as those added.
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

/// ‖v‖₂ = √Σ x², without overflow of the squares; NaN if an entry is. Not rounded up, unlike the norms of
/// matrices.
///
/// ```
/// assert_eq!(emmy::linalg::norm(&[3e210, -4e210]), 5e210);
/// ```
pub fn norm(v: &[f64]) -> f64 {
    let larger = |m: f64, x: &f64| {
        if m.is_nan() || x.abs() <= m {
            m
        } else {
            x.abs()
        }
    };
    let largest = v.iter().fold(0.0, larger);
    if largest == 0.0 || !largest.is_finite() {
        return largest;
    }
    largest * v.iter().map(|x| (x / largest).powi(2)).sum::<f64>().sqrt()
}
