//! The norms of constant sparse matrices, and of the operations along a pattern.

use super::known::Domain;
use super::rule::{Rule, TreeResult};
use super::tree::{Tree, number, product, root, sum};
use crate::linalg::{Lp, Upper, scale};
use crate::real::Real;
use crate::sparse::Pattern;
use ndarray::ArrayView2;
use std::rc::Rc;

/// s_e = ⟨a_i, b_j⟩: with ‖a_i‖ ≤ A and ‖b_j‖ ≤ B, the entries of row i move by at most √(entries of the row)
/// B ‖da_i‖ + A (Σ ‖db_j‖²)^½.
pub(super) fn sampled<F: Real>(rule: &Rule<'_, '_, F>, pattern: &Pattern) -> TreeResult {
    let known = rule.known;
    let (rows, columns) = degrees(pattern);
    if known.p != Lp::Two {
        return Err(format!(
            "products along edges, which have bounds in the 2-norm only, not for p = {}",
            known.p
        ));
    }
    let row = |k: usize| {
        let id = rule.arg(k);
        match known.moves(id) {
            false => Ok(Rc::new(Tree::MaxRow(id))),
            true => (known.reach(id).row)
                .ok_or("products along edges of rows that depend on the input and have no limits"),
        }
    };
    let mut parts = Vec::new();
    for (k, count) in [(0, rows), (1, columns)] {
        if let Some(own) = &rule.constants[k] {
            parts.push(product(vec![root(count), row(1 - k)?, Rc::clone(own)]));
        }
    }
    Ok(sum(parts))
}

/// S x or Sᵀ x.
pub(super) fn matrix_product<F: Real>(
    rule: &Rule<'_, '_, F>,
    pattern: &Pattern,
    transposed: bool,
) -> TreeResult {
    let (known, p) = (rule.known, rule.known.p);
    let (s, x) = (rule.arg(0), rule.arg(1));
    let (mut rows, mut columns) = degrees(pattern);
    if transposed {
        std::mem::swap(&mut rows, &mut columns);
    }
    let mut parts = Vec::new();
    if let Some(own) = &rule.constants[1] {
        let norm = if !known.moves(s) || known.domain == Domain::Here {
            let values = known.tape.value(s).mapv(Real::as_f64);
            let heads = values.shape().get(1).copied().unwrap_or(1);
            let values: Vec<f64> = values.iter().copied().collect();
            let one = |h: usize| {
                let head: Vec<f64> = values.iter().skip(h).step_by(heads).copied().collect();
                matrix_norm(pattern, &head, transposed, p)
            };
            Rc::new(Tree::Number(
                (0..heads).map(one).fold(Upper::ZERO, Upper::max),
            ))
        } else {
            let entry = known.reach(s).entry;
            let entry =
                entry.ok_or("a sparse matrix whose values depend on the input, without limits")?;
            let count = match p {
                Lp::One => number(columns as f64),
                Lp::Two => root(rows * columns),
                Lp::Inf => number(rows as f64),
            };
            product(vec![count, entry])
        };
        parts.push(product(vec![norm, Rc::clone(own)]));
    }
    if let Some(own) = &rule.constants[0] {
        let limits = match known.moves(x) {
            false => (
                Some(Rc::new(Tree::MaxRow(x))),
                Some(Rc::new(Tree::MaxAbs(x))),
            ),
            true => {
                let reach = known.reach(x);
                (reach.row, reach.entry)
            }
        };
        let missing = "attention along edges, whose coefficients and values depend on the input and have no \
                       limits (it has a bound with `score_norm`, at `Domain::Here`, and on `Domain::Rows` where \
                       it reads the limited rows themselves)";
        let d = rule.shape(x).last().copied().unwrap_or(1);
        parts.push(match p {
            Lp::Inf => product(vec![
                number(rows as f64),
                limits.1.ok_or(missing)?,
                Rc::clone(own),
            ]),
            Lp::Two => product(vec![root(rows), limits.0.ok_or(missing)?, Rc::clone(own)]),
            Lp::One => product(vec![root(d), limits.0.ok_or(missing)?, Rc::clone(own)]),
        });
    }
    Ok(sum(parts))
}

/// The most entries of a row, and of a column.
pub(super) fn degrees(pattern: &Pattern) -> (usize, usize) {
    let mut columns = vec![0usize; pattern.cols()];
    for &j in pattern.indices() {
        columns[j as usize] += 1;
    }
    let rows = (0..pattern.rows()).map(|i| pattern.row(i).len());
    (
        rows.max().unwrap_or(0),
        columns.into_iter().max().unwrap_or(0),
    )
}

/// An upper bound of ‖S‖_p, or of ‖Sᵀ‖_p.
///
/// For p = 2 by Collatz and Wielandt: ‖S‖₂² ≤ ‖ |S|ᵀ|S| ‖ ≤ max_j (|S|ᵀ|S| u)_j / u_j for every u > 0, with
/// equality for the Perron vector. The search starts from the roots of the degrees, the Perron vector of a
/// symmetrically normalised adjacency matrix.
pub(super) fn matrix_norm(pattern: &Pattern, values: &[f64], transposed: bool, p: Lp) -> Upper {
    if values.iter().any(|v| !v.is_finite()) {
        return Upper::INFINITE;
    }
    let p = if transposed { p.dual() } else { p };
    let (n, m) = pattern.shape();
    let entries = || {
        let places = pattern.rows_of().iter().zip(pattern.indices());
        places
            .zip(values)
            .map(|((&i, &j), v)| (i as usize, j as usize, v.abs()))
    };
    let (rows, columns) = degrees(pattern);
    let error = |terms: usize| (terms + 2) as f64 * f64::EPSILON;
    match p {
        Lp::Inf | Lp::One => {
            let mut sums = vec![0.0; n.max(m)];
            for (i, j, v) in entries() {
                sums[if p == Lp::Inf { i } else { j }] += v;
            }
            let worst = sums.into_iter().fold(0.0, f64::max);
            Upper::rounded(worst, error(rows.max(columns)))
        }
        Lp::Two => {
            // Scaled by a power of two, so that squares neither overflow nor vanish.
            let size = scale(ArrayView2::from_shape((1, values.len()), values).expect("a row"));
            if size == 0.0 {
                return Upper::ZERO;
            }
            let entries = || entries().map(|(i, j, v)| (i, j, v / size));
            let mut u = vec![0.0f64; m];
            for (_, j, v) in entries() {
                u[j] += f64::from(v > 0.0);
            }
            let mut u: Vec<f64> = u.into_iter().map(|count| count.sqrt().max(1.0)).collect();
            let mut best = f64::INFINITY;
            for _ in 0..SEARCH {
                let mut through = vec![0.0; n];
                for (i, j, v) in entries() {
                    through[i] += v * u[j];
                }
                let mut back = vec![0.0; m];
                for (i, j, v) in entries() {
                    back[j] += v * through[i];
                }
                let ratio = back.iter().zip(&u).map(|(b, u)| b / u).fold(0.0, f64::max);
                let gain = best / ratio;
                best = best.min(ratio);
                if best == 0.0 || gain < 1.0 + 1e-9 {
                    break;
                }
                let largest = back.iter().copied().fold(0.0, f64::max);
                // Every entry must stay positive.
                u = back.iter().map(|b| (b / largest).max(1e-9)).collect();
            }
            Upper::rounded(best, 4.0 * error(rows + columns)).sqrt() * Upper::new(size)
        }
    }
}

/// Steps of the search for the Perron vector.
const SEARCH: usize = 200;
