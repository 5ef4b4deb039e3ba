//! A bound: its formula, and the certified number that it evaluates to.

use super::differentiate;
use super::matrix::{Matrix, finite, product_norm};
use super::moments;
use super::tree::Tree;
use crate::autodiff::{Tape, Var};
use crate::linalg::{Interval, Lower, Lp, Upper, frobenius_norm};
use crate::real::Real;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::{Add, Mul};
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
        Self::of(a.tape(), Tree::Norm(p, vec![a.id().into()]))
    }

    /// 1 / min |a_i|: the norm, for every p, of a division by a entry by entry.
    pub fn recip(a: Var<'t, F>) -> Self {
        Self::of(a.tape(), Tree::Recip(a.id(), None))
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
    #[inline(never)]
    pub fn upper(&self) -> Upper {
        Evaluator::new(self.tape).upper(&self.tree)
    }

    /// The formula as a variable of shape `[]`, in the model's own type and rounded to nearest.
    ///
    /// Norms ‖·‖₂ are computed by Gram iteration, whose derivative is that of the norm as far as it has
    /// converged.
    ///
    /// # Errors
    /// If the bound was computed at a point or on a ball around it ([`Domain::Here`](super::Domain),
    /// [`Domain::Ball`](super::Domain)): such a bound is a number only.
    #[inline(never)]
    pub fn var(&self) -> crate::Result<Var<'t, F>> {
        differentiate::var(self.tape, &self.tree)
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
        let entries = |node: usize| self.tape.value(node).mapv(Real::as_f64);
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
            Tree::Shares(shares, range) => shares.upper(self.upper(range)),
            Tree::Heads(maps) => maps.upper(self.tape),
            Tree::Whole(network, radius) => {
                let radius = radius.as_ref().map(|radius| self.upper(radius));
                network.upper(self.tape, radius)
            }
            Tree::Rows(rows) => rows.norm(),
            Tree::Steepest(function, least, reach) => {
                let reach = self.upper(reach).get();
                let [low, high] = function.slopes_on(least.max(-reach), reach);
                Upper::new(low.abs().max(high.abs()))
            }
            Tree::Near(function, node, distance) => {
                let d = self.upper(distance).get();
                let steepest = |x: &f64| {
                    let [low, high] = function.slopes_on((x - d).next_down(), (x + d).next_up());
                    Upper::new(low.abs().max(high.abs()))
                };
                (entries(*node).iter().map(steepest)).fold(Upper::ZERO, Upper::max)
            }
            Tree::NearNorm {
                node,
                centred,
                eps,
                distance,
            } => {
                let distance = self.upper(distance);
                let root = moments::least_root_near(&entries(*node), *centred, distance);
                moments::largest_scale(root, *eps)
            }
            Tree::Recip(node, distance) => {
                let least = entries(*node)
                    .iter()
                    .fold(f64::INFINITY, |m, x| m.min(x.abs()));
                let least = match distance {
                    Some(distance) => (least - self.upper(distance).get()).next_down(),
                    None => least,
                };
                Upper::ONE / Lower::new(least.max(0.0))
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
