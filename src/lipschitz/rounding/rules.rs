//! The rounding error of each kind of operation.
//!
//! | letter | meaning |
//! |---|---|
//! | ŷ, y | the computed and the exact value, at an input x′ of the set |
//! | E | error: \|ŷ − y\| ≤ E |
//! | V | moved: \|y(x′) − y(x)\| ≤ V, with x the recorded input |
//! | S | size: \|ŷ\| ≤ S; if the set is more than one input, \|y\| ≤ S too |
//! | u | half the distance from 1 to the next number |
//!
//! At the recorded input alone, V is 0 and S is \|ŷ\|.

use super::numbers::{combine, heads, on_slices, pairs, raised, times, wide};
use super::state::{Entries, Walk};
use crate::autodiff::Kind;
use crate::kernels::{gemm, reduce, spmm};
use crate::linalg::frobenius_norm;
use crate::lipschitz::sparse::degrees;
use crate::real::Real;
use crate::sparse::Pattern;
use crate::tensor::memory::Buffer;
use crate::tensor::{Tensor, tensor};
use ndarray::{ArrayView1, Axis, Ix2};

pub(super) type Found<T> = Result<T, String>;

type Kernel = fn(&Pattern, &[f64], &[f64], usize, usize) -> Buffer<f64>;

/// What an operation makes of its operands: E, V, and a bound of the size of every number that it computes.
pub(super) struct Made {
    pub error: Tensor<f64>,
    pub moved: Tensor<f64>,
    pub most: Tensor<f64>,
}

impl From<Entries> for Made {
    /// Of an operation that computes nothing: its entries are those of its operands.
    fn from(entries: Entries) -> Self {
        Self {
            error: entries.error,
            moved: entries.moved,
            most: entries.size,
        }
    }
}

impl<F: Real> Walk<'_, F> {
    /// E, V and S of node `id`, from those of its operands.
    pub(super) fn derive(&self, id: usize) -> Found<Entries> {
        let value = self.absolute(id);
        let Made { error, moved, most } = self.made(id)?;
        let [error, moved] = [error, moved].map(|x| wide(&x, value.shape()));
        let largest = F::max_value().as_f64();
        let fits = |x: &Tensor<f64>| x.iter().all(|&x| x < largest);
        if !fits(&value) || !fits(&error) {
            return Err("a value or its rounding error is not finite".into());
        }
        if self.around() && !fits(&most) {
            return Err("a value may overflow at an input of the set".into());
        }
        let size = match self.around() {
            false => value,
            true => combine([&value, &moved, &error], |[y, v, e]| {
                raised(y + v + 2.0 * e, 4)
            }),
        };
        Ok(Entries { error, moved, size })
    }

    /// Whether the set of inputs is more than the recorded one.
    pub(super) fn around(&self) -> bool {
        self.radius > 0.0
    }

    fn made(&self, id: usize) -> Found<Made> {
        // The tape grows while Jacobians are applied, so nothing of it stays borrowed.
        let (kind, args, shape) = {
            let node = self.tape.node(id);
            let shape = node.shape.to_vec();
            (node.kind.clone(), node.args.clone(), shape)
        };
        let width = |id: usize| {
            let shape = &self.tape.node(id).shape;
            shape.last().copied().unwrap_or(1)
        };
        match &kind {
            Kind::Alias | Kind::Declared(_) => Ok(self.operand(args[0])?.into()),
            Kind::Entrywise(function) => self.entrywise(id, function),
            &Kind::Scale(c) => self.affine(id, c, 0.0, c.abs() != 1.0),
            &Kind::AddScalar(c) => self.affine(id, 1.0, c, true),
            Kind::Linear(map) => self.linear(id, map),
            Kind::Add | Kind::Subtract => self.sum(id),
            // One of the two.
            Kind::Choice(_) => {
                let [a, b] = self.operands(id)?;
                Ok(a.with(&b, |a, b| pairs(a, b, f64::max)).into())
            }
            Kind::Concat { axis } => {
                let parts = args.iter().map(|&a| self.operand(a));
                let parts = parts.collect::<Found<Vec<_>>>()?;
                Ok(Entries::beside(&parts, *axis).into())
            }
            Kind::Extremum { .. } => {
                let a = self.operand(args[0])?;
                let reduced = |&k: &usize| shape[k] != a.size.shape()[k];
                let axes: Vec<usize> = (0..shape.len()).filter(reduced).collect();
                Ok(a.map(|x| reduce::max(x, &axes)).into())
            }
            // One of all entries.
            Kind::SegmentMax => {
                let largest = |x: &Tensor<f64>| x.fold(0.0_f64, |m, &x| m.max(x));
                let all =
                    |x: &Tensor<f64>| tensor(&shape, vec![largest(x); shape.iter().product()]);
                Ok(self.operand(args[0])?.map(all).into())
            }
            Kind::Multiply => self.products(id, 1, |a, b| pairs(a, b, |a, b| a * b)),
            Kind::MatMul { transposed } => {
                let right = |b: &Tensor<f64>| match transposed {
                    true => b.clone().reversed_axes(),
                    false => b.clone(),
                };
                let product = |a: &_, b: &_| gemm::matmul_batched(a, &right(b));
                let mut made = self.products(id, width(args[0]), product)?;
                if self.around() && args[0] == self.x && !self.moves(args[1]) {
                    self.by_rows(&mut made.moved, right(&self.absolute(args[1])));
                }
                Ok(made)
            }
            Kind::SparseProduct {
                pattern,
                transposed,
            } => {
                let (rows, columns) = degrees(pattern);
                let (terms, kernel): (_, Kernel) = match transposed {
                    true => (columns, spmm::spmm_t),
                    false => (rows, spmm::spmm),
                };
                self.products(id, terms, |s, x| {
                    let [heads, d] = heads(x);
                    on_slices(s, x, |s, x| kernel(pattern, s, x, heads, d)).into_tensor(&shape)
                })
            }
            Kind::SampledProduct(pattern) => self.products(id, width(args[0]), |a, b| {
                let [heads, d] = heads(a);
                on_slices(a, b, |a, b| spmm::sddmm(pattern, a, b, heads, d)).into_tensor(&shape)
            }),
            Kind::Divide => self.quotient(id),
            Kind::Dropout { .. } => Err("it is random: record an evaluation".into()),
            Kind::Softmax
            | Kind::LogSoftmax
            | Kind::LogSumExp
            | Kind::SegmentSoftmax
            | Kind::Attention { .. }
            | Kind::EdgeAttention { .. } => {
                Err("the rounding errors of its exponentials are not known".into())
            }
            Kind::RowNorm { .. } => Err("the rounding errors of its moments are not known".into()),
            Kind::Opaque(_) | Kind::Variable | Kind::Constant => {
                Err("nothing is known of its rounding errors".into())
            }
        }
    }

    /// |⟨w, x′ − x⟩| ≤ ‖w‖ r for the columns w of a matrix, in place of sums over the entries of x.
    fn by_rows(&self, moved: &mut Tensor<f64>, w: Tensor<f64>) {
        let Ok(w) = w.into_dimensionality::<Ix2>() else {
            return;
        };
        let norm = |column: ArrayView1<'_, f64>| frobenius_norm(column.insert_axis(Axis(1)));
        let norms = w
            .columns()
            .into_iter()
            .map(|w| times(norm(w).get(), self.radius));
        let norms = tensor(&[w.ncols()], norms.collect());
        *moved = pairs(moved, &norms, f64::min);
    }

    /// E, V and S of an operand; a fixed one has neither errors nor moves.
    pub(super) fn operand(&self, id: usize) -> Found<Entries> {
        if let Some(known) = self.known.get(&id) {
            return Ok(known.clone());
        }
        let size = self.absolute(id);
        if !size.iter().all(|x| x.is_finite()) {
            return Err("an operand is not finite".into());
        }
        let zeros = size.mapv(|_| 0.0).into_shared();
        Ok(Entries {
            error: zeros.clone(),
            moved: zeros,
            size,
        })
    }

    pub(super) fn operands(&self, id: usize) -> Found<[Entries; 2]> {
        let args = &self.tape.node(id).args;
        Ok([self.operand(args[0])?, self.operand(args[1])?])
    }
}
