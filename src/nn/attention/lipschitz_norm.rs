//! LipschitzNorm: attention whose scores are divided by a bound of their size.

use super::{Invariance, ScoreNormalizer};
use crate::autodiff::Var;
use crate::error::{Result, Rules};
use crate::linalg::Upper;
use crate::ops::sparse::{gather_columns, segment_max};
use crate::real::Real;
use crate::sparse::Pattern;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Scores divided by a bound of their size and slope, times α. Attention with these scores has a Lipschitz
/// constant.
///
/// Dasoulas, Scaman and Virmaux, "Lipschitz Normalization for Self-Attention Layers with Application to Graph
/// Neural Networks", ICML 2021. The divisor is computed per head; on a graph per head and neighbourhood:
///
/// | scores | divisor c | equation |
/// |---|---|---|
/// | q_i · k_j, dense | max{uv, uw, vw}, u = ‖Q‖_F, v = max_j ‖k_j‖, w = max_j ‖v_j‖ | (19) |
/// | q_i · k_j, on a graph | the same, u = ‖q_i‖, v and w over the sources j of target i | (19) |
/// | ⟨a_s, z_j⟩ + ⟨a_t, z_i⟩ (GAT) | ‖(a_s, a_t)‖ √(max_j ‖z_j‖² + ‖z_i‖²) | (17) on pairs |
///
/// The scores then have no 1/√d. LeakyReLU(e/c) is LeakyReLU(e)/c, so it does not matter that GAT's scores
/// are divided after the LeakyReLU. A score of 0/0 is set to 0.
///
/// If all neurons of a head are multiplied by one number, the divisor is multiplied as the scores are, and α
/// does not change. So a head has one conservation law in place of one per neuron. The size of GAT's
/// attention vectors has no effect either: ⟨a_s, G⟩ + ⟨a_t, G⟩ = 0.
///
/// GAT on two connected nodes with z = 3 and z = 4, a_s = 1 and a_t = 0. The divisor of node 0 is √(4² + 3²)
/// = 5, so the factor of its scores is ¼/5. Dense attention of four tokens has the constant cosh 1 + 2√2.
///
/// ```
/// use emmy::graph::{Duplicates, SelfLoops};
/// use emmy::{Graph, Tape, nn::LipschitzNorm, tensor::tensor};
///
/// let pair = Graph::new(2, &[(0, 1), (1, 0)], Duplicates::Reject, SelfLoops::Reject)?.with_self_loops();
/// let tape = Tape::new();
/// let z = tape.constant(tensor(&[2, 1, 1], vec![3.0_f64, 4.0]));
/// let a = [1.0, 0.0].map(|a| tape.constant(tensor(&[1, 1], vec![a])));
/// let factors = LipschitzNorm::GAT.of_targets(pair.pattern(), z, a);
/// assert_eq!(factors.shape(), [2, 1]);
/// assert!((factors.value()[[0, 0]] - 0.05).abs() < 1e-12);
/// let constant = LipschitzNorm::DOT.constant(4, 4).unwrap().get();
/// assert!((constant - 4.3715).abs() < 1e-4);
/// # Ok::<(), emmy::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LipschitzNorm {
    /// α: the scores are at most α in size.
    pub alpha: f64,
}

/// Added to divisors, as in the published code.
const EPS: f64 = 1e-12;

impl LipschitzNorm {
    /// α = 1, for dot products.
    pub const DOT: Self = Self { alpha: 1.0 };

    /// α = ¼, the factor 4 of the published code, for GAT.
    pub const GAT: Self = Self { alpha: 0.25 };

    /// Checks α.
    ///
    /// # Errors
    /// If α is not a finite number above 0.
    pub fn validate(&self) -> Result<()> {
        Rules("LipschitzNorm").above_zero("α", self.alpha)
    }

    /// α/c, zeros of c set to [`EPS`].
    fn over<'t, F: Real>(&self, c: Var<'t, F>) -> Var<'t, F> {
        c.add_scalar(F::of(EPS))
            .powf(-F::one())
            .scale(F::of(self.alpha))
    }

    /// The factors of GAT's scores, per target and head `[n, H]`, from z `[n, H, C]` and a_s, a_t `[H, C]`.
    ///
    /// # Panics
    /// If the shapes do not fit.
    #[track_caller]
    pub fn of_targets<'t, F: Real>(
        &self,
        edges: &Arc<Pattern>,
        z: Var<'t, F>,
        [a_s, a_t]: [Var<'t, F>; 2],
    ) -> Var<'t, F> {
        let sizes = z.norm(&[2], false);
        let largest = segment_max(edges, gather_columns(edges, sizes));
        let a = Var::concat(&[a_s, a_t], 1).norm(&[1], false);
        self.over(hypot(largest, sizes) * a)
    }

    /// The factors of scores q_i · k_j on a graph, per target and head `[n, H]`, from q `[n, H, D]`, k `[m,
    /// H, D]` and v `[m, H, C]`.
    ///
    /// # Panics
    /// If the shapes do not fit.
    #[track_caller]
    pub fn on_graph<'t, F: Real>(
        &self,
        edges: &Arc<Pattern>,
        q: Var<'t, F>,
        k: Var<'t, F>,
        v: Var<'t, F>,
    ) -> Var<'t, F> {
        let largest =
            |x: Var<'t, F>| segment_max(edges, gather_columns(edges, x.norm(&[2], false)));
        self.over(largest_product(q.norm(&[2], false), largest(k), largest(v)))
    }

    /// A bound of the constant of (Q, K, V) ↦ y of dense attention, n keys and m queries, in the Frobenius
    /// norm: cosh α √(m/n) + 2√2 α. The paper's Corollary 2 has e^(√3 α) √(m/n) + 2√6 α, which is larger.
    ///
    /// `None` without keys.
    pub fn constant(&self, n: usize, m: usize) -> Option<Upper> {
        if n == 0 {
            return None;
        }
        let spread = Upper::rounded((m as f64 / n as f64).sqrt(), 4.0 * f64::EPSILON);
        Some(self.level() * spread + self.slope())
    }

    /// A bound of the constant of z ↦ y of GAT under this norm: cosh α/√n_i + 2√2 α for a target with n_i
    /// sources. Every node is in as many neighbourhoods as its column has entries, its own included.
    ///
    /// It is also a bound of the constant of (q, k, v) ↦ y of dot products on a graph: per target as
    /// [`constant`](Self::constant) with one query.
    pub fn constant_on(&self, edges: &Pattern) -> Upper {
        let sizes = (0..edges.rows()).map(|i| edges.row(i).len());
        let least = sizes.filter(|&n| n > 0).min().unwrap_or(1);
        // A node is in the term of itself as a target, and in the terms of the targets to which it sends.
        let mut counts = vec![1usize; edges.cols().max(edges.rows())];
        for (&i, &j) in edges.rows_of().iter().zip(edges.indices()) {
            counts[j as usize] += usize::from(i != j);
        }
        let most = counts.into_iter().max().unwrap_or(1);
        let spread = Upper::rounded((least as f64).sqrt().recip(), 4.0 * f64::EPSILON);
        (self.level() * spread + self.slope()) * Upper::new(most as f64).sqrt()
    }

    /// 2√2 α.
    fn slope(&self) -> Upper {
        Upper::rounded(2.0 * 2f64.sqrt() * self.alpha, 8.0 * f64::EPSILON)
    }

    /// cosh α.
    fn level(&self) -> Upper {
        Upper::rounded(self.alpha.cosh(), 1e-14)
    }
}

/// √(x² + y²) as a norm, whose derivative at 0 is 0. The derivative of √ would be infinite, and dropout can
/// make a whole neighbourhood zero.
fn hypot<'t, F: Real>(x: Var<'t, F>, y: Var<'t, F>) -> Var<'t, F> {
    Var::concat(&[x.unsqueeze(-1), y.unsqueeze(-1)], -1).norm(&[-1], false)
}

/// max{uv, uw, vw}.
fn largest_product<'t, F: Real>(u: Var<'t, F>, v: Var<'t, F>, w: Var<'t, F>) -> Var<'t, F> {
    (u * v).maximum(u * w).maximum(v * w)
}

impl<F: Real> ScoreNormalizer<F> for LipschitzNorm {
    /// α √d / c: the scores of [`MultiHeadAttention`](super::MultiHeadAttention) are divided by √d, which the
    /// factor √d cancels.
    fn temperature<'t>(&self, q: Var<'t, F>, k: Var<'t, F>, v: Var<'t, F>) -> Var<'t, F> {
        let (shape, d) = (q.shape(), q.shape()[q.ndim() - 1]);
        let heads = shape[shape.len() - 2];
        // [.., 1, H], the heads of a group alike.
        let largest = |x: Var<'t, F>| {
            let norms = x.norm(&[-1], false).max(&[-2], true);
            let groups = norms.shape()[norms.ndim() - 1];
            let shared: Vec<usize> = (0..heads).map(|h| h * groups / heads).collect();
            norms.index_select(-1, shared)
        };
        let u = q.norm(&[-3, -1], true).squeeze(-1);
        let t = self.over(largest_product(u, largest(k), largest(v)));
        t.scale(F::of((d as f64).sqrt()))
            .broadcast_to(&shape[..shape.len() - 1])
    }

    /// Up to the 10⁻¹² that is added to the divisor.
    fn invariance(&self) -> Invariance {
        Invariance::Similarities
    }

    fn constant(&self, n: usize, m: usize) -> Option<Upper> {
        self.constant(n, m)
    }
}
