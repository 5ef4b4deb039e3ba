//! The Jacobian at the recorded input, row by row: maps that act on each row (along the last axis) are
//! multiplied out, with the slopes that activations have there.
//!
//! For x of n rows of k entries and y of n rows of d entries, where row r of y depends on row r of x only, the
//! Jacobian has n blocks J_r `[d, k]`, and its norm is the largest of theirs:
//!
//! - y = x Wᵀ: J_r = W; y = σ(z): diag σ′(z_r) J_r(z); y = a + b: J_r(a) + J_r(b);
//! - y = a ⊙ b: diag(b_r) J_r(a) + diag(a_r) J_r(b).
//!
//! A block is known as a matrix C and a radius e, ‖J_r − C‖_p ≤ e. The radius holds the rounding errors, and at
//! a kink, such as 0 for ReLU, half of the interval of the two one-sided slopes.

use super::bound::multiply;
use super::walk::Walk;
use crate::autodiff::Kind;
use crate::linalg::{Lp, Upper, frobenius_norm};
use crate::real::Real;
use ndarray::{Array2, ArrayD, ArrayView1, Axis, Ix2};

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
    /// The blocks of node `id`, from those of its arguments.
    pub fn of<F: Real>(walk: &Walk<'_, F>, id: usize) -> Option<Self> {
        let node = walk.tape.node(id);
        let arg = |k: usize| Self::at(walk, node.args[k]);
        let moves = |k: usize| walk.moves(node.args[k]);
        let same = |k: usize| walk.tape.node(node.args[k]).value.shape() == node.value.shape();
        let spread = |k: usize| {
            let value = walk.tape.node(node.args[k]).value.mapv(Real::as_f64);
            Some(table(value.broadcast(node.value.shape())?.to_owned()))
        };
        let found = match &node.kind {
            Kind::Alias | Kind::Stated(_) | Kind::AddScalar(_) => arg(0)?,
            &Kind::Scale(c) => arg(0)?.scaled(c),
            Kind::Add | Kind::Subtract => {
                let second = |rows: Self| match node.kind {
                    Kind::Subtract => rows.scaled(-1.0),
                    _ => rows,
                };
                match [0, 1].map(|k| moves(k) && same(k)) {
                    [true, true] => arg(0)?.plus(second(arg(1)?))?,
                    [true, false] if !moves(1) => arg(0)?,
                    [false, true] if !moves(0) => second(arg(1)?),
                    _ => return None,
                }
            }
            Kind::Multiply => match [0, 1].map(|k| moves(k) && same(k)) {
                [true, true] => {
                    let (a, b) = (arg(0)?.times(&spread(1)?)?, arg(1)?.times(&spread(0)?)?);
                    a.plus(b)?
                }
                [true, false] if !moves(1) => arg(0)?.times(&spread(1)?)?,
                [false, true] if !moves(0) => arg(1)?.times(&spread(0)?)?,
                _ => return None,
            },
            Kind::MatMul { transposed } if moves(0) && !moves(1) => {
                let w = walk.tape.node(node.args[1]).value.mapv(Real::as_f64);
                let w = w.into_dimensionality::<Ix2>().ok()?;
                arg(0)?.mapped(&if *transposed { w } else { w.reversed_axes() })?
            }
            Kind::Entrywise(function) => {
                let x = walk.tape.node(node.args[0]).value.mapv(Real::as_f64);
                let ends = [0, 1].map(|k| table(x.mapv(|x| function.slope_at(x)[k])));
                arg(0)?.bent(&ends)?
            }
            // These mix rows, or have no slope.
            Kind::Variable
            | Kind::Constant
            | Kind::Dropout { .. }
            | Kind::Linear(_)
            | Kind::Divide
            | Kind::Choice(_)
            | Kind::Concat { .. }
            | Kind::MatMul { .. }
            | Kind::SparseProduct { .. }
            | Kind::SampledProduct(_)
            | Kind::Extremum { .. }
            | Kind::SegmentMax
            | Kind::Softmax
            | Kind::LogSoftmax
            | Kind::LogSumExp
            | Kind::SegmentSoftmax
            | Kind::RowNorm { .. }
            | Kind::Attention { .. }
            | Kind::EdgeAttention { .. }
            | Kind::Opaque(_) => return None,
        };
        let sound =
            |(c, e): &(Array2<f64>, Upper)| e.is_finite() && c.iter().all(|x| x.is_finite());
        found.blocks.iter().all(sound).then_some(found)
    }

    /// The blocks of an argument that moves; the identity if none are known.
    fn at<F: Real>(walk: &Walk<'_, F>, id: usize) -> Option<Self> {
        if let Some(rows) = walk.rows(id) {
            return Some(rows.clone());
        }
        let d = walk
            .tape
            .node(id)
            .value
            .shape()
            .last()
            .copied()
            .unwrap_or(1);
        (walk.moves(id) && d * d <= MOST).then(|| Self {
            from: id,
            p: walk.p,
            blocks: vec![(Array2::eye(d), Upper::ZERO)],
        })
    }

    /// The norm of the Jacobian: of the largest block.
    pub fn norm(&self) -> Upper {
        let norms = self
            .blocks
            .iter()
            .map(|(c, e)| self.p.matrix(c.view()) + *e);
        norms.fold(Upper::ZERO, Upper::max)
    }

    fn scaled(mut self, factor: f64) -> Self {
        for (c, e) in &mut self.blocks {
            *c *= factor;
            *e = *e * Upper::new(factor.abs()) + rounding(self.p, c);
        }
        self
    }

    fn plus(self, other: Self) -> Option<Self> {
        let count = self.blocks.len().max(other.blocks.len());
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

    fn mapped(mut self, w: &Array2<f64>) -> Option<Self> {
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
    fn times(self, t: &Array2<f64>) -> Option<Self> {
        self.bent(&[t.clone(), t.clone()])
    }

    /// The blocks times diag(t_r) for some t between two limits.
    fn bent(self, [low, high]: &[Array2<f64>; 2]) -> Option<Self> {
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

/// The rows of a tensor.
fn table(x: ArrayD<f64>) -> Array2<f64> {
    let d = x.shape().last().copied().unwrap_or(1);
    let n = x.len().checked_div(d).unwrap_or(0);
    let x = x.as_standard_layout().into_owned();
    x.into_shape_with_order((n, d)).expect("as many entries")
}
