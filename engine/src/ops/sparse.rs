//! Sparse matrices on the tape: a constant [`Pattern`] with differentiable values, one per entry or one per
//! entry and head.
//!
//! | letter | meaning |
//! |---|---|
//! | S | a sparse n × m matrix, its values `[nnz]`, or `[nnz, H]` for one matrix per head |
//! | x | a dense tensor `[m, d]`, with heads `[m, H, d]` |
//! | e | an entry, at row i(e) and column j(e) |
//!
//! The products are closed under differentiation: spmm ⇄ sddmm, gather ⇄ segment sum. A constant matrix never
//! becomes dense, and its own derivative is never computed.

mod matrix;

use crate::autodiff::{Kind, Var};
use crate::kernels::spmm as kernel;
use crate::real::Real;
use crate::sparse::Pattern;
use crate::tensor::contiguous;
use crate::tensor::memory::Buffer;
use std::sync::Arc;

pub use matrix::Sparse;

pub use super::segment::{
    gather_columns, gather_rows, segment_max, segment_mean, segment_softmax, segment_sum,
    segment_sum_columns,
};

/// y = S x: y_i = Σ_j s_ij x_j,   s̄ = [`sddmm`](ȳ, x),   x̄ = Sᵀ ȳ
///
/// Values `[nnz]` and x `[m, d]` give `[n, d]`; values `[nnz, H]` and x `[m, H, d]` give `[n, H, d]`, one
/// product per head.
///
/// ```
/// use emmy::{Tape, ops::sparse::spmm, sparse::Pattern, tensor::tensor};
/// // S = [[1, 2], [0, 3]]: the entry that is 0 is not stored.
/// let pattern = Pattern::from_pairs(2, 2, &[(0, 0), (0, 1), (1, 1)])?;
/// let tape = Tape::new();
/// let s = tape.var(vec![1.0_f64, 2.0, 3.0]);
/// let x = tape.var(tensor(&[2, 1], vec![1.0, 10.0]));
/// assert_eq!(spmm(&pattern, s, x).value(), tensor(&[2, 1], vec![21.0, 30.0]));
/// # Ok::<(), emmy::Error>(())
/// ```
///
/// # Panics
/// If the shapes do not fit.
#[track_caller]
pub fn spmm<'t, F: Real>(pattern: &Arc<Pattern>, s: Var<'t, F>, x: Var<'t, F>) -> Var<'t, F> {
    product("spmm", pattern, Orientation::Plain, s, x)
}

/// y = Sᵀ x: y_j = Σ_i s_ij x_i,   s̄ = [`sddmm`](x, ȳ),   x̄ = S ȳ
///
/// Values `[nnz]` and x `[n, d]` give `[m, d]`; values `[nnz, H]` and x `[n, H, d]` give `[m, H, d]`.
///
/// ```
/// use emmy::{Tape, ops::sparse::spmm_t, sparse::Pattern, tensor::tensor};
/// // S = [[1, 2], [0, 3]]
/// let pattern = Pattern::from_pairs(2, 2, &[(0, 0), (0, 1), (1, 1)])?;
/// let tape = Tape::new();
/// let s = tape.var(vec![1.0_f64, 2.0, 3.0]);
/// let x = tape.var(tensor(&[2, 1], vec![1.0, 10.0]));
/// assert_eq!(spmm_t(&pattern, s, x).value(), tensor(&[2, 1], vec![1.0, 32.0]));
/// # Ok::<(), emmy::Error>(())
/// ```
///
/// # Panics
/// If the shapes do not fit.
#[track_caller]
pub fn spmm_t<'t, F: Real>(pattern: &Arc<Pattern>, s: Var<'t, F>, x: Var<'t, F>) -> Var<'t, F> {
    product("spmm_t", pattern, Orientation::Transposed, s, x)
}

#[track_caller]
fn product<'t, F: Real>(
    op: &str,
    pattern: &Arc<Pattern>,
    orientation: Orientation,
    s: Var<'t, F>,
    x: Var<'t, F>,
) -> Var<'t, F> {
    let (heads, d, shape) = product_shape(op, pattern, orientation, s, x);
    let transposed = matches!(orientation, Orientation::Transposed);
    let y = with_slices(s, x, |s, x| match transposed {
        false => kernel::spmm(pattern, s, x, heads, d),
        true => kernel::spmm_t(pattern, s, x, heads, d),
    });
    let kind = Kind::SparseProduct {
        pattern: Arc::clone(pattern),
        transposed,
    };
    let (for_s, for_x) = (Arc::clone(pattern), Arc::clone(pattern));
    s.binary(
        kind,
        x,
        y.into_tensor(&shape),
        move |p| match transposed {
            false => sddmm(&for_s, p.gy(), p.b()),
            true => sddmm(&for_s, p.b(), p.gy()),
        },
        move |p| match transposed {
            false => spmm_t(&for_x, p.a(), p.gy()),
            true => spmm(&for_x, p.a(), p.gy()),
        },
    )
}

/// s = A Bᵀ at the entries of the pattern: s_e = ⟨a_i(e), b_j(e)⟩,   ā = S̄ b,   b̄ = S̄ᵀ a
///
/// a `[n, d]` and b `[m, d]` give `[nnz]`; a `[n, H, d]` and b `[m, H, d]` give `[nnz, H]`.
///
/// ```
/// use emmy::{Tape, ops::sparse::sddmm, sparse::Pattern, tensor::tensor};
/// // Three of the four products a_i · b_j.
/// let pattern = Pattern::from_pairs(2, 2, &[(0, 0), (0, 1), (1, 1)])?;
/// let tape = Tape::new();
/// let a = tape.var(tensor(&[2, 1], vec![1.0_f64, 2.0]));
/// let b = tape.var(tensor(&[2, 1], vec![10.0, 20.0]));
/// assert_eq!(sddmm(&pattern, a, b).value(), tensor(&[3], vec![10.0, 20.0, 40.0]));
/// # Ok::<(), emmy::Error>(())
/// ```
///
/// # Panics
/// If the shapes do not fit.
#[track_caller]
pub fn sddmm<'t, F: Real>(pattern: &Arc<Pattern>, a: Var<'t, F>, b: Var<'t, F>) -> Var<'t, F> {
    let (sa, sb) = (a.shape(), b.shape());
    let fits = matches!(sa.len(), 2 | 3)
        && sa[0] == pattern.rows()
        && sb.first() == Some(&pattern.cols())
        && sa[1..] == sb[1..];
    assert!(
        fits,
        "sddmm: {sa:?} and {sb:?} on a pattern of {:?}: rows and columns must match, and the rest be equal",
        pattern.shape()
    );
    let heads = if sa.len() == 3 { sa[1] } else { 1 };
    let d = sa[sa.len() - 1];
    let shape = [&[pattern.nnz()], &sa[1..sa.len() - 1]].concat();
    let s = with_slices(a, b, |a, b| kernel::sddmm(pattern, a, b, heads, d));
    let (for_a, for_b) = (Arc::clone(pattern), Arc::clone(pattern));
    a.binary(
        Kind::SampledProduct(Arc::clone(pattern)),
        b,
        s.into_tensor(&shape),
        move |p| spmm(&for_a, p.gy(), p.b()),
        move |p| spmm_t(&for_b, p.gy(), p.a()),
    )
}

/// s_e = a_i(e) + b_j(e): the additive counterpart of [`sddmm`], for a `[n, ..]` and b `[m, ..]`
///
/// ```
/// use emmy::{Tape, ops::sparse::sddmm_add, sparse::Pattern, tensor::tensor};
/// let pattern = Pattern::from_pairs(2, 2, &[(0, 0), (0, 1), (1, 1)])?;
/// let tape = Tape::new();
/// let (a, b) = (tape.var(vec![1.0_f64, 2.0]), tape.var(vec![10.0, 20.0]));
/// assert_eq!(sddmm_add(&pattern, a, b).value(), tensor(&[3], vec![11.0, 21.0, 22.0]));
/// # Ok::<(), emmy::Error>(())
/// ```
///
/// # Panics
/// If the shapes do not fit.
#[track_caller]
pub fn sddmm_add<'t, F: Real>(pattern: &Arc<Pattern>, a: Var<'t, F>, b: Var<'t, F>) -> Var<'t, F> {
    a.tape().accept("sddmm_add", &[b]);
    let (sa, sb) = (a.shape(), b.shape());
    assert!(
        sa.first() == Some(&pattern.rows())
            && sb.first() == Some(&pattern.cols())
            && sa[1..] == sb[1..],
        "sddmm_add: {sa:?} and {sb:?} on a pattern of {:?}: rows and columns must match, and the rest be equal",
        pattern.shape()
    );
    gather_rows(pattern, a) + gather_columns(pattern, b)
}

fn with_slices<F: Real>(
    a: Var<'_, F>,
    b: Var<'_, F>,
    kernel: impl FnOnce(&[F], &[F]) -> Buffer<F>,
) -> Buffer<F> {
    let (a, b) = (contiguous(&a.value()), contiguous(&b.value()));
    kernel(
        a.as_slice().expect("contiguous"),
        b.as_slice().expect("contiguous"),
    )
}

/// Whether S or Sᵀ is multiplied.
#[derive(Clone, Copy)]
pub(super) enum Orientation {
    Plain,
    Transposed,
}

/// Heads, width and output shape of a product of a sparse matrix or its transpose.
#[track_caller]
pub(super) fn product_shape<F: Real>(
    op: &str,
    pattern: &Pattern,
    orientation: Orientation,
    s: Var<'_, F>,
    x: Var<'_, F>,
) -> (usize, usize, Vec<usize>) {
    s.tape().accept(op, &[x]);
    let (to, from) = match orientation {
        Orientation::Plain => pattern.shape(),
        Orientation::Transposed => (pattern.cols(), pattern.rows()),
    };
    let (ss, sx, nnz) = (s.shape(), x.shape(), pattern.nnz());
    let heads = if ss.len() == 2 { ss[1] } else { 1 };
    let fits = match sx[..] {
        [n, _] => ss == [nnz] && n == from,
        [n, h, _] => ss == [nnz, h] && n == from,
        _ => false,
    };
    assert!(
        fits,
        "{op}: values {ss:?} and x {sx:?}: they must be [{nnz}] and [{from}, d], or [{nnz}, H] and [{from}, H, d]"
    );
    let mut shape = sx.clone();
    shape[0] = to;
    (heads, sx[sx.len() - 1], shape)
}
