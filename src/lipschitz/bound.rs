//! A bound as a formula: a tree of numbers and of norms of matrices on a tape, with sums, products and
//! maxima of them.

use super::rescale::Pair;
use super::rows::Rows;
use crate::autodiff::{Function, Tape, Var};
use crate::linalg::{Interval, Lower, Lp, Upper, frobenius_norm};
use crate::real::Real;
use ndarray::{Array2, Ix2};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::{Add, Mul, Range};
use std::rc::Rc;

/// An upper bound of a Lipschitz constant, as a formula over the tensors of a tape.
///
/// The same formula is evaluated in two ways. [`upper`](Self::upper) is the certified number, computed in
/// `f64` and rounded up whatever the type of the model. [`var`](Self::var) is the formula on the tape, which
/// can be differentiated: it can be a penalty in a loss, or the divisor of a layer.
#[derive(Clone)]
pub struct Bound<'t, F: Real> {
    pub(super) tape: &'t Tape<F>,
    pub(super) tree: Rc<Tree>,
}

/// The formula. Nodes of the tape are numbers here, so that a tree may be noted on the tape itself.
#[derive(Debug)]
pub(crate) enum Tree {
    Number(Upper),
    /// ‖M‖_p of a product M of matrices.
    Norm(Lp, Vec<Matrix>),
    /// The largest entry in size.
    MaxAbs(usize),
    /// The largest 2-norm of a row.
    MaxRow(usize),
    Sum(Vec<Rc<Tree>>),
    Product(Vec<Rc<Tree>>),
    Max(Vec<Rc<Tree>>),
    /// The smallest of several bounds of one quantity.
    Min(Vec<Rc<Tree>>),
    /// √Σ a².
    Hypot(Vec<Rc<Tree>>),
    Sqrt(Rc<Tree>),
    /// Two linear maps with an activation between them.
    Pair(Pair),
    /// The reciprocal of the smallest entry in size.
    Recip(usize),
    /// The largest slope of a function for arguments that are at least this number, and in size at most that.
    Steepest(Function, f64, Rc<Tree>),
    /// A number that a computation at the recorded point gives; it has no formula on the tape.
    Here(Upper),
    /// The norm of the Jacobian at the recorded point, row by row.
    Rows(Rc<Rows>),
}

/// A matrix on the tape, or some of its rows; or a batch of matrices, of which the largest norm counts.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Matrix {
    pub node: usize,
    /// Rows that are taken, if not all.
    pub rows: Option<Range<usize>>,
    pub transposed: bool,
}

impl Matrix {
    pub fn t(mut self) -> Self {
        self.transposed = !self.transposed;
        self
    }

    /// The matrices as they are in the product, in `f64`.
    pub fn values<F: Real>(&self, tape: &Tape<F>) -> Vec<Array2<f64>> {
        let value = tape.node(self.node).value.mapv(Real::as_f64);
        let shape = value.shape().to_vec();
        let (m, n) = match shape[..] {
            [n] => (1, n),
            [.., m, n] => (m, n),
            [] => (1, 1),
        };
        let batch = value.len().checked_div(m * n).unwrap_or(0);
        let all = value.as_standard_layout().into_owned();
        let all = all.into_shape_with_order((batch, m, n)).expect("as many");
        let each = all.outer_iter().map(|a| {
            let a = match &self.rows {
                Some(rows) => a.slice(ndarray::s![rows.clone(), ..]).to_owned(),
                None => a.to_owned(),
            };
            if self.transposed {
                a.reversed_axes()
            } else {
                a
            }
        });
        each.collect()
    }

    /// The matrix as a variable.
    pub fn var<'t, F: Real>(&self, tape: &'t Tape<F>) -> Var<'t, F> {
        let mut a = tape.handle(self.node);
        if a.ndim() < 2 {
            a = a.reshape(&[1, a.len()]);
        }
        if let Some(rows) = &self.rows {
            a = a.slice(-2, rows.clone());
        }
        if self.transposed { a.t() } else { a }
    }
}

impl From<usize> for Matrix {
    fn from(node: usize) -> Self {
        Self {
            node,
            rows: None,
            transposed: false,
        }
    }
}

impl<'t, F: Real> Bound<'t, F> {
    pub(super) fn of(tape: &'t Tape<F>, tree: Tree) -> Self {
        Self {
            tape,
            tree: Rc::new(tree),
        }
    }

    /// A number that is known to be a bound.
    pub fn number(tape: &'t Tape<F>, value: Upper) -> Self {
        Self::of(tape, Tree::Number(value))
    }

    /// ‖A‖_p of a matrix, the largest of a batch `[.., m, n]`.
    pub fn norm(p: Lp, a: Var<'t, F>) -> Self {
        Self::of(a.tape(), Tree::Norm(p, vec![a.id.into()]))
    }

    /// ‖A Bᵀ …‖_p of a product of matrices, from the first to the last.
    ///
    /// # Panics
    /// If there is none.
    pub fn norm_of_product(p: Lp, factors: &[Var<'t, F>]) -> Self {
        let matrices = factors.iter().map(|a| a.id.into()).collect();
        Self::of(factors[0].tape(), Tree::Norm(p, matrices))
    }

    /// max |a_i|: the norm, for every p, of a product with a entry by entry.
    pub fn max_abs(a: Var<'t, F>) -> Self {
        Self::of(a.tape(), Tree::MaxAbs(a.id))
    }

    /// 1 / min |a_i|: the norm, for every p, of a division by a entry by entry.
    pub fn recip(a: Var<'t, F>) -> Self {
        Self::of(a.tape(), Tree::Recip(a.id))
    }

    /// √ of a bound.
    #[must_use]
    pub fn sqrt(&self) -> Self {
        Self::of(self.tape, Tree::Sqrt(Rc::clone(&self.tree)))
    }

    /// The largest of several.
    ///
    /// # Panics
    /// If there is none.
    pub fn largest(all: &[Self]) -> Self {
        Self::of(all[0].tape, Tree::Max(trees(all)))
    }

    /// √(a² + b² + …): the constant of x ↦ (a(x), b(x), …) in the 2-norm.
    ///
    /// # Panics
    /// If there is none.
    pub fn hypot(all: &[Self]) -> Self {
        Self::of(all[0].tape, Tree::Hypot(trees(all)))
    }

    /// The certified number. Every step is rounded up, so it holds for the tensors as stored.
    pub fn upper(&self) -> Upper {
        Evaluator::new(self.tape).upper(&self.tree)
    }

    /// The formula as a variable of shape `[]`, in the model's own type and rounded to nearest.
    ///
    /// Norms ‖·‖₂ are computed by Gram iteration, whose derivative is that of the norm as far as it has
    /// converged.
    ///
    /// # Errors
    /// If the bound was computed at a point ([`Domain::Here`](super::Domain)): such a bound is a number only.
    pub fn var(&self) -> crate::Result<Var<'t, F>> {
        super::differentiate::var(self)
    }

    /// The interval of this bound and a lower bound that was found.
    pub fn interval(&self, lower: Lower) -> Interval {
        Interval {
            lower,
            upper: self.upper(),
        }
    }
}

fn trees<F: Real>(all: &[Bound<'_, F>]) -> Vec<Rc<Tree>> {
    all.iter().map(|b| Rc::clone(&b.tree)).collect()
}

impl<F: Real> Add for Bound<'_, F> {
    type Output = Self;

    fn add(self, b: Self) -> Self {
        Self::of(self.tape, Tree::Sum(vec![self.tree, b.tree]))
    }
}

impl<F: Real> Mul for Bound<'_, F> {
    type Output = Self;

    fn mul(self, b: Self) -> Self {
        Self::of(self.tape, Tree::Product(vec![self.tree, b.tree]))
    }
}

impl<F: Real> Mul<Upper> for Bound<'_, F> {
    type Output = Self;

    fn mul(self, b: Upper) -> Self {
        let number = Self::number(self.tape, b);
        self * number
    }
}

impl<F: Real> std::fmt::Debug for Bound<'_, F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.upper())
    }
}

/// Reads trees as certified numbers; a tree that several others share is read once.
pub(super) struct Evaluator<'t, F: Real> {
    tape: &'t Tape<F>,
    known: RefCell<HashMap<*const Tree, Upper>>,
    norms: RefCell<Vec<(Lp, Vec<Matrix>, Upper)>>,
}

impl<'t, F: Real> Evaluator<'t, F> {
    pub fn new(tape: &'t Tape<F>) -> Self {
        Self {
            tape,
            known: RefCell::default(),
            norms: RefCell::default(),
        }
    }

    pub fn upper(&self, tree: &Rc<Tree>) -> Upper {
        let key = Rc::as_ptr(tree);
        if let Some(&known) = self.known.borrow().get(&key) {
            return known;
        }
        let all = |trees: &[Rc<Tree>]| trees.iter().map(|t| self.upper(t)).collect::<Vec<_>>();
        let entries = |node: usize| self.tape.node(node).value.mapv(Real::as_f64);
        let value = match &**tree {
            Tree::Number(x) | Tree::Here(x) => *x,
            Tree::Norm(p, factors) => self.norm(*p, factors),
            Tree::MaxAbs(node) => entries(*node)
                .iter()
                .map(|&x| size(x))
                .fold(Upper::ZERO, Upper::max),
            Tree::MaxRow(node) => {
                let a = entries(*node);
                let d = a.shape().last().copied().unwrap_or(1).max(1);
                let a = a.as_standard_layout().into_owned();
                let n = a.len() / d;
                let a = a.into_shape_with_order((n, d)).expect("rows");
                let rows = a.outer_iter().map(|row| match finite(row.iter()) {
                    true => frobenius_norm(row.insert_axis(ndarray::Axis(0))),
                    false => Upper::INFINITE,
                });
                rows.fold(Upper::ZERO, Upper::max)
            }
            Tree::Sum(parts) => all(parts).into_iter().sum(),
            Tree::Product(parts) => all(parts).into_iter().product(),
            Tree::Max(parts) => all(parts).into_iter().fold(Upper::ZERO, Upper::max),
            Tree::Min(parts) => all(parts).into_iter().fold(Upper::INFINITE, Upper::min),
            Tree::Hypot(parts) => {
                let squares = all(parts).into_iter().map(Upper::square);
                squares.sum::<Upper>().sqrt()
            }
            Tree::Sqrt(part) => self.upper(part).sqrt(),
            Tree::Pair(pair) => pair.upper(self.tape),
            Tree::Rows(rows) => rows.norm(),
            Tree::Steepest(function, least, reach) => {
                let reach = self.upper(reach).get();
                let [low, high] = function.slopes_on(least.max(-reach), reach);
                Upper::new(low.abs().max(high.abs()))
            }
            Tree::Recip(node) => {
                let least = entries(*node)
                    .iter()
                    .fold(f64::INFINITY, |m, x| m.min(x.abs()));
                Upper::ONE / Lower::new(least)
            }
        };
        self.known.borrow_mut().insert(key, value);
        value
    }

    fn norm(&self, p: Lp, factors: &[Matrix]) -> Upper {
        let same = |(q, other, _): &&(Lp, Vec<Matrix>, Upper)| *q == p && other == factors;
        if let Some(&(.., known)) = self.norms.borrow().iter().find(same) {
            return known;
        }
        let value = product_norm(
            p,
            &factors
                .iter()
                .map(|m| m.values(self.tape))
                .collect::<Vec<_>>(),
        );
        self.norms.borrow_mut().push((p, factors.to_vec(), value));
        value
    }
}

/// |x|; infinite if x is NaN.
fn size(x: f64) -> Upper {
    match x.is_nan() {
        true => Upper::INFINITE,
        false => Upper::new(x.abs()),
    }
}

fn finite<'a>(mut x: impl Iterator<Item = &'a f64>) -> bool {
    x.all(|x| x.is_finite())
}

/// An upper bound of ‖A₁ A₂ …‖_p: the norm of the product with its rounding error, or the product of the
/// norms if that is smaller. Each factor is a batch, and batches of several matrices are combined one by one.
pub(super) fn product_norm(p: Lp, factors: &[Vec<Array2<f64>>]) -> Upper {
    let sound = |a: &Array2<f64>| match finite(a.iter()) {
        true => p.matrix(a.view()),
        false => Upper::INFINITE,
    };
    let worst = |batch: &Vec<Array2<f64>>| batch.iter().map(sound).fold(Upper::ZERO, Upper::max);
    let apart: Upper = factors.iter().map(worst).product();
    if factors.len() < 2 || !apart.is_finite() {
        return apart;
    }
    let count = factors.iter().map(Vec::len).max().unwrap_or(0);
    if factors.iter().any(|f| f.len() != count && f.len() != 1) {
        return apart;
    }
    let together = (0..count).map(|k| {
        let each: Vec<&Array2<f64>> = factors.iter().map(|f| &f[k % f.len()]).collect();
        let (product, error) = multiply(&each);
        // ‖E‖_p ≤ √size ‖E‖_F covers all three norms.
        let spread = match p {
            Lp::Two => Upper::ONE,
            _ => Upper::new(product.len() as f64).sqrt(),
        };
        sound(&product) + error * spread
    });
    together.fold(Upper::ZERO, Upper::max).min(apart)
}

/// A₁ A₂ …, and a bound of the Frobenius norm of its rounding error.
pub(super) fn multiply(factors: &[&Array2<f64>]) -> (Array2<f64>, Upper) {
    let mut product = factors[0].clone();
    let mut error = Upper::ZERO;
    for b in &factors[1..] {
        let (size, next) = (frobenius_norm(product.view()), frobenius_norm(b.view()));
        let gamma = (product.ncols() + 2) as f64 * f64::EPSILON;
        error = error * next + Upper::new(gamma) * size * next;
        product = crate::kernels::gemm::matmul(product.view(), b.view());
    }
    (
        product.into_dimensionality::<Ix2>().expect("a matrix"),
        error,
    )
}
