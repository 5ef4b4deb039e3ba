//! The walk along a tape, from an input to an output: at each operation the bound of its value follows from
//! the bounds of its operands.

use super::bound::{Bound, Tree};
use super::reach::{self, Reach};
use super::rows::Rows;
use super::rules;
use crate::autodiff::{Kind, Statement, Tape, Var};
use crate::error::{Error, Result};
use crate::linalg::{Lp, Upper};
use crate::real::Real;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// The inputs for which a bound holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Domain {
    /// All inputs.
    Everywhere,
    /// The inputs whose rows (along the last axis) have 2-norms of at most this radius.
    Rows(f64),
    /// The recorded input alone: a bound of the Jacobian there.
    ///
    /// An activation has the slope of each entry there (ReLU: 0 or 1; a smooth one: its derivative), at a kink
    /// any slope between the two one-sided ones. Where maps act on each row on its own (linear maps,
    /// activations, sums and products entry by entry), they are multiplied out with these slopes, row by row:
    /// the bound of a network of such maps is the norm of its Jacobian. It is a product of norms, and larger,
    /// where rows mix (attention, graphs), at norms such as LayerNorm, and where the blocks of all rows together
    /// have more than 2²⁰ entries. It never exceeds the bound for [`Everywhere`](Self::Everywhere).
    ///
    /// It uses the values of the forward pass, and has their rounding error: an argument next to a kink may be
    /// on its other side. Record in `f64` if that matters.
    Here,
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

/// A bound that a layer declares for its output with respect to some nodes together, for all inputs.
#[derive(Debug)]
pub(crate) struct Stated {
    of: Vec<usize>,
    bounds: Vec<(Lp, Rc<Tree>)>,
    /// Whether they hold at the recorded input alone.
    here: bool,
}

/// ‖y(x) − y(x′)‖_p ≤ L ‖x − x′‖_p for all x and x′ of the domain, read off the tape between x and y.
///
/// Tensors count as vectors: for p = 2 the norm of a matrix is the Frobenius norm. Everything on the tape
/// that does not depend on x is held fixed.
///
/// ```
/// use emmy::{Tape, init, lipschitz::{Domain, Lp, bound}, nn::{Linear, Pass}};
/// let rng = &mut init::rng(0);
/// let net = vec![Linear::<f64>::new(4, 8, true, rng), Linear::new(8, 3, true, rng)];
/// let tape = Tape::new();
/// let pass = Pass::train(&tape, &net, 0);
/// let x = tape.var(init::normal(&[5, 4], 1.0, rng));
/// let y = net[1].forward(&pass, net[0].forward(&pass, x).relu());
/// let bound = bound(y, x, Lp::Two, Domain::Everywhere)?;
/// assert!(bound.upper().is_finite());
/// // The same as a variable: a penalty that trains.
/// let gradients = pass.gradients(bound.var()?);
/// # Ok::<(), emmy::Error>(())
/// ```
///
/// # Errors
/// If there is no bound for an operation between x and y; the message names it.
///
/// # Panics
/// If the variables are on different tapes.
#[track_caller]
pub fn bound<'t, F: Real>(
    y: Var<'t, F>,
    x: Var<'t, F>,
    p: Lp,
    domain: Domain,
) -> Result<Bound<'t, F>> {
    y.tape().accept("lipschitz::bound", &[x]);
    let mut walk = Walk::new(x, p, domain);
    walk.to(y.id)
        .map_err(|unbounded| unbounded.into_error(y.tape()))
}

/// An operation without a bound.
#[derive(Debug)]
pub(crate) struct Unbounded {
    pub node: usize,
    pub reason: String,
}

impl Unbounded {
    fn into_error<F: Real>(self, tape: &Tape<F>) -> Error {
        Error::Unbounded {
            place: format!("operation {} of the tape", self.node),
            operation: tape.node(self.node).kind.name(),
            reason: self.reason,
        }
    }
}

/// The state of a walk.
pub(crate) struct Walk<'t, F: Real> {
    pub(super) tape: &'t Tape<F>,
    pub(super) p: Lp,
    pub(super) domain: Domain,
    /// The next node to be examined.
    next: usize,
    /// What is known of the nodes that were examined; those that are not here are fixed.
    slots: HashMap<usize, Slot>,
    reaches: HashMap<usize, Reach>,
    /// The lower limits of entries that were asked for.
    least: RefCell<HashMap<usize, f64>>,
    /// The Jacobian at the recorded input, row by row, where it is known.
    rows: HashMap<usize, Rc<Rows>>,
}

impl<'t, F: Real> Walk<'t, F> {
    pub fn new(x: Var<'t, F>, p: Lp, domain: Domain) -> Self {
        Self {
            tape: x.tape(),
            p,
            domain,
            next: x.id + 1,
            slots: [(x.id, Slot::Moves(Rc::new(Tree::Number(Upper::ONE))))].into(),
            reaches: [(x.id, Reach::of_input(domain, x.id))].into(),
            least: RefCell::new([(x.id, f64::NEG_INFINITY)].into()),
            rows: HashMap::new(),
        }
    }

    /// The bound at node `y`.
    pub fn to(&mut self, y: usize) -> Result<Bound<'t, F>, Unbounded> {
        for id in self.next..=y {
            self.examine(id);
        }
        self.next = self.next.max(y + 1);
        let tree = match self.slot(y) {
            Slot::Fixed => Rc::new(Tree::Number(Upper::ZERO)),
            Slot::Moves(tree) => tree,
            Slot::Unbounded { node, reason } => return Err(Unbounded { node, reason }),
        };
        Ok(Bound {
            tape: self.tape,
            tree,
        })
    }

    pub(super) fn slot(&self, id: usize) -> Slot {
        self.slots.get(&id).cloned().unwrap_or(Slot::Fixed)
    }

    /// Whether the node depends on the input.
    pub fn moves(&self, id: usize) -> bool {
        !matches!(self.slot(id), Slot::Fixed)
    }

    /// The Jacobian of a node row by row.
    pub(super) fn rows(&self, id: usize) -> Option<&Rows> {
        self.rows.get(&id).map(Rc::as_ref)
    }

    /// The bound at the recorded input by its Jacobian, row by row, if that is known.
    fn by_rows(&mut self, id: usize, slot: Slot) -> Slot {
        let here = self.domain == Domain::Here;
        let Some(rows) = here.then(|| Rows::of(self, id)).flatten().map(Rc::new) else {
            return slot;
        };
        self.rows.insert(id, Rc::clone(&rows));
        let Slot::Moves(own) = self.slot(rows.from) else {
            return slot;
        };
        let tree = product(vec![Rc::new(Tree::Rows(rows)), own]);
        Slot::Moves(match slot {
            Slot::Moves(other) => Rc::new(Tree::Min(vec![other, tree])),
            _ => tree,
        })
    }

    /// How far the entries of a node reach.
    pub(super) fn reach(&self, id: usize) -> Reach {
        self.reaches.get(&id).cloned().unwrap_or_default()
    }

    /// A number that no entry of a node is below, for all inputs; −∞ if none is known.
    pub(super) fn least(&self, id: usize) -> f64 {
        if let Some(&known) = self.least.borrow().get(&id) {
            return known;
        }
        let least = match self.moves(id) {
            true => reach::least(self, id),
            false => {
                let value = &self.tape.node(id).value;
                let least = |m: f64, x: &F| match x.is_nan() {
                    true => f64::NEG_INFINITY,
                    false => m.min(x.as_f64()),
                };
                value.iter().fold(f64::INFINITY, least)
            }
        };
        self.least.borrow_mut().insert(id, least);
        least
    }

    /// Examines a node whose arguments have been examined.
    fn examine(&mut self, id: usize) {
        let args = self.tape.node(id).args.clone();
        let slots: Vec<Slot> = args.iter().map(|&a| self.slot(a)).collect();
        if slots.iter().all(|s| matches!(s, Slot::Fixed)) {
            return;
        }
        let stated = self.stated(id);
        let (opaque, reference) = {
            let node = self.tape.node(id);
            let opaque = matches!(node.kind, Kind::EdgeAttention { .. } | Kind::Opaque(_));
            (opaque, node.reference.clone().filter(|_| opaque))
        };
        let mut reach = None;
        let derived = if let Some(reference) = reference {
            // The composition that defines the operation, at the end of the tape.
            let mark = self.tape.len();
            let args: Vec<Var<'t, F>> = args.iter().map(|&a| self.tape.handle(a)).collect();
            let y = reference(&args).id;
            for inner in mark..=y {
                self.examine(inner);
            }
            reach = Some(self.reach(y));
            self.slot(y)
        } else if opaque {
            Slot::Unbounded {
                node: id,
                reason:
                    "an operation that says nothing of itself; its `Kind` can say what it is, or \
                         `lipschitz::state` state a bound of it"
                        .into(),
            }
        } else {
            rules::derive(self, id, &slots)
        };
        let slot = match (stated, derived) {
            (Some(stated), Slot::Moves(derived)) => {
                Slot::Moves(Rc::new(Tree::Min(vec![stated, derived])))
            }
            (Some(stated), _) => Slot::Moves(stated),
            // An error inside a composition is reported for the operation itself.
            (None, Slot::Unbounded { reason, .. }) if reach.is_some() => {
                Slot::Unbounded { node: id, reason }
            }
            (None, derived) => derived,
        };
        let slot = self.by_rows(id, slot);
        let reach = reach.unwrap_or_else(|| Reach::of(self, id));
        self.slots.insert(id, slot);
        self.reaches.insert(id, reach);
    }

    /// The bound that a layer declares for this node.
    fn stated(&self, id: usize) -> Option<Rc<Tree>> {
        let Kind::Stated(Statement(statement)) = self.tape.node(id).kind.clone() else {
            return None;
        };
        let note = statement.downcast::<Stated>().ok()?;
        if note.here && self.domain != Domain::Here {
            return None;
        }
        let (_, own) = note.bounds.iter().find(|(p, _)| *p == self.p)?;
        let mut parts = Vec::new();
        for &of in &note.of {
            match self.slot(of) {
                Slot::Moves(tree) => parts.push(tree),
                Slot::Fixed => {}
                Slot::Unbounded { .. } => return None,
            }
        }
        let together = match (parts.len(), self.p) {
            (0, _) => return None,
            (1, _) => parts.swap_remove(0),
            (_, Lp::One) => Rc::new(Tree::Sum(parts)),
            (_, Lp::Two) => Rc::new(Tree::Hypot(parts)),
            (_, Lp::Inf) => Rc::new(Tree::Max(parts)),
        };
        Some(product(vec![Rc::clone(own), together]))
    }
}

/// Declares a bound of y with respect to the variables xs, which count as one vector: for a layer whose
/// constant is proven as a whole, or for your own operation. Each bound holds for all inputs, in its norm.
/// Returns y; use it in place of the argument.
///
/// ```
/// use emmy::{Tape, kernels::map, lipschitz::{Bound, Domain, Lp, Upper, bound, state}, tensor::tensor};
/// let tape = Tape::<f64>::new();
/// let x = tape.var(tensor(&[2], vec![0.3, 4.0]));
/// // atan, whose slope is at most 1.
/// let y = x.unary("atan", map::unary(&x.value(), f64::atan), |p| {
///     p.gy() / p.x().square().add_scalar(1.0)
/// });
/// let y = state(y, &[x], Lp::ALL.map(|p| (p, Bound::number(&tape, Upper::ONE))));
/// assert_eq!(bound(y, x, Lp::Two, Domain::Everywhere)?.upper(), Upper::ONE);
/// # Ok::<(), emmy::Error>(())
/// ```
///
/// # Panics
/// If the variables are on different tapes.
#[track_caller]
pub fn state<'t, F: Real>(
    y: Var<'t, F>,
    xs: &[Var<'t, F>],
    bounds: impl IntoIterator<Item = (Lp, Bound<'t, F>)>,
) -> Var<'t, F> {
    stated("lipschitz::state", y, xs, bounds, false)
}

/// The same for bounds of the Jacobian at the recorded values alone ([`Domain::Here`]).
///
/// # Panics
/// If the variables are on different tapes.
#[track_caller]
pub fn state_here<'t, F: Real>(
    y: Var<'t, F>,
    xs: &[Var<'t, F>],
    bounds: impl IntoIterator<Item = (Lp, Bound<'t, F>)>,
) -> Var<'t, F> {
    stated("lipschitz::state_here", y, xs, bounds, true)
}

#[track_caller]
fn stated<'t, F: Real>(
    what: &str,
    y: Var<'t, F>,
    xs: &[Var<'t, F>],
    bounds: impl IntoIterator<Item = (Lp, Bound<'t, F>)>,
    here: bool,
) -> Var<'t, F> {
    y.tape().accept(what, xs);
    if !y.is_differentiable() {
        return y;
    }
    let bounds = bounds.into_iter().map(|(p, b)| (p, b.tree)).collect();
    let of = xs.iter().map(|x| x.id).collect();
    let statement = Statement(Rc::new(Stated { of, bounds, here }));
    y.unary(Kind::Stated(statement), y.value(), |p| p.gy())
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
