//! The walk along a tape, from an input to an output: at each operation the bound of its value follows from
//! the bounds of its operands.

use super::bound::Bound;
use super::known::{Domain, Known, Reach, Slot};
use super::read::{is_part, network_at};
use super::tree::{Tree, product};
use super::{rows, rules};
use crate::autodiff::{Declaration, Kind, Tape, Var};
use crate::error::{Error, Result, Rules};
use crate::linalg::{Lp, Upper};
use crate::real::Real;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// A bound that a layer declares for its output with respect to some nodes together, for all inputs.
#[derive(Debug)]
pub(crate) struct Declared {
    of: Vec<usize>,
    bounds: Vec<(Lp, Rc<Tree>)>,
    /// Whether they hold at the recorded input alone.
    here: bool,
}

/// ‖y(x) − y(x′)‖_p ≤ L ‖x − x′‖_p for all x and x′ of the domain, read off the tape between x and y.
///
/// Tensors count as vectors: for p = 2 the norm of a matrix is the Frobenius norm. Everything on the tape
/// that does not depend on x is held fixed; so is what was detached ([`Var::detach`], [`Tape::no_grad`]).
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
/// If there is no bound for an operation between x and y; the message names it. If the radius of the domain
/// is negative or not finite. If x is a constant: what is computed from it is not recorded.
///
/// # Panics
/// If the variables are on different tapes.
#[track_caller]
#[inline(never)]
pub fn bound<'t, F: Real>(
    y: Var<'t, F>,
    x: Var<'t, F>,
    p: Lp,
    domain: Domain,
) -> Result<Bound<'t, F>> {
    y.tape().accept("lipschitz::bound", &[x]);
    recorded(x)?;
    domain.check()?;
    let mut walk = Walk::new(x, p, domain);
    walk.to(y.id())
        .map_err(|unbounded| unbounded.into_error(y.tape()))
}

/// Whether operations on x are recorded.
pub(super) fn recorded<F: Real>(x: Var<'_, F>) -> Result<()> {
    let is_variable = x.is_differentiable();
    Rules("the input").hold(is_variable, "x", "a variable (Tape::var)", "a constant")
}

/// An operation without a bound.
#[derive(Debug)]
pub(crate) struct Unbounded {
    pub node: usize,
    pub reason: String,
}

impl Unbounded {
    pub(super) fn into_error<F: Real>(self, tape: &Tape<F>) -> Error {
        Error::Unbounded {
            place: format!("operation {} of the tape", self.node),
            operation: tape.node(self.node).kind.name(),
            reason: self.reason,
        }
    }
}

/// The state of a walk.
pub(crate) struct Walk<'t, F: Real> {
    known: Known<'t, F>,
    /// The next node to be examined.
    next: usize,
    /// The nodes whose networks were read.
    joined: HashSet<usize>,
}

impl<'t, F: Real> Walk<'t, F> {
    pub fn new(x: Var<'t, F>, p: Lp, domain: Domain) -> Self {
        let known = Known {
            tape: x.tape(),
            p,
            domain,
            slots: [(x.id(), Slot::Moves(Rc::new(Tree::Number(Upper::ONE))))].into(),
            reaches: [(x.id(), Reach::of_input(domain, x.id()))].into(),
            least: RefCell::new([(x.id(), f64::NEG_INFINITY)].into()),
            rows: HashMap::new(),
        };
        Self {
            known,
            next: x.id() + 1,
            joined: HashSet::new(),
        }
    }

    /// The bound at node `y`.
    pub fn to(&mut self, y: usize) -> Result<Bound<'t, F>, Unbounded> {
        for id in self.next..=y {
            self.examine(id);
        }
        self.next = self.next.max(y + 1);
        self.join(y);
        let tree = match self.known.slot(y) {
            Slot::Fixed => Rc::new(Tree::Number(Upper::ZERO)),
            Slot::Moves(tree) => tree,
            Slot::Unbounded { node, reason } => return Err(Unbounded { node, reason }),
        };
        Ok(Bound {
            tape: self.known.tape,
            tree,
        })
    }

    /// Adds the bound of the network that ends at a node, as a whole, to the node's bounds.
    fn join(&mut self, id: usize) {
        let Slot::Moves(composed) = self.known.slot(id) else {
            return;
        };
        if !self.joined.insert(id) {
            return;
        }
        let Some(network) = network_at(&self.known, id) else {
            return;
        };
        if let Slot::Moves(own) = self.known.slot(network.input) {
            let radius = self.known.distance(network.input);
            let whole = product(vec![Rc::new(Tree::Whole(network, radius)), own]);
            let both = Rc::new(Tree::Min(vec![composed, whole]));
            self.known.slots.insert(id, Slot::Moves(both));
        }
    }

    /// The bound at the recorded input by its Jacobian, row by row, if that is known.
    fn by_rows(&mut self, id: usize, slot: Slot) -> Slot {
        let here = self.known.domain == Domain::Here;
        let Some(rows) = here
            .then(|| rows::of(&self.known, id))
            .flatten()
            .map(Rc::new)
        else {
            return slot;
        };
        self.known.rows.insert(id, Rc::clone(&rows));
        let Slot::Moves(own) = self.known.slot(rows.from) else {
            return slot;
        };
        let tree = product(vec![Rc::new(Tree::Rows(rows)), own]);
        Slot::Moves(match slot {
            Slot::Moves(other) => Rc::new(Tree::Min(vec![other, tree])),
            _ => tree,
        })
    }

    /// Examines a node whose arguments have been examined.
    fn examine(&mut self, id: usize) {
        let args = self.known.tape.node(id).args.clone();
        if !is_part(&self.known, id) {
            args.iter().for_each(|&a| self.join(a));
        }
        let slots: Vec<Slot> = args.iter().map(|&a| self.known.slot(a)).collect();
        if slots.iter().all(|s| matches!(s, Slot::Fixed)) {
            return;
        }
        let stated = self.stated(id);
        let (opaque, reference) = {
            let node = self.known.tape.node(id);
            let opaque = matches!(node.kind, Kind::EdgeAttention { .. } | Kind::Opaque(_));
            (opaque, node.reference.clone().filter(|_| opaque))
        };
        let mut reach = None;
        let derived = if let Some(reference) = reference {
            // The composition that defines the operation, at the end of the tape.
            let mark = self.known.tape.len();
            let args: Vec<Var<'t, F>> = args.iter().map(|&a| self.known.tape.handle(a)).collect();
            let y = reference(&args).id();
            for inner in mark..=y {
                self.examine(inner);
            }
            reach = Some(self.known.reach(y));
            self.known.slot(y)
        } else if opaque {
            Slot::Unbounded {
                node: id,
                reason:
                    "an operation that says nothing of itself; its `Kind` can say what it is, or \
                         `lipschitz::declare` declare a bound of it"
                        .into(),
            }
        } else {
            rules::derive(&self.known, id, &slots)
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
        self.known.slots.insert(id, slot);
        let reach = reach.unwrap_or_else(|| Reach::of(&self.known, id));
        self.known.reaches.insert(id, reach);
    }

    /// The bound that a layer declares for this node.
    fn stated(&self, id: usize) -> Option<Rc<Tree>> {
        let Kind::Declared(declaration) = self.known.tape.node(id).kind.clone() else {
            return None;
        };
        let note = declaration.statement().downcast::<Declared>().ok()?;
        if note.here && self.known.domain != Domain::Here {
            return None;
        }
        let (_, own) = note.bounds.iter().find(|(p, _)| *p == self.known.p)?;
        let mut parts = Vec::new();
        for &of in &note.of {
            match self.known.slot(of) {
                Slot::Moves(tree) => parts.push(tree),
                Slot::Fixed => {}
                Slot::Unbounded { .. } => return None,
            }
        }
        let together = match (parts.len(), self.known.p) {
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
/// use emmy::{Tape, kernels::map, lipschitz::{Bound, Domain, Lp, Upper, bound, declare}, tensor::tensor};
/// let tape = Tape::<f64>::new();
/// let x = tape.var(tensor(&[2], vec![0.3, 4.0]));
/// // atan, whose slope is at most 1.
/// let y = x.unary("atan", map::unary(&x.value(), f64::atan), |p| {
///     p.gy() / p.x().square().add_scalar(1.0)
/// });
/// let y = declare(y, &[x], Lp::ALL.map(|p| (p, Bound::number(&tape, Upper::ONE))));
/// assert_eq!(bound(y, x, Lp::Two, Domain::Everywhere)?.upper(), Upper::ONE);
/// # Ok::<(), emmy::Error>(())
/// ```
///
/// # Panics
/// If the variables are on different tapes.
#[track_caller]
pub fn declare<'t, F: Real>(
    y: Var<'t, F>,
    xs: &[Var<'t, F>],
    bounds: impl IntoIterator<Item = (Lp, Bound<'t, F>)>,
) -> Var<'t, F> {
    stated("lipschitz::declare", y, xs, bounds, false)
}

/// The same for bounds of the Jacobian at the recorded values alone ([`Domain::Here`]).
///
/// # Panics
/// If the variables are on different tapes.
#[track_caller]
pub fn declare_here<'t, F: Real>(
    y: Var<'t, F>,
    xs: &[Var<'t, F>],
    bounds: impl IntoIterator<Item = (Lp, Bound<'t, F>)>,
) -> Var<'t, F> {
    stated("lipschitz::declare_here", y, xs, bounds, true)
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
    let of = xs.iter().map(|x| x.id()).collect();
    let statement = Declaration::new(Rc::new(Declared { of, bounds, here }));
    y.unary(Kind::Declared(statement), y.value(), |p| p.gy())
}
