//! The part of a tape that a backward sweep visits, and the sweep: one, for both modes.

use super::Var;
use super::tape::{NodeId, Tape, Vjp};
use crate::kernels;
use crate::real::Real;
use crate::tensor::{Tensor, memory};
use smallvec::SmallVec;

/// The nodes between the xs and y, which a sweep has to visit.
pub(super) struct Path {
    /// The smallest id asked for; nothing below it matters.
    low: NodeId,
    /// For each node from `low` to y: does it depend on an x?
    reaches: Vec<bool>,
    /// For each node from `low` to y: is it an x?
    wanted: Vec<bool>,
    /// Whether the sweep frees the values that it has passed.
    pub(super) frees: bool,
}

impl Path {
    #[inline(never)]
    pub(super) fn new<F: Real>(y: Var<'_, F>, xs: &[Var<'_, F>]) -> Self {
        // An x made after y cannot have influenced it.
        let earlier = xs.iter().map(|x| x.id).filter(|&id| id <= y.id);
        let low = earlier.clone().min().unwrap_or(y.id);
        let mut reaches = vec![false; y.id + 1 - low];
        for id in earlier {
            reaches[id - low] = true;
        }
        let wanted = reaches.clone();
        for id in low..=y.id {
            let node = y.tape.node(id);
            let through = |&arg: &NodeId| arg >= low && reaches[arg - low];
            if node.args.iter().any(through) {
                reaches[id - low] = true;
            }
        }
        Self {
            low,
            reaches,
            wanted,
            frees: false,
        }
    }

    fn contains(&self, id: NodeId) -> bool {
        id >= self.low && self.reaches[id - self.low]
    }

    /// Visits the nodes from y down, so that every consumer comes before its arguments and sums have a fixed
    /// order. Returns the adjoints of the xs, from that of y.
    #[inline(never)]
    pub(super) fn sweep<'t, F: Real, A: Adjoint<'t, F>>(
        &self,
        tape: &'t Tape<F>,
        seed: A,
        xs: &[Var<'_, F>],
    ) -> Vec<A> {
        let mut adjoints: Vec<Option<A>> = vec![None; self.reaches.len()];
        *adjoints.last_mut().expect("y is on the path") = Some(seed);
        for slot in (0..adjoints.len()).rev() {
            // The adjoints of the xs are kept; every other adjoint is moved out, and freed as soon as it has
            // been used.
            let finished = match self.wanted[slot] {
                true => adjoints[slot].clone(),
                false => adjoints[slot].take(),
            };
            let Some(gy) = finished.filter(|_| self.reaches[slot]) else {
                continue;
            };
            for (arg, term) in gy.pull(self, tape, self.low + slot) {
                match &mut adjoints[arg - self.low] {
                    Some(sum) => sum.add(term),
                    empty => *empty = Some(term),
                }
            }
            if self.frees && slot + 1 < self.reaches.len() {
                tape.free(self.low + slot);
            }
        }
        let found = |x: &Var<'_, F>| adjoints.get(x.id.checked_sub(self.low)?)?.clone();
        let zeros = |x: &Var<'_, F>| A::constant(tape, Tensor::zeros(x.shape()));
        xs.iter()
            .map(|x| found(x).unwrap_or_else(|| zeros(x)))
            .collect()
    }

    /// The terms that node `id`, whose adjoint is `gy`, adds to the adjoints of its arguments on the path.
    #[inline(never)]
    fn contributions<'t, F: Real>(&self, id: NodeId, gy: Var<'t, F>) -> Vec<(NodeId, Var<'t, F>)> {
        let tape = gy.tape;
        // Copied out, so that the arena is not borrowed while the rule runs.
        let (op, args, rule) = {
            let node = tape.node(id);
            (node.kind.name(), node.args.clone(), node.rule.clone())
        };
        let wanted: SmallVec<_> = args.iter().map(|&arg| self.contains(arg)).collect();
        if !wanted.contains(&true) {
            return Vec::new();
        }
        let Some(rule) = rule else {
            panic!("{op}: it was freed by `grad_and_free`")
        };
        let p = Vjp {
            tape,
            node: id,
            gy: gy.id,
            args,
            wanted,
        };
        let terms = rule(&p);
        let on_path = (0..p.args.len()).filter(|&k| p.wanted[k]);
        on_path
            .map(|k| {
                let Some(term) = terms.get(k).copied().flatten() else {
                    panic!("{op}: it has no derivative with respect to argument {k}")
                };
                let (found, expected) = (term.shape(), p.arg(k).shape());
                assert!(
                    found == expected,
                    "{op}: its derivative with respect to argument {k} has shape {found:?}, that argument {expected:?}: they must be equal"
                );
                (p.args[k], term)
            })
            .collect()
    }
}

/// An adjoint in one of the two modes. The mode decides whether the nodes that a rule records stay; see
/// [`super::grad`].
pub(super) trait Adjoint<'t, F: Real>: Clone {
    /// [`Path::contributions`] of node `id`, whose adjoint this is.
    fn pull(self, path: &Path, tape: &'t Tape<F>, id: NodeId) -> Vec<(NodeId, Self)>;

    fn add(&mut self, term: Self);

    fn constant(tape: &'t Tape<F>, value: Tensor<F>) -> Self;
}

/// Values: a rule runs in a scratch region.
impl<'t, F: Real> Adjoint<'t, F> for Tensor<F> {
    fn pull(self, path: &Path, tape: &'t Tape<F>, id: NodeId) -> Vec<(NodeId, Self)> {
        tape.scratch(false, || {
            let terms = path.contributions(id, tape.constant(self));
            terms.into_iter().map(|(arg, g)| (arg, g.value())).collect()
        })
    }

    fn add(&mut self, term: Self) {
        kernels::map::add_assign(self, &term);
        memory::recycle(term);
    }

    fn constant(_: &'t Tape<F>, value: Tensor<F>) -> Self {
        value
    }
}

/// A graph: the nodes that a rule records stay on the tape.
impl<'t, F: Real> Adjoint<'t, F> for Var<'t, F> {
    fn pull(self, path: &Path, _: &'t Tape<F>, id: NodeId) -> Vec<(NodeId, Self)> {
        path.contributions(id, self)
    }

    fn add(&mut self, term: Self) {
        *self = *self + term;
    }

    fn constant(tape: &'t Tape<F>, value: Tensor<F>) -> Self {
        tape.constant(value)
    }
}
