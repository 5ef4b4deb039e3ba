//! LipschitzNorm: attention whose scores are divided by a bound of their size.

use super::{Invariance, ScoreNormalizer};
use crate::autodiff::Var;
use crate::error::{Result, Rules};
use crate::lipschitz::{Bound, Lp, Upper, declare};
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
/// | any g with a constant L of x ↦ g | max{‖g‖_(2,∞), max_j ‖x_j‖ L} | (15) |
/// | q_i · x_j, q a parameter | ‖q‖_F max_j ‖x_j‖ | (17) |
/// | q_i · k_j, dense | max{uv, uw, vw}, u = ‖Q‖_F, v = max_j ‖k_j‖, w = max_j ‖v_j‖ | (19) |
/// | q_i · k_j, on a graph | the same, u = ‖q_i‖, v and w over the sources j of target i | (19) |
/// | ⟨a_s, z_j⟩ + ⟨a_t, z_i⟩ (GAT) | ‖(a_s, a_t)‖ √(max_j ‖z_j‖² + ‖z_i‖²) | (17) on pairs |
///
/// The first two are [`attend`](Self::attend) and [`attend_linear`](Self::attend_linear), the others
/// options of layers. The scores then have no 1/√d. LeakyReLU(e/c) is LeakyReLU(e)/c, so it does not matter
/// that GAT's scores are divided after the LeakyReLU. A score of 0/0 is set to 0.
///
/// If all neurons of a head are multiplied by one number, the divisor is multiplied as the scores are, and α
/// does not change. So a head has one conservation law in place of one per neuron. The size of GAT's
/// attention vectors has no effect either: ⟨a_s, G⟩ + ⟨a_t, G⟩ = 0.
///
/// GAT on two connected nodes with z = 3 and z = 4, a_s = 1 and a_t = 0. The divisor of node 0 is √(4² + 3²)
/// = 5, so the factor of its scores is ¼/5. Dense attention of four tokens has a constant of at most 3.03.
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
/// assert!((constant - 3.0274).abs() < 1e-4);
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

    /// Attention y = softmax(α g / c) x of m queries over n inputs, by any scores g of the inputs that have a
    /// constant L, ‖g(x) − g(x′)‖_(2,∞) ≤ L ‖x − x′‖_F, where ‖·‖_(2,∞) is the root of the sum of the squares
    /// of the largest entries of the rows. Eq. (15): c = max{‖g‖_(2,∞), max_j ‖x_j‖ L}.
    ///
    /// A constant of g in the Frobenius norm, as [`bound`](crate::lipschitz::bound) reads it off the tape, is
    /// one of ‖·‖_(2,∞) too. The constant of x ↦ y is [`constant_of_scores`](Self::constant_of_scores), and
    /// is declared on the tape. L may be a variable, `[]`, and have derivatives.
    ///
    /// | letter | shape |
    /// |---|---|
    /// | g | `[m, n]` |
    /// | x | `[n, d]` |
    /// | y | `[m, d]` |
    ///
    /// Scores −‖x_j − z_i‖ of three inputs and two fixed points z: a row moves by at most max_j ‖h_j‖, so L
    /// is √2.
    ///
    /// ```
    /// use emmy::lipschitz::{Domain, Lp, bound};
    /// use emmy::{Tape, nn::LipschitzNorm, tensor::{scalar, tensor}};
    /// let tape = Tape::new();
    /// let x = tape.var(tensor(&[3, 1], vec![0.0_f64, 1.0, 5.0]));
    /// let z = tape.constant(tensor(&[2, 1], vec![-1.0, 7.0]));
    /// let g = -(x.t() - z).abs();
    /// let y = LipschitzNorm::DOT.attend(g, x, tape.constant(scalar(2f64.sqrt())));
    /// assert_eq!(y.shape(), [2, 1]);
    /// let constant = bound(y, x, Lp::Two, Domain::Everywhere)?.upper();
    /// assert_eq!(Some(constant), LipschitzNorm::DOT.constant_of_scores(3, 2));
    /// # Ok::<(), emmy::Error>(())
    /// ```
    ///
    /// # Panics
    /// If the shapes do not fit, or there is no input.
    #[track_caller]
    pub fn attend<'t, F: Real>(&self, g: Var<'t, F>, x: Var<'t, F>, l: Var<'t, F>) -> Var<'t, F> {
        let [n, m] = inputs_and_queries(g, x);
        let largest = g.abs().max(&[1], false).norm(&[], false);
        let c = largest.maximum(longest(x) * l.sum_all());
        self.normalized(g, c, x, self.constant_of_scores(n, m))
    }

    /// The same for linear scores g = q xᵀ by queries q `[m, d]`, and Eq. (17): c = ‖q‖_F max_j ‖x_j‖. The
    /// constant of x ↦ y is [`constant_of_linear`](Self::constant_of_linear).
    ///
    /// # Panics
    /// If the shapes do not fit, or there is no input.
    #[track_caller]
    pub fn attend_linear<'t, F: Real>(&self, q: Var<'t, F>, x: Var<'t, F>) -> Var<'t, F> {
        let g = q.matmul(x.t());
        let [n, m] = inputs_and_queries(g, x);
        let c = q.norm(&[], false) * longest(x);
        self.normalized(g, c, x, self.constant_of_linear(n, m))
    }

    fn normalized<'t, F: Real>(
        &self,
        g: Var<'t, F>,
        c: Var<'t, F>,
        x: Var<'t, F>,
        constant: Option<Upper>,
    ) -> Var<'t, F> {
        let y = (g * self.over(c)).softmax(-1).matmul(x);
        let constant = Bound::number(y.tape(), constant.expect("an input"));
        declare(y, &[x], [(Lp::Two, constant)])
    }

    /// A bound of the constant of (Q, K, V) ↦ y of dense attention without a mask, n keys and m queries, in
    /// the Frobenius norm:
    ///
    /// √max{S² + (11/2 + √2) α², (S + α)² + 9/2 α²}, S² = min{(m + sinh² α)/n, m}.
    ///
    /// The paper's Corollary 2 has e^(√3 α) √(m/n) + 2√6 α, which is larger.
    ///
    /// `None` without keys.
    pub fn constant(&self, n: usize, m: usize) -> Option<Upper> {
        Some(self.beside(self.size(n, m)?))
    }

    /// A bound of the constant of [`attend`](Self::attend), S + 2α with S² = min{(m + sinh² α)/n, m}. The
    /// paper's Theorem 3 has e^α √(m/n) + √8 α, which is larger.
    ///
    /// `None` without inputs.
    pub fn constant_of_scores(&self, n: usize, m: usize) -> Option<Upper> {
        Some(self.size(n, m)? + self.times(2.0))
    }

    /// A bound of the constant of [`attend_linear`](Self::attend_linear), S + (1 + √½) α with the same S.
    /// The paper's Corollary 1 has e √(m/n) + √8 for α = 1, which is larger.
    ///
    /// `None` without inputs.
    pub fn constant_of_linear(&self, n: usize, m: usize) -> Option<Upper> {
        Some(self.size(n, m)? + self.times(1.0 + 0.5f64.sqrt()))
    }

    /// A bound of the constant of z ↦ y of GAT under this norm, whose LeakyReLU has the slope s, |s| ≤ 1.
    /// With r = (1 + max{s, 0})/2, half the range of the scores over α, it is
    ///
    /// min{cosh(r α)/√n_i, 1} + α (√(½ + ((1 − s)/2)²) + √2 r)
    ///
    /// for a target with n_i sources. Every node is in as many neighbourhoods as its column has entries, its
    /// own included.
    pub fn constant_of_gat(&self, edges: &Pattern, slope: f64) -> Upper {
        let range = 0.5 * (1.0 + slope.max(0.0));
        let bend = 0.5 * (1.0 - slope);
        let spread = (range * self.alpha).cosh() / least_sources(edges).sqrt();
        let size = Upper::rounded(spread.min(1.0), 1e-13);
        let moved = (0.5 + bend * bend).sqrt() + 2f64.sqrt() * range;
        (size + self.times(moved)) * neighbourhoods(edges).sqrt()
    }

    /// A bound of the constant of (q, k, v) ↦ y of dot products on a graph under this norm: per target as
    /// [`constant`](Self::constant) with one query.
    pub fn constant_on(&self, edges: &Pattern) -> Upper {
        let size = self.size_of(least_sources(edges), 1.0);
        self.beside(size) * neighbourhoods(edges).sqrt()
    }

    /// S: the largest ‖softmax(g)‖_F of scores with ‖g‖_(2,∞) ≤ α.
    fn size(&self, n: usize, m: usize) -> Option<Upper> {
        (n > 0).then(|| self.size_of(n as f64, m as f64))
    }

    /// At most √m, since the sum of a row is 1.
    fn size_of(&self, n: f64, m: f64) -> Upper {
        let spread = (m + self.alpha.sinh().powi(2)) / n;
        Upper::rounded(spread.min(m).sqrt(), 1e-13)
    }

    /// The constant of (Q, K, V) ↦ y from that of V ↦ y.
    fn beside(&self, size: Upper) -> Upper {
        let square = |factor: f64| self.times(factor.sqrt()).square();
        let plain = size.square() + square(5.5 + 2f64.sqrt());
        let values = (size + self.times(1.0)).square() + square(4.5);
        plain.max(values).sqrt()
    }

    fn times(&self, factor: f64) -> Upper {
        Upper::rounded(factor * self.alpha, 16.0 * f64::EPSILON)
    }
}

/// The number of inputs and of queries.
#[track_caller]
fn inputs_and_queries<F: Real>(g: Var<'_, F>, x: Var<'_, F>) -> [usize; 2] {
    let (scores, inputs) = (g.shape(), x.shape());
    let fit = scores.len() == 2 && inputs.len() == 2 && inputs[0] > 0 && scores[1] == inputs[0];
    assert!(
        fit,
        "LipschitzNorm: scores {scores:?} for inputs {inputs:?}: [m, n] and [n, d] with n > 0 are needed"
    );
    [scores[1], scores[0]]
}

/// max_j ‖x_j‖.
fn longest<F: Real>(x: Var<'_, F>) -> Var<'_, F> {
    x.norm(&[1], false).max_all()
}

/// The smallest number of sources of a target that has any.
fn least_sources(edges: &Pattern) -> f64 {
    let sizes = (0..edges.rows()).map(|i| edges.row(i).len());
    sizes.filter(|&n| n > 0).min().unwrap_or(1) as f64
}

/// The largest number of terms of one node: that of itself as a target, and those of the targets to which it
/// sends.
fn neighbourhoods(edges: &Pattern) -> Upper {
    let mut counts = vec![1usize; edges.cols().max(edges.rows())];
    for (&i, &j) in edges.rows_of().iter().zip(edges.indices()) {
        counts[j as usize] += usize::from(i != j);
    }
    Upper::new(counts.into_iter().max().unwrap_or(1) as f64)
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
        LipschitzNorm::constant(self, n, m)
    }
}
