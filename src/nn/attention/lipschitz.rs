//! The Lipschitz constant of L2 attention with tied weights: Kim et al., "The Lipschitz Constant of
//! Self-Attention", ICML 2021, Theorem 3.2, corrected.

use super::{MultiHeadAttention, Score};
use crate::autodiff::Var;
use crate::lipschitz::{Bound, Lp, Upper, declare};
use crate::nn::{Linear, Pass};
use crate::ops::attention::{Mask, Qkv};
use crate::real::Real;

impl<F: Real> MultiHeadAttention<F> {
    /// The constant in the norm ‖·‖_p, p = 2 or ∞, of self-attention of n tokens, before it is divided by a
    /// [contraction](super::AttentionConfig::contraction); with this mask, or if it is `None`, with any under
    /// which each token sees itself:
    ///
    /// Lip_∞ ≤ (4v + 1/√d) ‖W_O‖_∞ max_h ‖W_Q^h‖_1 ‖W_Q^h‖_∞ max_h ‖W_V^h‖_∞,
    /// Lip₂ ≤ √(n/d) (4v + 1) √(Σ_h ‖W_Q^h‖₂⁴ ‖W_V^h‖₂²) ‖W_O‖₂,
    ///
    /// with v = φ⁻¹(n − 1) and φ(x) = x e^(x+1); so v = W₀((n − 1)/e), which grows as log n − log log n. The
    /// paper prints W₀(n/e), which is larger, and ‖W_Q‖₂² in the second line, which is too small, since F is
    /// quadratic in W_Q. The paper's weights are the transposes of ours.
    ///
    /// Without a mask, and with a causal one, √n (4v + 1) in the second line becomes √c + 2v + 2√(v c′). This
    /// grows as n^¼ log n. For n > 1 it is at most 0.71 of the first (0.79 with a causal mask), for 64 tokens
    /// 0.245 of it (0.257). `docs/proofs.md` has c, c′ and the proof.
    ///
    /// `None` for a configuration without a constant
    /// ([`AttentionConfig::is_lipschitz`](super::AttentionConfig::is_lipschitz)), and for p = 1. Also for a mask
    /// that hides a token from itself, as padding does: the output of a token that sees two others alone is
    /// close to the nearer one, and its derivative between them grows with their distance.
    ///
    /// # Panics
    /// If the mask is made of edges between fewer than n tokens.
    pub fn lipschitz<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        n: usize,
        p: Lp,
        mask: Option<&Mask>,
    ) -> Option<Bound<'t, F>> {
        let c = &self.config;
        let hides = mask.is_some_and(|mask| !mask.shows_own(n));
        if !c.is_lipschitz() || self.normalizer.is_some() || hides {
            return None;
        }
        let (d, tape) = (c.key_width as f64, pass.tape());
        let of_head = |map: &Linear<F>, width: usize, h: usize| {
            pass.param(&map.weight).slice(0, h * width..(h + 1) * width)
        };
        let queries = |h| of_head(&self.query, c.key_width, h);
        let values = |h| of_head(&self.value, c.value_width, h);
        let output = Bound::norm(p, pass.param(&self.output.weight));
        let number = |x: Upper| Bound::number(tape, x);
        let growth = Upper::new(4.0) * inverse_phi(n.max(1) - 1);
        let reciprocal = Upper::rounded(d.sqrt().recip(), 4.0 * F::epsilon().as_f64());
        match p {
            Lp::One => None,
            Lp::Inf => {
                let heads = 0..c.heads;
                let metric: Vec<_> = (heads.clone())
                    .map(|h| Bound::norm(Lp::One, queries(h)) * Bound::norm(Lp::Inf, queries(h)))
                    .collect();
                let value: Vec<_> = heads.map(|h| Bound::norm(Lp::Inf, values(h))).collect();
                let factor = number(growth + reciprocal);
                Some(factor * output * Bound::largest(&metric) * Bound::largest(&value))
            }
            Lp::Two => {
                let heads: Vec<_> = (0..c.heads)
                    .map(|h| {
                        let q = Bound::norm(Lp::Two, queries(h));
                        q.clone() * q * Bound::norm(Lp::Two, values(h))
                    })
                    .collect();
                let of_means = match mask {
                    Some(mask) if mask.is_none() => of_means(n, false),
                    Some(mask) if mask.is_causal() => of_means(n, true),
                    _ => Upper::new(n as f64).sqrt() * (growth + Upper::ONE),
                };
                Some(number(of_means * reciprocal) * Bound::hypot(&heads) * output)
            }
        }
    }

    /// The heads of an attention with a score normaliser, with the constant that the normaliser guarantees.
    /// It has none behind a mask: if all n queries see one key, V ↦ y has the constant √n.
    pub(super) fn normalized<'t>(
        &self,
        x: Qkv<'t, F>,
        heads: Var<'t, F>,
        mask: &Mask,
    ) -> Var<'t, F> {
        let (k, q) = (x.k.shape(), x.q.shape());
        let (n, m) = (k[k.len() - 3], q[q.len() - 3]);
        let c = &self.config;
        let plain = c.score == Score::Dot && c.dropout == 0.0 && mask.is_none();
        let normalizer = self.normalizer.as_ref().filter(|_| plain);
        let Some(constant) = normalizer.and_then(|normalizer| normalizer.constant(n, m)) else {
            return heads;
        };
        // The heads of a group share keys and values.
        let constant = constant * Upper::new((c.heads / c.groups) as f64).sqrt();
        let bound = Bound::number(heads.tape(), constant);
        declare(heads, &[x.q, x.k, x.v], [(Lp::Two, bound)])
    }

    /// The output y of self-attention of x; its constants are declared if it has any.
    pub(super) fn stated<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        y: Var<'t, F>,
        x: Var<'t, F>,
        memory: Var<'t, F>,
        mask: &Mask,
    ) -> Var<'t, F> {
        if !self.config.is_lipschitz() || x.id() != memory.id() || !x.is_differentiable() {
            return y;
        }
        let n = x.shape()[x.ndim() - 2];
        let of = |p| Some((p, self.lipschitz(pass, n, p, Some(mask))?));
        declare(y, &[x], [Lp::Two, Lp::Inf].into_iter().filter_map(of))
    }
}

/// √c + 2v + 2√(v c′), the constant of z ↦ Σ_j P_ij z_j in the 2-norm for n rows z_i and P_ij ∝ e^(−‖z_i −
/// z_j‖²). Every row sees all rows or, with a causal mask, itself and those before it.
fn of_means(n: usize, causal: bool) -> Upper {
    let others = n.max(1) - 1;
    if others == 0 {
        return Upper::ONE;
    }
    let (v, others) = (inverse_phi(others), others as f64);
    // Σ 1/q of the rows that see one row is at most t.
    let step = if causal { 4.0 } else { 2.0 };
    let t = (step * (others - 1.0) + 1.0).sqrt().min(others);
    let own = if causal { 1.0 } else { 1.0 / (1.0 + t) };
    let column = own + others * t / (others + t);
    // −x ln x / (1 + x) is concave, and largest at x = φ⁻¹(1).
    let x = (t / others).min(inverse_phi(1).get());
    let squares = -others * x * x.ln() / (1.0 + x);
    let [c, c_prime] = [column, squares].map(|x| Upper::rounded(x, 1e-13));
    c.sqrt() + Upper::new(2.0) * (v + (v * c_prime).sqrt())
}

/// φ⁻¹(k) from above, φ(x) = x e^(x+1): Newton's method on x + 1 + ln x = ln k, rounded up.
fn inverse_phi(k: usize) -> Upper {
    if k == 0 {
        return Upper::ZERO;
    }
    let log = (k as f64).ln();
    // ln k ≥ ln 1 = 0, so the solution is at least φ⁻¹(1) = 0.278.
    let mut x = (log - 1.0).max(0.3);
    for _ in 0..50 {
        let step = (x + 1.0 + x.ln() - log) / (1.0 + 1.0 / x);
        x = (x - step).max(0.2);
        if step.abs() < 1e-15 * x {
            break;
        }
    }
    Upper::rounded(x, 1e-13)
}
