//! Linear maps and functions of one number at the recorded input: their Jacobian is one matrix per row.
//!
//! At a point a function of one number σ is the slope σ′(z), so W₂ σ(W₁ u) has the Jacobian W₂ diag(σ′(z)) W₁ with
//! respect to a row u. Here such chains are multiplied out, from the last node that is not of this kind, and the norm
//! of the product is a bound that none of the global ones goes below: a network of linear maps and ReLUs has the norm
//! of its Jacobian, up to rounding.

use super::bound::{Matrix, Tree};
use super::slopes::slope_at;
use super::walk::{Domain, Slot, Walk, product};
use crate::kernels::gemm::matmul;
use crate::linalg::{Upper, frobenius_norm};
use crate::real::Real;
use ndarray::{Array2, Axis};
use std::rc::Rc;

/// The most multiplications of the norms of one node; larger chains keep the bounds of their parts.
const MOST: usize = 1 << 26;

/// The relative error of a slope that is computed from a value.
const SLOPE: f64 = 1e-12;

/// The Jacobians of the rows of a node with respect to the rows of an earlier one, computed, and the Frobenius norms
/// of their errors. One matrix stands for all rows if they are equal.
#[derive(Clone)]
pub(super) struct Chain {
    from: usize,
    rows: Vec<(Array2<f64>, Upper)>,
}

impl Chain {
    /// The chain that ends at this node, if the node is a linear map of rows or a function of one number.
    pub fn at<F: Real>(walk: &Walk<'_, F>, id: usize) -> Option<Self> {
        if walk.domain != Domain::Here {
            return None;
        }
        let node = walk.tape.node(id);
        if node.custom {
            return None;
        }
        let moving: Vec<usize> = (0..node.args.len())
            .filter(|&k| walk.moves(node.args[k]))
            .collect();
        let [only] = moving[..] else { return None };
        let before = node.args[only];
        let same_shape = walk.tape.node(before).value.shape() == node.value.shape();
        match node.op {
            "alias" | "add" | "sub" | "neg" | "add_scalar" if same_shape => walk.chain(before),
            "linear" | "matmul" if only == 0 => {
                let map = Matrix::from(node.args[1]);
                let map = if node.op == "matmul" { map.t() } else { map };
                if walk.tape.node(map.node).value.ndim() != 2 {
                    return None;
                }
                let w = map.values(walk.tape).swap_remove(0);
                match walk.chain(before) {
                    None => Some(Self {
                        from: before,
                        rows: vec![(w, Upper::ZERO)],
                    }),
                    Some(chain) => chain.mapped(&w),
                }
            }
            op => {
                let slope = slope_at(op, node.constant)?;
                let z = walk.tape.node(before).value.mapv(Real::as_f64);
                let width = z.shape().last().copied().filter(|&d| d > 0)?;
                let z = z.as_standard_layout().into_owned();
                let z = z
                    .into_shape_with_order((node.value.len() / width, width))
                    .ok()?;
                walk.chain(before)?.bent(&z.mapv(|z| slope(z)))
            }
        }
        .filter(Self::is_small)
    }

    fn is_small(&self) -> bool {
        let work = |(a, _): &(Array2<f64>, Upper)| a.len() * a.nrows().min(a.ncols());
        self.rows.iter().map(work).sum::<usize>() <= MOST
    }

    /// The chain, followed by a matrix.
    fn mapped(self, w: &Array2<f64>) -> Option<Self> {
        let next = frobenius_norm(w.view());
        let gamma = Upper::new((w.ncols() + 2) as f64 * f64::EPSILON);
        let rows = self.rows.into_iter().map(|(a, error)| {
            let error = error * next + gamma * frobenius_norm(a.view()) * next;
            (matmul(w.view(), a.view()), error)
        });
        Self {
            from: self.from,
            rows: rows.collect(),
        }
        .sound()
    }

    /// The chain, followed by a function with these slopes, a row of them per row.
    fn bent(self, slopes: &Array2<f64>) -> Option<Self> {
        let one = self.rows.len() == 1;
        if !one && self.rows.len() != slopes.nrows() {
            return None;
        }
        // Before they are copied.
        let (a, _) = &self.rows[0];
        if slopes
            .nrows()
            .checked_mul(a.len() * a.nrows().min(a.ncols()))?
            > MOST
        {
            return None;
        }
        let rows = slopes.outer_iter().enumerate().map(|(i, t)| {
            let (a, error) = &self.rows[if one { 0 } else { i }];
            let largest = Upper::new(t.fold(0.0_f64, |m, t| m.max(t.abs())));
            let bent = a * &t.insert_axis(Axis(1));
            let own = Upper::new(SLOPE) * largest * frobenius_norm(a.view());
            (bent, *error * largest + own)
        });
        let finite = slopes.iter().all(|t| t.is_finite());
        let rows = finite.then(|| rows.collect())?;
        Self {
            from: self.from,
            rows,
        }
        .sound()
    }

    fn sound(self) -> Option<Self> {
        let finite = |(a, _): &(Array2<f64>, Upper)| a.iter().all(|x| x.is_finite());
        self.rows.iter().all(finite).then_some(self)
    }

    /// The bound of the node with respect to the input: the largest norm of a row, times the constant of the node
    /// where the chain begins.
    pub fn tree<F: Real>(&self, walk: &Walk<'_, F>) -> Option<Rc<Tree>> {
        let Slot::Moves(own) = walk.slot(self.from) else {
            return None;
        };
        let norms = self.rows.iter().map(|(a, error)| {
            // ‖E‖_p ≤ √size ‖E‖_F for every p.
            let spread = Upper::new(a.len() as f64).sqrt();
            walk.p.matrix(a.view()) + *error * spread
        });
        let largest = norms.fold(Upper::ZERO, Upper::max);
        Some(product(vec![Rc::new(Tree::Here(largest)), own]))
    }
}
