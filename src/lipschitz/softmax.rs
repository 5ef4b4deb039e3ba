//! The Jacobian of the softmax, diag p − p pᵀ.

use crate::linalg::Lp;

/// ‖diag p − p pᵀ‖ at the coefficients p.
///
/// - For p = 1 and ∞ it is max 2 p_i (1 − p_i).
/// - For p = 2 it is the largest root μ of Σ p_i² / (p_i − μ) = 1, which lies between the two largest
///   coefficients p₍₁₎ ≥ p₍₂₎; it is p₍₁₎ if they are equal. It is at most p₍₁₎ (1 − p₍₁₎ + p₍₂₎).
///
/// The largest value, over all coefficients, is ½ in each of these norms. 1 − p₍₁₎ is computed as the sum of
/// the others. The result is zero if there are no coefficients, or if all are zero.
///
/// ```
/// use emmy::{lipschitz::softmax_norm, linalg::Lp};
/// assert_eq!(softmax_norm(&[0.25; 4], Lp::Two), 0.25);
/// assert_eq!(softmax_norm(&[0.4, 0.4, 0.2], Lp::Two), 0.4);
/// assert_eq!(softmax_norm(&[0.5, 0.5], Lp::Inf), 0.5);
/// ```
pub fn softmax_norm(p: &[f64], norm: Lp) -> f64 {
    let others = |k: usize| -> f64 {
        let rest = p.iter().enumerate().filter(|(i, _)| *i != k);
        rest.map(|(_, p)| p).sum()
    };
    if norm != Lp::Two {
        // Only the largest coefficient can be above ½; the sum of the others is as accurate as 1 − p_i below.
        let each = p.iter().enumerate().map(|(i, &p)| {
            let rest = if p > 0.5 { others(i) } else { 1.0 - p };
            2.0 * p * rest
        });
        return each.fold(0.0, f64::max);
    }
    let Some(first) = (0..p.len()).reduce(|a, b| if p[b] > p[a] { b } else { a }) else {
        return 0.0;
    };
    let second = (0..p.len()).filter(|&i| i != first).map(|i| p[i]);
    let (p1, p2, rest) = (p[first], second.fold(0.0, f64::max), others(first));
    if p1 == p2 || p1 == 0.0 {
        return p1;
    }
    // f(μ) = 1 − Σ p_i² / (p_i − μ) falls from +∞ at p₍₂₎ to −∞ at p₍₁₎.
    let f = |mu: f64| 1.0 - p.iter().map(|p| p * p / (p - mu)).sum::<f64>();
    let (mut low, mut high) = (p2, p1.min(p1 * (rest + p2)));
    if p2 == 0.0 {
        // Only one coefficient is not 0, so the Jacobian is 0.
        return p1 * rest;
    }
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        match f(middle) > 0.0 {
            true => low = middle,
            false => high = middle,
        }
    }
    high
}
