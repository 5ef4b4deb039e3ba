//! The formula of a bound: a tree of numbers and of norms of matrices on a tape.

use super::blocks::Rows;
use super::heads::HeadMaps;
use super::matrix::Matrix;
use super::rescale::Pair;
use super::shares::Shares;
use super::whole::Whole;
use crate::autodiff::Function;
use crate::linalg::{Lp, Upper};
use std::rc::Rc;

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
    /// How much of the values all queries of an attention take; the second is how far the scores of a query
    /// differ.
    Shares(Shares, Rc<Tree>),
    /// The linear maps around attention.
    Heads(HeadMaps),
    /// A network of linear maps and activations, bounded as a whole; if its input is on a ball around the
    /// recorded one, the second is the radius.
    Whole(Whole, Option<Rc<Tree>>),
    /// The reciprocal of the smallest entry in size, of the recorded values or of those up to this far from
    /// them; infinite if an entry may be 0.
    Recip(usize, Option<Rc<Tree>>),
    /// The largest slope of a function for arguments that are at least this number, and in size at most that.
    Steepest(Function, f64, Rc<Tree>),
    /// The largest slope of a function of each entry of a node, the entries up to this far from the recorded
    /// ones.
    Near(Function, usize, Rc<Tree>),
    /// The most by which a norm multiplies a difference of two rows near those of a node, 1/√(v + ε), with
    /// the distance of the values from those that are recorded.
    NearNorm {
        node: usize,
        centred: bool,
        eps: f64,
        distance: Rc<Tree>,
    },
    /// A number that a computation at the recorded point gives; it has no formula on the tape.
    Here(Upper),
    /// The norm of the Jacobian at the recorded point, row by row.
    Rows(Rc<Rows>),
}

pub(super) fn number(x: f64) -> Rc<Tree> {
    Rc::new(Tree::Number(Upper::new(x)))
}

pub(super) fn root(x: usize) -> Rc<Tree> {
    Rc::new(Tree::Number(Upper::new(x as f64).sqrt()))
}

pub(super) fn sum(mut parts: Vec<Rc<Tree>>) -> Rc<Tree> {
    match parts.len() {
        1 => parts.swap_remove(0),
        _ => Rc::new(Tree::Sum(parts)),
    }
}

/// A product of trees; factors of 1 are left out.
pub(super) fn product(factors: Vec<Rc<Tree>>) -> Rc<Tree> {
    let is_one = |t: &Rc<Tree>| matches!(&**t, Tree::Number(x) if *x == Upper::ONE);
    let mut rest: Vec<Rc<Tree>> = factors.into_iter().filter(|t| !is_one(t)).collect();
    match rest.len() {
        0 => Rc::new(Tree::Number(Upper::ONE)),
        1 => rest.swap_remove(0),
        _ => Rc::new(Tree::Product(rest)),
    }
}
