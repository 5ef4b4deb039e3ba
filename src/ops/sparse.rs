//! Sparse matrices on the tape: a constant [`Pattern`] with differentiable values, one an entry or one an entry and head.
//!
//! | letter | meaning |
//! |---|---|
//! | S | a sparse n × m matrix, its values `[nnz]`, or `[nnz, H]` for one matrix a head |
//! | x | a dense tensor `[m, d]`, with heads `[m, H, d]` |
//! | e | an entry, at row i(e) and column j(e) |
//!
//! The products are closed under differentiation: spmm ⇄ sddmm, gather ⇄ segment sum. A constant matrix never becomes dense, and
//! its own derivative is never computed.

use crate::autodiff::{Tape, Var};
use crate::kernels::{map, segment, spmm as kernel};
use crate::real::Real;
use crate::sparse::{Csr, Pattern};
use crate::tensor::{Tensor, contiguous, tensor};
use std::sync::Arc;

/// A sparse matrix on the tape.
#[derive(Clone, Debug)]
pub struct Sparse<'t, F: Real> {
    /// Which entries exist.
    pub pattern: Arc<Pattern>,
    /// Their values, shape `[nnz]` or `[nnz, H]`.
    pub values: Var<'t, F>,
}

impl<F: Real> Tape<F> {
    /// A constant sparse matrix: a leaf that is multiplied without being made dense.
    pub fn sparse(&self, matrix: &Csr<F>) -> Sparse<'_, F> {
        Sparse::new(&matrix.pattern, self.constant(matrix.values.clone()))
    }
}

impl<'t, F: Real> Sparse<'t, F> {
    /// A matrix of a pattern and values, shape `[nnz]` or `[nnz, H]`.
    ///
    /// # Panics
    /// If there is not one value (one row of values) an entry.
    #[track_caller]
    pub fn new(pattern: &Arc<Pattern>, values: Var<'t, F>) -> Self {
        let shape = values.shape();
        assert!(
            matches!(shape.len(), 1 | 2) && shape[0] == pattern.nnz(),
            "sparse: {} entries need values of shape [nnz] or [nnz, H], not {shape:?}",
            pattern.nnz()
        );
        Self {
            pattern: Arc::clone(pattern),
            values,
        }
    }

    /// S x; see [`spmm`].
    ///
    /// # Panics
    /// If the shapes do not fit.
    #[track_caller]
    pub fn matmul(&self, x: Var<'t, F>) -> Var<'t, F> {
        spmm(&self.pattern, self.values, x)
    }

    /// Sᵀ x; see [`spmm_t`].
    ///
    /// # Panics
    /// If the shapes do not fit.
    #[track_caller]
    pub fn t_matmul(&self, x: Var<'t, F>) -> Var<'t, F> {
        spmm_t(&self.pattern, self.values, x)
    }

    /// y = S Wᵀ for a dense weight `[out, m]`: sparse features through a layer, `[n, out]`.
    ///
    /// # Panics
    /// If the shapes do not fit, or the matrix has heads.
    #[track_caller]
    pub fn linear(&self, w: Var<'t, F>) -> Var<'t, F> {
        self.matmul(w.t())
    }

    /// Sᵀ, its entries in the order of the transposed pattern.
    pub fn t(&self) -> Self {
        let transposed = self.pattern.transposed();
        let order: Vec<usize> = transposed.entry.iter().map(|&e| e as usize).collect();
        Self::new(&transposed.pattern, self.values.index_select(0, order))
    }

    /// The sum of each row, shape `[n]` or `[n, H]`.
    pub fn row_sums(&self) -> Var<'t, F> {
        segment_sum(&self.pattern, self.values)
    }

    /// The sum of each column, shape `[m]` or `[m, H]`.
    pub fn column_sums(&self) -> Var<'t, F> {
        segment_sum_columns(&self.pattern, self.values)
    }

    /// The softmax of each row over its entries.
    pub fn softmax(&self) -> Self {
        Self::new(&self.pattern, segment_softmax(&self.pattern, self.values))
    }

    /// The matrix with its zeros written out, shape `[n, m]` or `[n, m, H]`.
    pub fn to_dense(&self) -> Var<'t, F> {
        let (n, m) = self.pattern.shape();
        let entries = self.pattern.rows_of().iter().zip(self.pattern.indices());
        let places: Vec<usize> = entries
            .map(|(&i, &j)| i as usize * m + j as usize)
            .collect();
        let mut shape = self.values.shape();
        shape.splice(0..1, [n, m]);
        self.values.index_add(0, places, n * m).reshape(&shape)
    }
}

/// y = S x: y_i = Σ_j s_ij x_j,   s̄ = [`sddmm`](ȳ, x),   x̄ = Sᵀ ȳ
///
/// Values `[nnz]` and x `[m, d]` give `[n, d]`; values `[nnz, H]` and x `[m, H, d]` give `[n, H, d]`, one product a head.
///
/// # Panics
/// If the shapes do not fit.
#[track_caller]
pub fn spmm<'t, F: Real>(pattern: &Arc<Pattern>, s: Var<'t, F>, x: Var<'t, F>) -> Var<'t, F> {
    let (heads, d, shape) = product_shape("spmm", pattern.rows(), pattern.cols(), &s, &x);
    let (for_s, for_x) = (Arc::clone(pattern), Arc::clone(pattern));
    s.binary(
        "spmm",
        x,
        |s, x| {
            with_slices(s, x, |s, x| {
                tensor(&shape, kernel::spmm(pattern, s, x, heads, d))
            })
        },
        move |p| sddmm(&for_s, p.gy(), p.b()),
        move |p| spmm_t(&for_x, p.a(), p.gy()),
    )
}

/// y = Sᵀ x: y_j = Σ_i s_ij x_i,   s̄ = [`sddmm`](x, ȳ),   x̄ = S ȳ
///
/// Values `[nnz]` and x `[n, d]` give `[m, d]`; values `[nnz, H]` and x `[n, H, d]` give `[m, H, d]`.
///
/// # Panics
/// If the shapes do not fit.
#[track_caller]
pub fn spmm_t<'t, F: Real>(pattern: &Arc<Pattern>, s: Var<'t, F>, x: Var<'t, F>) -> Var<'t, F> {
    let (heads, d, shape) = product_shape("spmm_t", pattern.cols(), pattern.rows(), &s, &x);
    let (for_s, for_x) = (Arc::clone(pattern), Arc::clone(pattern));
    s.binary(
        "spmm_t",
        x,
        |s, x| {
            with_slices(s, x, |s, x| {
                tensor(&shape, kernel::spmm_t(pattern, s, x, heads, d))
            })
        },
        move |p| sddmm(&for_s, p.b(), p.gy()),
        move |p| spmm(&for_x, p.a(), p.gy()),
    )
}

/// s = A Bᵀ at the entries of the pattern: s_e = ⟨a_i(e), b_j(e)⟩,   ā = S̄ b,   b̄ = S̄ᵀ a
///
/// a `[n, d]` and b `[m, d]` give `[nnz]`; a `[n, H, d]` and b `[m, H, d]` give `[nnz, H]`.
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
    let (for_a, for_b) = (Arc::clone(pattern), Arc::clone(pattern));
    a.binary(
        "sddmm",
        b,
        |a, b| {
            with_slices(a, b, |a, b| {
                tensor(&shape, kernel::sddmm(pattern, a, b, heads, d))
            })
        },
        move |p| spmm(&for_a, p.gy(), p.b()),
        move |p| spmm_t(&for_b, p.gy(), p.a()),
    )
}

/// s_e = a_i(e) + b_j(e): the additive counterpart of [`sddmm`], for a `[n, ..]` and b `[m, ..]`
///
/// # Panics
/// If the shapes do not fit.
#[track_caller]
pub fn sddmm_add<'t, F: Real>(pattern: &Arc<Pattern>, a: Var<'t, F>, b: Var<'t, F>) -> Var<'t, F> {
    gather_rows(pattern, a) + gather_columns(pattern, b)
}

/// y_e = x_i(e): x `[n, ..]` at the row of every entry, `[nnz, ..]`,   x̄ = ȳ summed over each row
///
/// # Panics
/// If x has not one row a row of the pattern.
#[track_caller]
pub fn gather_rows<'t, F: Real>(pattern: &Arc<Pattern>, x: Var<'t, F>) -> Var<'t, F> {
    let kernel = segment::gather_rows;
    per_row(
        "gather_rows",
        pattern,
        x,
        pattern.rows(),
        pattern.nnz(),
        kernel,
        segment_sum,
    )
}

/// y_e = x_j(e): x `[m, ..]` at the column of every entry, `[nnz, ..]`,   x̄ = ȳ summed over each column
///
/// # Panics
/// If x has not one row a column of the pattern.
#[track_caller]
pub fn gather_columns<'t, F: Real>(pattern: &Arc<Pattern>, x: Var<'t, F>) -> Var<'t, F> {
    let kernel = segment::gather_cols;
    per_row(
        "gather_columns",
        pattern,
        x,
        pattern.cols(),
        pattern.nnz(),
        kernel,
        segment_sum_columns,
    )
}

/// y_i = Σ v_e over the entries e of row i: v `[nnz, ..]` → `[n, ..]`,   v̄_e = ȳ_i(e)
///
/// # Panics
/// If v has not one row an entry.
#[track_caller]
pub fn segment_sum<'t, F: Real>(pattern: &Arc<Pattern>, v: Var<'t, F>) -> Var<'t, F> {
    let kernel = segment::segment_sum;
    per_row(
        "segment_sum",
        pattern,
        v,
        pattern.nnz(),
        pattern.rows(),
        kernel,
        gather_rows,
    )
}

/// y_j = Σ v_e over the entries e of column j: v `[nnz, ..]` → `[m, ..]`,   v̄_e = ȳ_j(e)
///
/// # Panics
/// If v has not one row an entry.
#[track_caller]
pub fn segment_sum_columns<'t, F: Real>(pattern: &Arc<Pattern>, v: Var<'t, F>) -> Var<'t, F> {
    let kernel = segment::segment_sum_t;
    per_row(
        "segment_sum_columns",
        pattern,
        v,
        pattern.nnz(),
        pattern.cols(),
        kernel,
        gather_columns,
    )
}

/// y_i = the mean of v_e over the entries of row i, 0 for a row without entries: v `[nnz, ..]` → `[n, ..]`
///
/// # Panics
/// If v has not one row an entry.
#[track_caller]
pub fn segment_mean<'t, F: Real>(pattern: &Arc<Pattern>, v: Var<'t, F>) -> Var<'t, F> {
    let total = segment_sum(pattern, v);
    let starts = pattern.indptr().windows(2);
    let weights = starts.map(|w| F::of((w[1] - w[0]).max(1) as f64).recip());
    let mut shape = vec![1; total.ndim()];
    shape[0] = pattern.rows();
    total * v.tape().constant(tensor(&shape, weights.collect()))
}

/// y_i = max v_e over the entries of row i, 0 for a row without entries: v `[nnz, ..]` → `[n, ..]`;   ȳ goes to the largest entries, in
/// equal shares where several are
///
/// # Panics
/// If v has not one row an entry.
#[track_caller]
pub fn segment_max<'t, F: Real>(pattern: &Arc<Pattern>, v: Var<'t, F>) -> Var<'t, F> {
    let (shape, width) = trailing("segment_max", v, pattern.nnz(), pattern.rows());
    let again = Arc::clone(pattern);
    v.unary(
        "segment_max",
        |v| {
            apply(v, &shape, |v| {
                let mut y = segment::segment_max(pattern, v, width);
                for i in (0..pattern.rows()).filter(|&i| pattern.row(i).is_empty()) {
                    y[i * width..(i + 1) * width].fill(F::zero());
                }
                y
            })
        },
        move |p| {
            let (v, y) = (p.x().detach(), p.y().detach());
            let at_entries = gather_rows(&again, y).value();
            let hit = map::binary("segment_max", &v.value(), &at_entries, |v, y| {
                F::of(f64::from(v == y))
            });
            let hit = p.tape.constant(hit);
            let share = hit / gather_rows(&again, segment_sum(&again, hit));
            gather_rows(&again, p.gy()) * share
        },
    )
}

/// y_e = e^(v_e) / Σ e^(v_e') over the entries of the same row: v `[nnz, ..]`,   v̄ = y ⊙ (ȳ − Σ_row ȳ y)
///
/// # Panics
/// If v has not one row an entry.
#[track_caller]
pub fn segment_softmax<'t, F: Real>(pattern: &Arc<Pattern>, v: Var<'t, F>) -> Var<'t, F> {
    let (shape, width) = trailing("segment_softmax", v, pattern.nnz(), pattern.nnz());
    let again = Arc::clone(pattern);
    v.unary(
        "segment_softmax",
        |v| apply(v, &shape, |v| segment::segment_softmax(pattern, v, width)),
        move |p| {
            let weighted = p.gy() * p.y();
            weighted - p.y() * gather_rows(&again, segment_sum(&again, weighted))
        },
    )
}

/// Records one of the linear maps between rows (or columns) and entries; `adjoint` is its adjoint.
#[track_caller]
fn per_row<'t, F: Real>(
    op: &'static str,
    pattern: &Arc<Pattern>,
    x: Var<'t, F>,
    from: usize,
    to: usize,
    kernel: fn(&Pattern, &[F], usize) -> Vec<F>,
    adjoint: for<'a> fn(&Arc<Pattern>, Var<'a, F>) -> Var<'a, F>,
) -> Var<'t, F> {
    let (shape, width) = trailing(op, x, from, to);
    let again = Arc::clone(pattern);
    x.unary(
        op,
        |x| apply(x, &shape, |x| kernel(pattern, x, width)),
        move |p| adjoint(&again, p.gy()),
    )
}

/// The shape of x with `to` in place of `from` in front, and the number of elements behind the first axis.
#[track_caller]
fn trailing<F: Real>(op: &str, x: Var<'_, F>, from: usize, to: usize) -> (Vec<usize>, usize) {
    let mut shape = x.shape();
    assert!(
        shape.first() == Some(&from),
        "{op}: the first axis of {shape:?} must have size {from}"
    );
    shape[0] = to;
    let width = shape[1..].iter().product();
    (shape, width)
}

fn apply<F: Real>(
    x: &Tensor<F>,
    shape: &[usize],
    kernel: impl FnOnce(&[F]) -> Vec<F>,
) -> Tensor<F> {
    let x = contiguous(x);
    tensor(shape, kernel(x.as_slice().expect("contiguous")))
}

fn with_slices<F: Real>(
    a: &Tensor<F>,
    b: &Tensor<F>,
    kernel: impl FnOnce(&[F], &[F]) -> Tensor<F>,
) -> Tensor<F> {
    let (a, b) = (contiguous(a), contiguous(b));
    kernel(
        a.as_slice().expect("contiguous"),
        b.as_slice().expect("contiguous"),
    )
}

/// Heads, width and output shape of a product of a sparse matrix that maps `from` rows to `to` rows.
#[track_caller]
fn product_shape<F: Real>(
    op: &str,
    to: usize,
    from: usize,
    s: &Var<'_, F>,
    x: &Var<'_, F>,
) -> (usize, usize, Vec<usize>) {
    let (ss, sx) = (s.shape(), x.shape());
    let heads = if ss.len() == 2 { ss[1] } else { 1 };
    let fits = match sx[..] {
        [n, _] => ss.len() == 1 && n == from,
        [n, h, _] => ss.len() == 2 && n == from && h == heads,
        _ => false,
    };
    assert!(
        fits,
        "{op}: values {ss:?} and x {sx:?}: x must be [{from}, d], or [{from}, H, d] where values are [nnz, H]"
    );
    let mut shape = sx.clone();
    shape[0] = to;
    (heads, sx[sx.len() - 1], shape)
}
