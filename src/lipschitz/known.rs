//! What is known of the nodes of a tape with respect to an input: their constants, how far their values
//! reach, and their Jacobians row by row.

use super::blocks::Rows;
use super::bound::Evaluator;
use super::tree::{Tree, product};
use crate::autodiff::Tape;
use crate::error::{Error, Result};
use crate::linalg::{Lp, Upper};
use crate::real::Real;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// The inputs for which a bound holds.
///
/// ```
/// use emmy::{Tape, lipschitz::{Domain, Lp, bound}};
/// let tape = Tape::new();
/// let x = tape.var(vec![0.5_f64]);
/// let y = x.square();
/// assert!(bound(y, x, Lp::Two, Domain::Everywhere).is_err()); // |2x| has none
/// let within_3 = bound(y, x, Lp::Two, Domain::Rows(3.0))?;
/// assert!((within_3.upper().get() - 6.0).abs() < 1e-9);
/// # Ok::<(), emmy::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Domain {
    /// All inputs.
    Everywhere,
    /// The inputs whose rows (along the last axis) have 2-norms of at most this radius.
    Rows(f64),
    /// The inputs whose 2-norm distance from the recorded one is at most this radius, all entries of the
    /// tensor counted as one vector.
    ///
    /// For p = 2, a value moves by at most its constant times the radius. So every activation has the
    /// slopes between the arguments that it can have, entry by entry, and networks of linear maps and
    /// activations are bounded as a whole with these slopes, which the bounds of the layers before give
    /// ([`joint::Network::within`](super::joint::Network::within)). LayerNorm and RMSNorm divide by at
    /// least the least deviation that a row can have, and a quotient by at least the least divisor. It
    /// never exceeds the bound for [`Everywhere`](Self::Everywhere), and for a network of rows with one
    /// row whose neurons all keep their slopes it is the norm of the Jacobian.
    ///
    /// Like [`Here`](Self::Here) it uses the values of the forward pass, with their rounding error.
    Ball(f64),
    /// The recorded input alone: a bound of the Jacobian there.
    ///
    /// An activation has the slope of each entry there (ReLU: 0 or 1; a smooth one: its derivative), at a
    /// kink any slope between the two one-sided ones. Where maps act on each row on its own (linear maps,
    /// activations, sums and products entry by entry), they are multiplied out with these slopes, row by
    /// row: the bound of a network of such maps is the norm of its Jacobian. It is a product of norms, and
    /// larger, where rows mix (attention, graphs), at norms such as LayerNorm, and where the blocks of all
    /// rows together have more than 2²⁰ entries. It never exceeds the bound for
    /// [`Everywhere`](Self::Everywhere).
    ///
    /// It uses the values of the forward pass, and has their rounding error: an argument next to a kink may
    /// be on its other side. Record in `f64` if that matters.
    Here,
}

impl Domain {
    /// Refuses a radius that is negative or not finite.
    pub(super) fn check(self) -> Result<()> {
        match self {
            Self::Rows(radius) | Self::Ball(radius) => check_radius(radius),
            Self::Everywhere | Self::Here => Ok(()),
        }
    }

    /// This domain, for an interval whose lower end is found at the recorded input, node `x`. If a row there
    /// is longer than the radius by rounding alone, the domain has this row too.
    ///
    /// # Errors
    /// If the radius is negative or not finite, an entry of the recorded input is not finite, or one of its
    /// rows is longer than the radius.
    pub(crate) fn around<F: Real>(self, tape: &Tape<F>, x: usize) -> Result<Self> {
        self.check()?;
        let refuse = |expected: String, found: String| {
            Err(Error::invalid("the recorded input", expected, found))
        };
        let d = {
            let entries = tape.value(x);
            if let Some(found) = entries.iter().find(|x| !x.is_finite()) {
                return refuse("finite numbers".into(), found.to_string());
            }
            entries.shape().last().copied().unwrap_or(1)
        };
        let Self::Rows(radius) = self else {
            return Ok(self);
        };
        let longest = Evaluator::new(tape).upper(&Rc::new(Tree::MaxRow(x))).get();
        let rounding = F::epsilon().as_f64() * (d + 4) as f64;
        match longest <= radius * (1.0 + rounding) {
            true => Ok(Self::Rows(longest.max(radius))),
            false => refuse(
                format!("rows with a 2-norm of at most {radius}, the domain's radius"),
                format!("a row with {longest}"),
            ),
        }
    }
}

/// Refuses a radius that is negative or not finite.
pub(crate) fn check_radius(radius: f64) -> Result<()> {
    match radius >= 0.0 && radius.is_finite() {
        true => Ok(()),
        false => Err(Error::invalid(
            "the radius",
            "at least 0 and finite",
            radius.to_string(),
        )),
    }
}

/// What is known of a node with respect to the input.
#[derive(Clone)]
pub(super) enum Slot {
    /// It does not depend on the input.
    Fixed,
    /// It depends on the input, with this constant.
    Moves(Rc<Tree>),
    /// It depends on the input, and this operation has no bound, for this reason.
    Unbounded { node: usize, reason: String },
}

/// Bounds of the values of a node for all inputs of the domain, as far as they are known.
#[derive(Debug, Clone, Default)]
pub(super) struct Reach {
    /// The largest 2-norm of a row, along the last axis.
    pub row: Option<Rc<Tree>>,
    /// The largest entry in size.
    pub entry: Option<Rc<Tree>>,
}

/// What is known of the nodes that were examined; those that are not here are fixed.
pub(super) struct Known<'t, F: Real> {
    pub tape: &'t Tape<F>,
    pub p: Lp,
    pub domain: Domain,
    pub slots: HashMap<usize, Slot>,
    pub reaches: HashMap<usize, Reach>,
    /// The lower limits of entries that were asked for.
    pub least: RefCell<HashMap<usize, f64>>,
    /// The Jacobian at the recorded input, row by row, where it is known.
    pub rows: HashMap<usize, Rc<Rows>>,
}

impl<F: Real> Known<'_, F> {
    pub fn slot(&self, id: usize) -> Slot {
        self.slots.get(&id).cloned().unwrap_or(Slot::Fixed)
    }

    /// Whether the node depends on the input.
    pub fn moves(&self, id: usize) -> bool {
        !matches!(self.slot(id), Slot::Fixed)
    }

    /// On a ball, in the 2-norm: how far the values of a node can be from those that are recorded.
    pub fn distance(&self, id: usize) -> Option<Rc<Tree>> {
        match (self.domain, self.p, self.slot(id)) {
            (Domain::Ball(radius), Lp::Two, Slot::Moves(own)) => {
                let radius = Rc::new(Tree::Number(Upper::new(radius)));
                Some(product(vec![radius, own]))
            }
            _ => None,
        }
    }

    /// The Jacobian of a node row by row.
    pub fn rows(&self, id: usize) -> Option<&Rows> {
        self.rows.get(&id).map(Rc::as_ref)
    }

    /// How far the entries of a node reach.
    pub fn reach(&self, id: usize) -> Reach {
        self.reaches.get(&id).cloned().unwrap_or_default()
    }
}
