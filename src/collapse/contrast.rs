//! Contrastive losses: they pull rows that belong together close, and push all others apart.
//!
//! | letter | shape | meaning |
//! |---|---|---|
//! | h | `[n, d]` | rows; the losses of the paper are meant for rows of length 1 but do not require them |
//! | i⁺ | n numbers | the row that belongs to row i, its positive |
//! | τ | number | temperature |

use super::{sizes, unit_rows};
use crate::autodiff::Var;
use crate::ops::attention::{DenseAttention, Mask, Qkv};
use crate::real::Real;
use crate::sparse::Pattern;

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

/// Σ_i ln Σ_j exp(h_i·h_j/τ), Eq. (3), shape `[n, d]` → `[]`. Its derivative is (D⁻¹A + AD⁻¹)H/τ with A_ij =
/// exp(h_i·h_j/τ) and D its row sums, Eq. (5).
///
/// It lies between n ln n, its value for rows of zeros, and n (ln n + max‖h_i‖²/τ), its value for equal rows;
/// a smaller value means more uniform rows. No matrix of n × n is stored.
///
/// # Panics
/// If h is not a matrix, or τ is not positive.
#[track_caller]
pub fn uniformity<F: Real>(h: Var<'_, F>, tau: f64) -> Var<'_, F> {
    log_sums("uniformity", h, tau, true).sum_all()
}

/// The loss of SimCLR (Chen et al., "A Simple Framework for Contrastive Learning of Visual Representations",
/// ICML 2020, also called InfoNCE or NT-Xent; Appendix A): the mean of [`contrastive`] over the 2n rows of
/// both views, brought to length 1. Row i of one view is the positive of row i of the other. Shapes `[n, d]`,
/// twice, → `[]`.
///
/// # Panics
/// If the views are not matrices of the same shape, are on different tapes, or τ is not positive.
#[track_caller]
pub fn simclr<'t, F: Real>(a: Var<'t, F>, b: Var<'t, F>, tau: f64) -> Var<'t, F> {
    let [n, _] = same_shape("simclr", a, b);
    let rows = unit_rows(Var::concat(&[a, b], 0));
    let positives: Vec<usize> = (n..2 * n).chain(0..n).collect();
    contrastive(rows, &positives, tau).mean_all()
}

/// The sizes of two views.
#[track_caller]
pub(super) fn same_shape<F: Real>(op: &str, a: Var<'_, F>, b: Var<'_, F>) -> [usize; 2] {
    a.tape().accept(op, &[b]);
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
