//! A Jacobian of maps that act on each row on their own: one block per row, as a matrix C and a radius e,
//! ‖J_r − C‖_p ≤ e.

use super::matrix::multiply;
use crate::linalg::{Lp, Upper, frobenius_norm};
use ndarray::{Array2, ArrayView1, Axis};

/// Blocks of more entries than this, in all rows, are not computed.
const MOST: usize = 1 << 20;

/// The blocks of a node with respect to another.
#[derive(Debug, Clone)]
pub(crate) struct Rows {
    pub from: usize,
    p: Lp,
    /// C and e of each row; one for all if they are equal.
    blocks: Vec<(Array2<f64>, Upper)>,
}

impl Rows {
    /// The blocks of node `from` with respect to itself, for rows of d entries; none if they are too large.
    pub fn identity(from: usize, p: Lp, d: usize) -> Option<Self> {
        (d * d <= MOST).then(|| Self {
            from,
            p,
            blocks: vec![(Array2::eye(d), Upper::ZERO)],
        })
    }

    /// Whether all numbers are finite.
    pub fn is_finite(&self) -> bool {
        let finite =
            |(c, e): &(Array2<f64>, Upper)| e.is_finite() && c.iter().all(|x| x.is_finite());
        self.blocks.iter().all(finite)
    }

    /// The norm of the Jacobian: of the largest block.
    pub fn norm(&self) -> Upper {
        let norms = self
            .blocks
            .iter()
            .map(|(c, e)| self.p.matrix(c.view()) + *e);
        norms.fold(Upper::ZERO, Upper::max)
    }

    pub fn scaled(mut self, factor: f64) -> Self {
        for (c, e) in &mut self.blocks {
            *c *= factor;
            *e = *e * Upper::new(factor.abs()) + rounding(self.p, c);
        }
        self
    }

    pub fn plus(self, other: Self) -> Option<Self> {
        let counts = [self.blocks.len(), other.blocks.len()];
        // Without rows on one side there are none.
        let count = if counts.contains(&0) {
            0
        } else {
            counts[0].max(counts[1])
        };
        let size = self.blocks.first().map_or(0, |(c, _)| c.len());
        if self.from != other.from || count * size > MOST {
            return None;
        }
        let p = self.p;
        let blocks = (0..count).map(|r| {
            let ((a, x), (b, y)) = (self.block(r), other.block(r));
            let c = a + b;
            let e = *x + *y + rounding(p, &c);
            (c, e)
        });
        Some(Self {
            blocks: blocks.collect(),
            ..self
        })
    }

    fn block(&self, r: usize) -> &(Array2<f64>, Upper) {
        &self.blocks[r % self.blocks.len()]
    }

    pub fn mapped(mut self, w: &Array2<f64>) -> Option<Self> {
        let width = self.blocks.first().map_or(0, |(c, _)| c.ncols());
        if self.blocks.len() * w.nrows() * width > MOST || !w.iter().all(|x| x.is_finite()) {
            return None;
        }
        let norm = self.p.matrix(w.view());
        for (c, e) in &mut self.blocks {
            let (product, error) = multiply(&[w, c]);
            *e = *e * norm + error * spread(self.p, product.len());
            *c = product;
        }
        Some(self)
    }

    /// The blocks times diag(t_r), t `[n, d]`.
    pub fn times(self, t: &Array2<f64>) -> Option<Self> {
        self.bent(&[t.clone(), t.clone()])
    }

    /// The blocks times diag(t_r) for some t between two limits.
    pub fn bent(self, [low, high]: &[Array2<f64>; 2]) -> Option<Self> {
        let n = low.nrows();
        let size = self.blocks.first().map_or(0, |(c, _)| c.len());
        if n * size > MOST {
            return None;
        }
        let blocks = (0..n).map(|r| {
            let (c, e) = self.block(r);
            self.row_bent(c, *e, low.row(r), high.row(r))
        });
        let blocks = blocks.collect::<Option<Vec<_>>>()?;
        Some(Self { blocks, ..self })
    }

    fn row_bent(
        &self,
        c: &Array2<f64>,
        e: Upper,
        low: ArrayView1<'_, f64>,
        high: ArrayView1<'_, f64>,
    ) -> Option<(Array2<f64>, Upper)> {
        let column = |t: &dyn Fn(f64, f64) -> f64| {
            let t = low.iter().zip(high).map(|(&l, &h)| t(l, h));
            t.collect::<ndarray::Array1<f64>>().insert_axis(Axis(1))
        };
        let middle = column(&|l, h| if l == h { l } else { 0.5 * l + 0.5 * h });
        let radius = column(&|l, h| {
            if l == h {
                0.0
            } else {
                (0.5 * h - 0.5 * l).next_up()
            }
        });
        let steepest = column(&|l, h| l.abs().max(h.abs()));
        let worst = steepest
            .iter()
            .fold(0.0f64, |m, &t| if t > m || t.is_nan() { t } else { m });
        let (centre, around) = (c * &middle, c * &radius);
        if !(worst.is_finite() && around.iter().all(|x| x.is_finite())) {
            return None;
        }
        let kinks = match around.iter().any(|&x| x != 0.0) {
            true => self.p.matrix(around.view()) + rounding(self.p, &around),
            false => Upper::ZERO,
        };
        // Slopes of 0 and 1 make no rounding errors.
        let exact = |t: &f64| *t == 0.0 || *t == 1.0;
        let rounded = match middle.iter().all(exact) {
            true => Upper::ZERO,
            false => rounding(self.p, &centre),
        };
        (centre.iter().all(|x| x.is_finite()))
            .then(|| (centre, e * Upper::new(worst) + kinks + rounded))
    }
}

/// The error of entries that were rounded once or twice.
fn rounding(p: Lp, c: &Array2<f64>) -> Upper {
    match c.iter().all(|x| x.is_finite()) {
        true => Upper::new(2.0 * f64::EPSILON) * frobenius_norm(c.view()) * spread(p, c.len()),
        false => Upper::INFINITE,
    }
}

/// ‖E‖_p ≤ √size ‖E‖_F, and 1 for √size if p = 2.
fn spread(p: Lp, size: usize) -> Upper {
    match p {
        Lp::Two => Upper::ONE,
        _ => Upper::new(size as f64).sqrt(),
    }
}
