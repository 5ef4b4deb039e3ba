//! Contrastive losses: they pull rows that belong together close, and push all others apart. Losses between
//! features: they make columns orthogonal.
//!
//! Guo, Wang, Du and Wang, "ContraNorm: A Contrastive Learning Perspective on Oversmoothing and Beyond",
//! ICLR 2023, explains ContraNorm by them, and trains with none. [`emmy::collapse::uniformity`] is the part
//! of them of which ContraNorm is a step.
//!
//! | letter | shape | meaning |
//! |---|---|---|
//! | h | `[n, d]` | rows; the losses of the paper are meant for rows of length 1 but do not require them |
//! | i⁺ | n numbers | the row that belongs to row i, its positive |
//! | τ | number | temperature |

use emmy::ndarray::Array2;
use emmy::ops::attention::{DenseAttention, Mask, Qkv};
use emmy::sparse::Pattern;
use emmy::{Real, Tensor, Var};

/// L(i, i⁺) = −ln( exp(h_i·h_{i⁺}/τ) / (Σ_k exp(h_i·h_k/τ) − exp(h_i·h_i/τ)) ), Eq. (1), one per row: `[n]`.
///
/// The sum is over k ≠ i, so the loss is [`alignment`] plus a logarithm that is smaller than
/// [`uniformity_by_row`]. The sum of Eq. (2) contains k = i too, so its split is not an identity.
///
/// # Panics
/// If h is not a matrix, there is not one positive per row, a positive is not another row, or τ is not
/// positive.
#[track_caller]
pub fn contrastive<'t, F: Real>(h: Var<'t, F>, positives: &[usize], tau: f64) -> Var<'t, F> {
    let op = "contrastive";
    let aligned = aligned(op, h, positives, tau);
    if let Some((i, _)) = positives.iter().enumerate().find(|&(i, &k)| i == k) {
        panic!("{op}: row {i} is its own positive, which the sum over the others leaves out");
    }
    aligned + log_sums(op, h, tau, false)
}

/// −h_i·h_{i⁺}/τ, Eq. (2), one per row: `[n]`.
///
/// # Panics
/// If h is not a matrix, there is not one positive per row, a positive is not a row, or τ is not positive.
#[track_caller]
pub fn alignment<'t, F: Real>(h: Var<'t, F>, positives: &[usize], tau: f64) -> Var<'t, F> {
    aligned("alignment", h, positives, tau)
}

/// ln Σ_k exp(h_i·h_k/τ), Eq. (2), one per row: `[n]`; the sum contains k = i.
///
/// Scores are computed tile by tile, for the derivative too, so no matrix of n × n is stored
/// ([`DenseAttention::log_sum_exp`]).
///
/// # Panics
/// If h is not a matrix, or τ is not positive.
#[track_caller]
pub fn uniformity_by_row<F: Real>(h: Var<'_, F>, tau: f64) -> Var<'_, F> {
    log_sums("uniformity_by_row", h, tau, true)
}

/// The loss of SimCLR (Chen et al., "A Simple Framework for Contrastive Learning of Visual Representations",
/// ICML 2020, also called InfoNCE or NT-Xent; Appendix A): the mean of [`contrastive`] over the 2n rows of
/// both views, brought to length 1. Row i of one view is the positive of row i of the other. Shapes `[n, d]`,
/// twice, → `[]`.
///
/// # Panics
/// If the views are not matrices of the same shape, or τ is not positive.
#[track_caller]
pub fn simclr<'t, F: Real>(a: Var<'t, F>, b: Var<'t, F>, tau: f64) -> Var<'t, F> {
    let [n, _] = same_shape("simclr", a, b);
    let rows = directions(Var::concat(&[a, b], 0), -1);
    let positives: Vec<usize> = (n..2 * n).chain(0..n).collect();
    contrastive(rows, &positives, tau).mean_all()
}

/// The sizes of two views.
#[track_caller]
fn same_shape<F: Real>(op: &str, a: Var<'_, F>, b: Var<'_, F>) -> [usize; 2] {
    let (left, right) = (a.shape(), b.shape());
    assert!(
        left == right,
        "{op}: views of shapes {left:?} and {right:?}: they must be equal"
    );
    sizes(op, &left)
}

#[track_caller]
fn aligned<'t, F: Real>(op: &str, h: Var<'t, F>, positives: &[usize], tau: f64) -> Var<'t, F> {
    let [n, _] = sizes(op, &h.shape());
    let fits = positives.len() == n && positives.iter().all(|&k| k < n);
    assert!(
        fits,
        "{op}: {n} rows need {n} positives below {n}, not {positives:?}"
    );
    let inverse = inverse(op, tau);
    let products = h * h.index_select(0, positives);
    -products.sum(&[1], false).scale(F::of(inverse))
}

/// ln Σ_k exp(h_i·h_k/τ) over all k, or over k ≠ i.
#[track_caller]
fn log_sums<'t, F: Real>(op: &'static str, h: Var<'t, F>, tau: f64, own: bool) -> Var<'t, F> {
    let [n, _] = sizes(op, &h.shape());
    let itself = || {
        let pairs: Vec<_> = (0..n).map(|i| (i, i)).collect();
        Pattern::from_pairs(n, n, &pairs).expect("one entry per row")
    };
    let attention = DenseAttention {
        scale: inverse(op, tau),
        mask: if own {
            Mask::none()
        } else {
            Mask::all_but(itself())
        },
        dropout: None,
    };
    let one_head = h.unsqueeze(-2);
    let all = Qkv::new(one_head, one_head, one_head);
    attention.log_sum_exp(all).reshape(&[n])
}

/// 1/τ.
#[track_caller]
fn inverse(op: &str, tau: f64) -> f64 {
    assert!(
        tau > 0.0 && tau.is_finite(),
        "{op}: the temperature must be positive, not {tau}"
    );
    tau.recip()
}

/// C_ij = Σ_b a_bi b_bj / (√Σ_b a_bi² √Σ_b b_bj²), the correlation below Eq. (29), shapes `[n, d]`, twice, →
/// `[d, d]`. Features are not centred. A feature that is 0 everywhere has the correlation 0.
///
/// Zbontar et al., "Barlow Twins: Self-Supervised Learning via Redundancy Reduction", ICML 2021, whose code
/// centres the features and divides by their standard deviation: to get the same, centre both views.
///
/// # Panics
/// If the views are not matrices of the same shape.
#[track_caller]
pub fn cross_correlation<'t, F: Real>(a: Var<'t, F>, b: Var<'t, F>) -> Var<'t, F> {
    same_shape("cross_correlation", a, b);
    let [a, b] = [a, b].map(|x| directions(x, 0));
    a.t().matmul(b)
}

/// Σ_i (1 − C_ii)² + λ Σ_i Σ_{j≠i} C_ij², Eq. (29), of [`cross_correlation`], → `[]`.
///
/// # Panics
/// If the views are not matrices of the same shape.
#[track_caller]
pub fn barlow_twins<'t, F: Real>(a: Var<'t, F>, b: Var<'t, F>, lambda: f64) -> Var<'t, F> {
    let [_, d] = same_shape("barlow_twins", a, b);
    let c = cross_correlation(a, b);
    let one = identity::<F>(d);
    let weights = one.mapv(|x| F::of(lambda) + x * F::of(1.0 - lambda));
    let tape = a.tape();
    let gaps = (tape.constant(one) - c).square();
    (gaps * tape.constant(weights.into_shared())).sum_all()
}

fn identity<F: Real>(n: usize) -> Tensor<F> {
    Array2::eye(n).into_dyn().into_shared()
}

/// The sizes of a matrix.
#[track_caller]
pub(crate) fn sizes(op: &str, shape: &[usize]) -> [usize; 2] {
    let &[n, d] = shape else {
        panic!("{op}: x must be a matrix [n, d], not {shape:?}")
    };
    [n, d]
}

/// x divided by its norms along an axis; zeros stay, and their derivative is 0.
pub(crate) fn directions<F: Real>(x: Var<'_, F>, axis: isize) -> Var<'_, F> {
    let size = x.norm(&[axis], true);
    let none = size.value().mapv(|s| F::of(f64::from(s == F::zero())));
    let none = x.tape().constant(none);
    (x - x * none) / (size + none)
}
