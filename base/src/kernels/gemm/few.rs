//! Products of a few rows with a factor that is read as it lies in memory. Copying the factor into panels
//! would take several times as long as the product.
//!
//! Where the factor lies in columns, an element is the inner product of a row and a column, both without
//! gaps. Terms p, p + 16, p + 32, … are added in order by fused multiply-adds, for p = 0..16, and then the
//! sixteen sums by halves. Where it lies in rows, the rows are multiplied by many columns at once, with the
//! sums of `micro.rs`. So the bits of an element depend neither on the width of the vectors nor on the
//! number of threads.

use super::WHOLE;
use super::micro::{INNER, add_term, write};
use crate::kernels::{LANES, copy_few, dispatch, fold, padded, par};
use crate::real::Real;
use crate::tensor::memory::{self, Buffer};
use ndarray::ArrayView2;
use pulp::{Simd, WithSimd};

/// The most rows. With more, copying the factor into panels pays.
const ROWS: usize = 4;

/// The fewest terms where the factor lies in columns: shorter sums are over before the sixteen are added.
const TERMS: usize = 64;

/// Columns whose inner products are computed at once, so that no sum waits for itself.
const COLUMNS: usize = 4;

/// out ← a b for one to four rows, if the columns of b have no gaps and at least [`TERMS`] terms, or if the
/// rows of b have no gaps and at least [`LANES`] elements and the product is small. Returns whether it was
/// computed; if not, `out` stays as it is.
pub(super) fn product<F: Real>(a: ArrayView2<F>, b: ArrayView2<F>, out: &mut [F]) -> bool {
    let ((m, k), n) = (a.dim(), b.ncols());
    if !(1..=ROWS).contains(&m) {
        return false;
    }
    let mut space = Buffer::default();
    if k >= TERMS
        && let Some(columns) = b.reversed_axes().to_slice()
    {
        by_columns(without_gaps(a, &mut space), columns, m, out);
        return true;
    }
    // Threads share a larger product.
    if k > 0
        && n >= LANES
        && let Some(lines) = b.to_slice()
        && m * lines.len() < WHOLE
    {
        let rows = without_gaps(a, &mut space);
        dispatch(ByRows {
            rows,
            lines,
            n,
            out,
        });
        return true;
    }
    false
}

/// The rows one after the other, copied to `space` if they lie otherwise.
fn without_gaps<'a, F: Real>(a: ArrayView2<'a, F>, space: &'a mut Buffer<F>) -> &'a [F] {
    a.to_slice().unwrap_or_else(|| {
        *space = memory::scratch(a.len());
        space.iter_mut().zip(&a).for_each(|(out, &x)| *out = x);
        space
    })
}

/// The product of m rows with columns.
fn by_columns<F: Real>(rows: &[F], columns: &[F], m: usize, out: &mut [F]) {
    let (k, n) = (rows.len() / m, out.len() / m);
    let mut turned = Buffer::default();
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
    if m > 1 && n > 0 {
        for (r, row) in out.chunks_exact_mut(n).enumerate() {
            for (out, column) in row.iter_mut().zip(turned.chunks_exact(m)) {
                *out = column[r];
            }
        }
    }
}

/// The product of some rows with a factor that lies in rows of `n` elements.
struct ByRows<'a, F> {
    rows: &'a [F],
    lines: &'a [F],
    n: usize,
    out: &'a mut [F],
}

impl<F: Real> WithSimd for ByRows<'_, F> {
    type Output = ();

    /// The registers hold the sums of so many rows and vectors of columns. With fewer sums each addition
    /// would wait for the one before it.
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match (self.out.len() / self.n, S::F32_LANES) {
            (1, _) => self.run::<S, 1, 8>(simd),
            (2, 16) => self.run::<S, 2, 8>(simd),
            (3, 16) => self.run::<S, 3, 6>(simd),
            (_, 16) => self.run::<S, 4, 6>(simd),
            (3, _) => self.run::<S, 3, 3>(simd),
            _ => self.run::<S, 2, 4>(simd),
        }
    }
}

impl<F: Real> ByRows<'_, F> {
    /// The product, M rows and V vectors of columns at a time; the number of rows is a multiple of M.
    #[inline(always)]
    fn run<S: Simd, const M: usize, const V: usize>(self, simd: S) {
        let (lanes, n) = (F::lanes::<S>(), self.n);
        let k = self.lines.len() / n;
        let rows = self.rows.chunks_exact(M * k);
        for (rows, out) in rows.zip(self.out.chunks_exact_mut(M * n)) {
            let mut j = 0;
            while n - j >= V * lanes {
                columns::<F, S, M, V>(simd, rows, self.lines, n, out, j);
                j += V * lanes;
            }
            if n - j >= 4 * lanes {
                columns::<F, S, M, 4>(simd, rows, self.lines, n, out, j);
                j += 4 * lanes;
            }
            if n - j >= 2 * lanes {
                columns::<F, S, M, 2>(simd, rows, self.lines, n, out, j);
                j += 2 * lanes;
            }
            if n - j >= lanes {
                columns::<F, S, M, 1>(simd, rows, self.lines, n, out, j);
                j += lanes;
            }
            // Less than a vector is left: the last vector has some columns once more.
            if j < n {
                columns::<F, S, M, 1>(simd, rows, self.lines, n, out, n - lanes);
            }
        }
    }
}

/// The elements of M rows and V vectors of columns, from column j on.
#[inline(always)]
fn columns<F: Real, S: Simd, const M: usize, const V: usize>(
    simd: S,
    rows: &[F],
    lines: &[F],
    n: usize,
    out: &mut [F],
    j: usize,
) {
    let (k, width) = (rows.len() / M, V * F::lanes::<S>());
    for first in (0..k).step_by(INNER) {
        let lines = &lines[first * n + j..];
        let mut terms = [&[][..]; M];
        for r in 0..M {
            terms[r] = &rows[r * k..][first..k.min(first + INNER)];
        }
        let mut sums = [[F::splat(simd, F::zero()); V]; M];
        for p in 0..terms[0].len() {
            let line = F::vectors::<S>(&lines[p * n..][..width]);
            let line = line.first_chunk().expect("as many vectors");
            add_term(simd, &mut sums, line, |r| terms[r][p]);
        }
        write(simd, sums, (&mut out[j..], n, first > 0));
    }
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
