//! Products of a few rows with a factor that lies in columns: an element is the inner product of a row and a
//! column, both without gaps. Copying the factor into panels would take several times as long as the product.
//!
//! Terms p, p + 16, p + 32, … are added in order by fused multiply-adds, for p = 0..16, and then the sixteen
//! sums by halves. So the bits of an element depend neither on the width of the vectors nor on the number of
//! threads.

use crate::kernels::{LANES, copy_few, dispatch, fold, padded, par};
use crate::real::Real;
use crate::tensor::memory::{self, Buffer};
use ndarray::ArrayView2;
use pulp::{Simd, WithSimd};

/// The most rows: of more, each row of a panel serves enough of them.
const ROWS: usize = 4;

/// The fewest terms: shorter sums are over before the sixteen are added.
const TERMS: usize = 64;

/// Columns whose sums are computed at once, so that no sum waits for itself.
const COLUMNS: usize = 4;

/// out ← a b, for so few rows and so many terms, where the columns of b follow one another without gaps.
/// Returns whether that is so; if not, `out` stays as it is.
pub(super) fn product<F: Real>(a: ArrayView2<F>, b: ArrayView2<F>, out: &mut [F]) -> bool {
    let (m, k) = a.dim();
    if m == 0 || m > ROWS || k < TERMS {
        return false;
    }
    let Some(columns) = b.reversed_axes().to_slice() else {
        return false;
    };
    let (mut space, mut turned) = (Buffer::default(), Buffer::default());
    let rows = a.to_slice().unwrap_or_else(|| {
        space = memory::scratch(m * k);
        space.iter_mut().zip(&a).for_each(|(out, &x)| *out = x);
        &space
    });
    let by_column = if m == 1 {
        &mut *out
    } else {
        turned = memory::scratch(out.len());
        &mut turned
    };
    par::rows(by_column, m, m * k, |first, out| {
        let columns = &columns[first * k..][..out.len() / m * k];
        dispatch(Part {
            rows,
            columns,
            k,
            out,
        });
    });
    if m > 1 && b.ncols() > 0 {
        for (r, row) in out.chunks_exact_mut(b.ncols()).enumerate() {
            for (out, column) in row.iter_mut().zip(turned.chunks_exact(m)) {
                *out = column[r];
            }
        }
    }
    true
}

/// Inner products of all rows with some columns, one column after the other.
struct Part<'a, F> {
    rows: &'a [F],
    columns: &'a [F],
    k: usize,
    out: &'a mut [F],
}

impl<F: Real> WithSimd for Part<'_, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        // Vectors that hold sixteen numbers.
        match F::lanes::<S>() {
            16 => self.run::<S, 1>(simd),
            8 => self.run::<S, 2>(simd),
            4 => self.run::<S, 4>(simd),
            2 => self.run::<S, 8>(simd),
            _ => self.run::<S, 16>(simd),
        }
    }
}

impl<F: Real> Part<'_, F> {
    #[inline(always)]
    fn run<S: Simd, const V: usize>(self, simd: S) {
        let Self {
            rows,
            columns,
            k,
            out,
        } = self;
        let (m, n) = (rows.len() / k, columns.len() / k);
        for number in 0..n.div_ceil(COLUMNS) {
            let first = number * COLUMNS;
            // At the end, the last column takes the places left over.
            let mut group = [&columns[..k]; COLUMNS];
            for c in 0..COLUMNS {
                group[c] = &columns[(first + c).min(n - 1) * k..][..k];
            }
            for r in 0..m {
                let sums = inner_products::<F, S, V>(simd, &rows[r * k..][..k], group);
                for c in 0..COLUMNS.min(n - first) {
                    out[(first + c) * m + r] = sums[c];
                }
            }
        }
    }
}

/// The inner products of one row with columns of the same length.
#[inline(always)]
fn inner_products<F: Real, S: Simd, const V: usize>(
    simd: S,
    row: &[F],
    columns: [&[F]; COLUMNS],
) -> [F; COLUMNS] {
    let mut sums = [[F::splat(simd, F::zero()); V]; COLUMNS];
    let (x, x_rest) = row.as_chunks::<LANES>();
    let (mut ys, mut y_rests) = ([&[][..]; COLUMNS], [&[][..]; COLUMNS]);
    for c in 0..COLUMNS {
        let (y, rest) = columns[c].as_chunks::<LANES>();
        (ys[c], y_rests[c]) = (&y[..x.len()], rest);
    }
    for p in 0..x.len() {
        for c in 0..COLUMNS {
            add_products::<F, S, V>(simd, &x[p], &ys[c][p], &mut sums[c]);
        }
    }
    if !x_rest.is_empty() {
        let x = padded(x_rest);
        for c in 0..COLUMNS {
            add_products::<F, S, V>(simd, &x, &padded(y_rests[c]), &mut sums[c]);
        }
    }
    let mut out = [F::zero(); COLUMNS];
    for c in 0..COLUMNS {
        let mut lanes = [F::zero(); LANES];
        copy_few(&sums[c], F::vectors_mut::<S>(&mut lanes));
        out[c] = fold(lanes);
    }
    out
}

/// sums ← sums + x ⊙ y.
#[inline(always)]
fn add_products<F: Real, S: Simd, const V: usize>(
    simd: S,
    x: &[F; LANES],
    y: &[F; LANES],
    sums: &mut [F::Vector<S>; V],
) {
    let (x, y) = (F::vectors::<S>(x), F::vectors::<S>(y));
    for v in 0..V {
        sums[v] = F::multiply_add(simd, x[v], y[v], sums[v]);
    }
}
