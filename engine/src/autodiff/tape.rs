//! The tape: every operation appends a node to an arena, so ids grow along the computation and visiting them
//! backwards is a valid order of differentiation. No recursion, no reference counting between nodes.

use super::{Kind, Var};
use crate::real::Real;
use crate::tensor::{IntoTensor, Tensor, memory};
use smallvec::SmallVec;
use std::cell::{Cell, OnceCell, Ref, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

/// The number of a node on its tape.
pub type NodeId = usize;

/// The arguments of a node; two or three are the common case and need no allocation.
pub type Args = SmallVec<[NodeId; 3]>;

/// The derivative rule of a node, which passes its adjoint on: one term for each argument that is
/// [wanted](Vjp::wanted).
///
/// A term is the adjoint of the output, ȳ = ∂L/∂y, times the derivative of y with respect to that argument. A
/// rule may capture owned data only (an axis, an `Arc<Pattern>`), never a [`Var`]: handles come from the
/// [`Vjp`] it receives.
pub type Rule<F> = Rc<dyn for<'t> Fn(&Vjp<'t, F>) -> Terms<'t, F>>;

/// A composition of operations.
pub type Reference<F> = dyn for<'t> Fn(&[Var<'t, F>]) -> Var<'t, F>;

/// The terms that a rule returns, in the order of the arguments.
pub type Terms<'t, F> = Vec<Option<Var<'t, F>>>;

/// One operation on a tape, as laws and bounds read it.
pub struct Node<F: Real> {
    pub kind: Kind,
    /// Empty while it is forgotten.
    pub(super) value: OnceCell<Tensor<F>>,
    pub shape: SmallVec<[usize; 4]>,
    pub args: Args,
    /// None for a leaf or a constant.
    pub rule: Option<Rule<F>>,
    /// Whether a derivative can flow through this node: it is a variable, or made of one.
    pub differentiable: bool,
    /// The composition that defines a fused operation, for a reader of the tape that has no answer for its
    /// kind; of a forgotten value the operation itself, which computes it again.
    pub reference: Option<Rc<Reference<F>>>,
}

/// An arena of operations: the record of one forward computation.
///
/// Open a fresh tape for each step, make variables and constants on it, compute, differentiate, drop it.
/// Everything is freed at once, without recursion.
///
/// ```
/// use emmy::{autodiff::grad, Tape};
/// let tape = Tape::new();
/// let x = tape.scalar(3.0_f64);
/// let y = x * x + x.exp();
/// assert_eq!(grad(y, &[x])[0].first(), Some(&(6.0 + 3.0_f64.exp())));
/// ```
pub struct Tape<F: Real> {
    nodes: RefCell<Vec<Node<F>>>,
    /// Off while only values are wanted: nodes are then made without derivatives.
    pub(super) recording: Cell<bool>,
}

impl<F: Real> Default for Tape<F> {
    fn default() -> Self {
        Self::new()
    }
}

impl<F: Real> Tape<F> {
    /// An empty tape.
    pub fn new() -> Self {
        Self {
            nodes: RefCell::new(Vec::new()),
            recording: Cell::new(true),
        }
    }

    /// A variable: a leaf with respect to which derivatives can be asked for.
    ///
    /// ```
    /// use emmy::{Tape, ndarray::array};
    /// let tape = Tape::<f32>::new();
    /// assert_eq!(tape.var(vec![1.0, 2.0]).shape(), [2]);
    /// assert_eq!(tape.var(array![[1.0, 2.0], [3.0, 4.0]]).shape(), [2, 2]);
    /// ```
    pub fn var(&self, value: impl IntoTensor<F>) -> Var<'_, F> {
        self.push(Kind::Variable, &[], value.into_tensor(), None, true)
    }

    /// A constant: no derivative flows into it, and operations on constants alone are recorded without
    /// derivatives.
    pub fn constant(&self, value: impl IntoTensor<F>) -> Var<'_, F> {
        let value = value.into_tensor();
        self.push(Kind::Constant, &[], value, None, false)
    }

    /// A variable of shape `[]`.
    pub fn scalar(&self, value: F) -> Var<'_, F> {
        self.var(crate::tensor::scalar(value))
    }

    /// The number of nodes.
    pub fn len(&self) -> usize {
        self.nodes.borrow().len()
    }

    /// Whether nothing has been recorded.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How often each operation was recorded, by name; for tests, and to see the cost of a model.
    pub fn operations(&self) -> std::collections::BTreeMap<&'static str, usize> {
        let mut counts = std::collections::BTreeMap::new();
        for node in self.nodes.borrow().iter() {
            *counts.entry(node.kind.name()).or_insert(0) += 1;
        }
        counts
    }

    /// Runs `f` without recording derivatives: what operations make inside is a
    /// constant. ([`var`](Self::var) makes a variable there too.) Use it for evaluation.
    pub fn no_grad<R>(&self, f: impl FnOnce() -> R) -> R {
        let _guard = self.set_recording(false);
        f()
    }

    /// Appends an operation, with its rule if any argument is differentiable.
    ///
    /// The compiler makes a copy of this function per rule. What does not depend on the rule stands in
    /// [`is_recorded`](Self::is_recorded) and [`push`](Self::push), with one copy per float type.
    #[track_caller]
    #[inline(never)]
    pub(crate) fn record<'t>(
        &'t self,
        kind: impl Into<Kind>,
        args: &[Var<'t, F>],
        value: Tensor<F>,
        rule: impl for<'a> Fn(&Vjp<'a, F>) -> Terms<'a, F> + 'static,
    ) -> Var<'t, F> {
        let kind = kind.into();
        let on = self.is_recorded(kind.name(), args);
        let rule = on.then(|| Rc::new(rule) as Rule<F>);
        self.push(kind, args, value, rule, on)
    }

    /// Whether an operation on these arguments keeps its rule.
    #[track_caller]
    #[inline(never)]
    fn is_recorded(&self, op: &str, args: &[Var<'_, F>]) -> bool {
        self.accept(op, args);
        self.recording.get() && args.iter().any(|a| a.is_differentiable())
    }

    /// Refuses operands of another tape. Compositions of operations call it too; otherwise the message would
    /// name their first operation.
    #[doc(hidden)]
    #[track_caller]
    pub fn accept(&self, op: &str, args: &[Var<'_, F>]) {
        assert!(
            args.iter().all(|a| std::ptr::eq(a.tape, self)),
            "{op}: the operands stand on different tapes"
        );
    }

    /// Appends a node. Arguments are kept if a derivative can flow through it.
    #[inline(never)]
    fn push(
        &self,
        kind: Kind,
        args: &[Var<'_, F>],
        value: Tensor<F>,
        rule: Option<Rule<F>>,
        differentiable: bool,
    ) -> Var<'_, F> {
        let args = if differentiable { args } else { &[] };
        let args = args.iter().map(|a| a.id).collect();
        let mut nodes = self.nodes.borrow_mut();
        nodes.push(Node {
            kind,
            shape: value.shape().into(),
            value: value.into(),
            args,
            rule,
            differentiable,
            reference: None,
        });
        Var {
            tape: self,
            id: nodes.len() - 1,
        }
    }

    /// The node with this number.
    #[doc(hidden)]
    pub fn node(&self, id: NodeId) -> Ref<'_, Node<F>> {
        Ref::map(self.nodes.borrow(), |nodes| &nodes[id])
    }

    /// The value of a node: if it was forgotten, it is computed again.
    #[doc(hidden)]
    pub fn value(&self, id: NodeId) -> Tensor<F> {
        if !self.handle(id).is_kept() {
            self.restore(id);
        }
        let node = self.node(id);
        node.value.get().expect("it is kept").clone()
    }

    /// Computes a forgotten value again, after those of its operands that are forgotten too.
    fn restore(&self, id: NodeId) {
        let (mut forgotten, mut next) = (BTreeSet::from([id]), Some(id));
        while let Some(id) = next {
            let args = self.node(id).args.clone();
            forgotten.extend(args.iter().filter(|&&a| !self.handle(a).is_kept()));
            next = forgotten.range(..id).next_back().copied();
        }
        let tape = Self::new();
        for id in forgotten {
            let node = self.node(id);
            let Some(again) = &node.reference else {
                let op = node.kind.name();
                panic!("{op}: its value was freed by `grad_and_free`")
            };
            let args = node.args.iter().map(|&a| tape.constant(self.value(a)));
            let args: Vec<_> = args.collect();
            let y = again(&args).value();
            assert!(node.value.set(y).is_ok(), "it was forgotten");
        }
    }

    /// The value of a node, which then keeps its shape alone: `again` computes it if it is read. Without one,
    /// and where no derivative flows, it stays: the node of a constant has no operands.
    pub(crate) fn take(&self, id: NodeId, again: Option<Rc<Reference<F>>>) -> Tensor<F> {
        let value = self.value(id);
        let node = &mut self.nodes.borrow_mut()[id];
        if node.differentiable && again.is_some() {
            node.reference = again;
            node.value.take();
        }
        value
    }

    /// The handle to a node.
    #[doc(hidden)]
    pub fn handle(&self, id: NodeId) -> Var<'_, F> {
        Var { tape: self, id }
    }

    /// Frees the value of an operation for good, and what its rule holds.
    pub(super) fn free(&self, id: NodeId) {
        // Dropped when the arena is not borrowed, as in `truncate`.
        let (value, _rule, _reference) = match &mut self.nodes.borrow_mut()[id] {
            node if node.rule.is_some() => {
                (node.value.take(), node.rule.take(), node.reference.take())
            }
            _ => return,
        };
        value.into_iter().for_each(memory::recycle);
    }

    /// Writes down the composition that defines operation `id`.
    pub(super) fn define(&self, id: NodeId, reference: Rc<Reference<F>>) {
        self.nodes.borrow_mut()[id].reference = Some(reference);
    }

    /// Frees every node from `mark` on. Handles to them must not be used again.
    #[doc(hidden)]
    #[inline(never)]
    pub fn truncate(&self, mark: NodeId) {
        // Moved out first: a node's drop may run code, and must not find the arena borrowed.
        let freed = self.nodes.borrow_mut().split_off(mark);
        for node in freed {
            let value = node.value.into_inner();
            value.into_iter().for_each(memory::recycle);
        }
    }

    /// Switches recording for as long as the guard lives.
    pub(crate) fn set_recording(&self, on: bool) -> impl Drop + '_ {
        struct Restore<'a>(&'a Cell<bool>, bool);
        impl Drop for Restore<'_> {
            fn drop(&mut self) {
                self.0.set(self.1);
            }
        }
        Restore(&self.recording, self.recording.replace(on))
    }

    /// Runs `f` in a scratch region: the nodes that `f` appends are freed when it returns, so it must return
    /// plain values.
    #[doc(hidden)]
    pub fn scratch<R: 'static>(&self, recording: bool, f: impl FnOnce() -> R) -> R {
        let mark = self.len();
        let _guard = self.set_recording(recording);
        let result = f();
        self.truncate(mark);
        result
    }
}

impl<F: Real> Drop for Tape<F> {
    /// Memory that is not shared is kept for the next tapes.
    fn drop(&mut self) {
        self.truncate(0);
        memory::end_of_tape::<F>();
    }
}

/// The tensors that a derivative may use: the adjoint of the output, the output, the arguments. See
/// [`Var::unary`].
pub struct Vjp<'t, F: Real> {
    pub(crate) tape: &'t Tape<F>,
    pub(crate) node: NodeId,
    pub(crate) gy: NodeId,
    pub(crate) args: Args,
    /// For each argument: does it lie on a path to a requested variable?
    pub(crate) wanted: SmallVec<[bool; 3]>,
}

impl<'t, F: Real> Vjp<'t, F> {
    fn var(&self, id: NodeId) -> Var<'t, F> {
        Var {
            tape: self.tape,
            id,
        }
    }

    /// The term for argument `k`: computed if it is wanted, else none.
    pub(crate) fn term(&self, k: usize, f: impl FnOnce(&Self) -> Var<'t, F>) -> Option<Var<'t, F>> {
        self.wanted[k].then(|| f(self))
    }

    /// The tape, for constants that a derivative needs.
    pub fn tape(&self) -> &'t Tape<F> {
        self.tape
    }

    /// ȳ, the adjoint of the output.
    pub fn gy(&self) -> Var<'t, F> {
        self.var(self.gy)
    }

    /// The output.
    pub fn y(&self) -> Var<'t, F> {
        self.var(self.node)
    }

    /// Argument `k`.
    ///
    /// # Panics
    /// If the operation has fewer arguments.
    pub fn arg(&self, k: usize) -> Var<'t, F> {
        self.var(self.args[k])
    }

    /// The only argument of a unary operation.
    pub fn x(&self) -> Var<'t, F> {
        self.arg(0)
    }

    /// The first argument of a binary operation.
    pub fn a(&self) -> Var<'t, F> {
        self.arg(0)
    }

    /// The second argument of a binary operation.
    ///
    /// # Panics
    /// If it has only one.
    pub fn b(&self) -> Var<'t, F> {
        self.arg(1)
    }
}
