//! How much of the values all queries of an attention take, if their scores are limited.
//!
//! In the letters of [`attention`](super::attention): let the scores of query i and its m_i keys differ by at
//! most r. Then none of the keys has more than π_i = 1 / (1 + (m_i − 1) e⁻ʳ), since each of the others has at
//! least e⁻ʳ of the largest coefficient. So (docs/proofs.md)
//!
//! ‖P‖₂² ≤ Σ_i min(π_i, cosh²(r/2) / m_i), and Σ_j P_ij² ‖v_j − m_i‖² ≤ min(½, π_i) V².

use crate::autodiff::{Tape, Var};
use crate::kernels::attention::Mask;
use crate::linalg::{Lower, Upper};
use crate::real::Real;
use crate::tensor::{scalar, tensor};
use std::collections::BTreeMap;

/// What is summed over the queries.
#[derive(Debug, Clone, Copy)]
pub(super) enum Share {
    /// Σ_j P_ij².
    Coefficients,
    /// Σ_j P_ij² ‖v_j − m_i‖², for values of at most 1.
    Deviations,
}

/// The root of the sum of a share over the queries.
#[derive(Debug)]
pub(super) struct Shares {
    of: Share,
    /// The number of queries for each number of keys that a query sees.
    queries: BTreeMap<usize, usize>,
}

/// A range from which on cosh² is not the smaller term, and at which it does not overflow in `f32`.
const WIDE: f64 = 80.0;

impl Shares {
    /// For n queries of m keys.
    pub fn new(of: Share, mask: &Mask, [n, m]: [usize; 2]) -> Self {
        let (none, causal) = (mask.is_none(), mask.is_causal());
        let seen = |i: usize| match (none, causal) {
            (true, _) => m,
            (_, true) => (i + 1 + m).saturating_sub(n),
            // How many keys another mask leaves is not counted: π is 1.
            _ => 1,
        };
        let mut queries = BTreeMap::new();
        // A query without keys takes nothing.
        for keys in (0..n).map(seen).filter(|&keys| keys > 0) {
            *queries.entry(keys).or_insert(0) += 1;
        }
        Self { of, queries }
    }

    /// For scores that differ by at most `range`.
    pub fn upper(&self, range: Upper) -> Upper {
        // With the error of the exponential, and of the sum after it.
        let least = (-range.get()).exp() * (1.0 - 1e-14);
        let even = Upper::rounded((0.5 * range.get()).cosh(), 1e-14).square();
        let of = |(&keys, &queries): (&usize, &usize)| {
            let whole = (1.0 + (keys - 1) as f64 * least) * (1.0 - 1e-15);
            let largest = Upper::ONE / Lower::new(whole);
            let other = match self.of {
                Share::Coefficients => even / Lower::new(keys as f64),
                Share::Deviations => Upper::new(0.5),
            };
            Upper::new(queries as f64) * largest.min(other)
        };
        self.queries.iter().map(of).sum::<Upper>().sqrt()
    }

    /// The same as a variable.
    pub fn var<'t, F: Real>(&self, tape: &'t Tape<F>, range: Var<'t, F>) -> Var<'t, F> {
        let vector = |x: Vec<F>| tape.constant(tensor(&[x.len()], x));
        let number = |x: usize| F::of(x as f64);
        let keys: Vec<F> = self.queries.keys().map(|&m| number(m)).collect();
        let others = vector(keys.iter().map(|&m| m - F::one()).collect());
        let queries = vector(self.queries.values().map(|&n| number(n)).collect());
        let largest = ((-range).exp() * others)
            .add_scalar(F::one())
            .powf(-F::one());
        let other = match self.of {
            Share::Coefficients => {
                let half = range.clamp(F::zero(), F::of(WIDE)).scale(F::of(0.5));
                let even = (half.exp() + (-half).exp()).scale(F::of(0.5)).square();
                even / vector(keys)
            }
            Share::Deviations => tape.constant(scalar(F::of(0.5))),
        };
        (largest.minimum(other) * queries).sum_all().sqrt_or_zero()
    }
}
