//! The proof: P(Λ, τ) is positive definite, with all rounding accounted for.
//!
//! If the Cholesky factorisation of a matrix B in floating point runs to its end, then B + E = R Rᵀ with
//! |E_ij| ≤ γ √(B_ii B_jj), where γ = (w + 2) u / (1 − 2 (w + 2) u), u = 2⁻⁵³ and w is the most terms of a
//! sum (Demmel, "On floating point errors in Cholesky", 1989; Rump 2006). Before the first entry of a row
//! that is not zero nothing is computed, and E is 0. So B = fl(P̂ − c I) for a c above the largest sum of a
//! row of all errors proves that P is positive semidefinite. Rows and columns are scaled by powers of two
//! first, which is exact, to a diagonal of about 1.

use super::cholesky::starts;
use super::{Network, Read};
use crate::kernels::gemm::matmul;
use crate::linalg::gamma;
use ndarray::{Array2, aview1};

/// The unit of rounding, 2⁻⁵³.
const UNIT: f64 = 0.5 * f64::EPSILON;

/// A product may be too small for a number. It is then wrong by up to 2⁻¹⁰⁷⁴, which is less than a unit of
/// rounding of this size. The factors that follow make this error larger.
const TINY: f64 = 4.0 * f64::MIN_POSITIVE;

/// A symmetric matrix: of row i the entries from column `first` to the diagonal.
struct Row {
    first: usize,
    entries: Vec<f64>,
    /// For each entry the sum of the sizes of its terms.
    sizes: Vec<f64>,
}

impl Row {
    fn add(&mut self, column: usize, value: f64, size: f64) {
        self.entries[column - self.first] += value;
        self.sizes[column - self.first] += size;
    }
}

impl Network {
    /// Whether these multipliers prove L² ≤ `square`, by a factorisation with so many times the margin for
    /// rounding.
    pub(super) fn proves(&self, multipliers: &[f64], square: f64, margins: f64) -> bool {
        let mut rows = self.form(multipliers, square);
        let diagonal = |rows: &[Row]| {
            rows.iter()
                .map(|r| r.entries[r.entries.len() - 1])
                .collect::<Vec<_>>()
        };
        if !diagonal(&rows).iter().all(|d| *d > 0.0 && d.is_finite()) {
            return false;
        }
        let scales: Vec<f64> = diagonal(&rows)
            .iter()
            .map(|d| (-0.5 * d.log2()).round().exp2())
            .collect();
        for (i, row) in rows.iter_mut().enumerate() {
            let columns = &scales[row.first..=i];
            let both = row.entries.iter_mut().zip(&mut row.sizes).zip(columns);
            for ((entry, size), scale) in both {
                *entry *= scales[i] * scale;
                *size *= scales[i] * scale;
            }
        }
        let margin = margins * self.margin_of_rounding(&rows);
        for row in &mut rows {
            let last = row.entries.len() - 1;
            row.entries[last] -= margin;
        }
        factors(&mut rows)
    }

    /// P(Λ, τ), row by row.
    fn form(&self, multipliers: &[f64], square: f64) -> Vec<Row> {
        let sizes = self.sizes();
        let starts = starts(&sizes);
        let firsts = self.first_blocks();
        let block = |b: usize| (starts[b]..starts[b + 1]).map(move |i| (b, i));
        let mut rows: Vec<Row> = (0..sizes.len())
            .flat_map(block)
            .map(|(b, i)| {
                let first = starts[firsts[b]];
                Row {
                    first,
                    entries: vec![0.0; i + 1 - first],
                    sizes: vec![0.0; i + 1 - first],
                }
            })
            .collect();
        let (mut next, output) = (0, self.layers.len() + 1);
        (0..self.inputs).for_each(|i| rows[i].add(i, 1.0, 1.0));
        (starts[output]..starts[output + 1]).for_each(|i| rows[i].add(i, square, square));
        for (k, layer) in self.layers.iter().enumerate() {
            let own = &multipliers[next..next + layer.slopes.len()];
            next += own.len();
            for (i, (slopes, &l)) in layer.slopes.iter().zip(own).enumerate() {
                let row = &mut rows[starts[k + 1] + i];
                row.add(starts[k + 1] + i, l, l);
                let factor = -0.5 * (slopes[0] + slopes[1]) * l;
                let tiny = TINY * (l + 1.0);
                for (j, a) in &layer.reads {
                    for (column, x) in (starts[*j]..).zip(a.row(i)) {
                        let size = (factor * x).abs() + tiny * (x.abs() + 1.0);
                        row.add(column, factor * x, size);
                    }
                }
            }
            if (layer.slopes.iter()).any(|&[l, u]| l != 0.0 && u != 0.0) {
                let factors = layer.slopes.iter().zip(own);
                let factors: Vec<[f64; 2]> = factors
                    .map(|([l, u], m)| [l * u * m, TINY * (m + 1.0)])
                    .collect();
                for (i, a) in &layer.reads {
                    for (j, b) in layer.reads.iter().filter(|(j, _)| j <= i) {
                        add_product(&mut rows, [starts[*i], starts[*j]], [a, b], &factors);
                    }
                }
            }
        }
        for (j, c) in &self.output {
            for (i, row) in c.outer_iter().enumerate() {
                for (column, x) in (starts[*j]..).zip(row) {
                    rows[starts[output] + i].add(column, *x, x.abs());
                }
            }
        }
        rows
    }

    /// For each block the first block that its rows reach to.
    fn first_blocks(&self) -> Vec<usize> {
        let least = |reads: &[Read]| reads.iter().map(|(j, _)| *j).min().unwrap_or(0);
        let mut firsts: Vec<usize> = (0..self.layers.len() + 2).collect();
        for (k, layer) in self.layers.iter().enumerate() {
            let first = least(&layer.reads);
            firsts[k + 1] = firsts[k + 1].min(first);
            layer
                .reads
                .iter()
                .for_each(|(j, _)| firsts[*j] = firsts[*j].min(first));
        }
        firsts[self.layers.len() + 1] = least(&self.output);
        firsts
    }

    /// c: twice what can be wrong with the entries (their terms are rounded) and with the factorisation.
    fn margin_of_rounding(&self, rows: &[Row]) -> f64 {
        // The most roundings of an entry: a sum over the neurons of a layer of products of up to four
        // factors, and sums over layers.
        let widest = self.layers.iter().map(|l| l.slopes.len()).max();
        let own = widest.unwrap_or(0) + 2 * self.maps().count() + 8;
        let roundings = (own + 2 * self.roundings) as f64;
        let terms = gamma(rows.iter().map(|r| r.entries.len()).max().unwrap_or(0));
        let of_factors = terms / (1.0 - terms);
        let roots: Vec<f64> = (rows.iter())
            .map(|r| r.entries[r.entries.len() - 1].sqrt())
            .collect();
        let mut wrong = vec![0.0; rows.len()];
        for (i, row) in rows.iter().enumerate() {
            for (j, size) in (row.first..).zip(&row.sizes) {
                let each = 2.0 * roundings * UNIT * size + of_factors * roots[i] * roots[j];
                wrong[i] += each;
                if j != i {
                    wrong[j] += each;
                }
            }
        }
        // ‖E‖₂ ≤ ‖E‖_∞ of a symmetric matrix.
        2.0 * (wrong.iter().copied().fold(0.0, f64::max) + 8.0 * UNIT)
    }
}

/// Adds Aᵀ diag(f) B to the block that begins at this row and column, as far as it is below the diagonal.
/// The second number of each factor is the size of the error that f has if a product was too small.
fn add_product(
    rows: &mut [Row],
    [top, left]: [usize; 2],
    [a, b]: [&Array2<f64>; 2],
    factors: &[[f64; 2]],
) {
    let (mut scaled, mut large) = (a.clone(), a.mapv(f64::abs));
    let rows_of_both = scaled.outer_iter_mut().zip(large.outer_iter_mut());
    for ((mut row, mut large), [f, tiny]) in rows_of_both.zip(factors) {
        row *= *f;
        large.mapv_inplace(|x| f.abs() * x + tiny * (x + 1.0));
    }
    let values = matmul(scaled.t(), b.view());
    let sizes = matmul(large.t(), b.mapv(f64::abs).view()) + TINY * a.nrows() as f64;
    for ((i, j), value) in values.indexed_iter() {
        if left + j <= top + i {
            rows[top + i].add(left + j, *value, sizes[[i, j]]);
        }
    }
}

/// The Cholesky factorisation, row by row, in place; whether all pivots are positive.
fn factors(rows: &mut [Row]) -> bool {
    for i in 0..rows.len() {
        let (above, rest) = rows.split_at_mut(i);
        let Row { first, entries, .. } = &mut rest[0];
        for (j, row) in above.iter().enumerate().skip(*first) {
            let from = row.first.max(*first);
            let left = aview1(&entries[from - *first..j - *first]);
            let dot = left.dot(&aview1(&row.entries[from - row.first..j - row.first]));
            entries[j - *first] = (entries[j - *first] - dot) / row.entries[j - row.first];
        }
        let (pivot, row) = entries.split_last_mut().expect("a diagonal entry");
        let row = aview1(row);
        *pivot -= row.dot(&row);
        if !(*pivot > 0.0 && pivot.is_finite()) {
            return false;
        }
        *pivot = pivot.sqrt();
    }
    true
}
