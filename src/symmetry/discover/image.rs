//! Short images of long vectors.

use crate::kernels::random::mix;

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
