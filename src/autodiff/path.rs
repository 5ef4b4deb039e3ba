//! The part of a tape that a backward sweep visits, and the sweep.

use super::Var;
use super::tape::{Derivative, Joint, NodeId, Rule, Vjp};
use crate::real::Real;
use crate::tensor::Tensor;

/// The nodes between the xs and y: what a sweep has to visit.
pub(super) struct Path {
    /// The smallest id asked for; nothing below it matters.
    low: NodeId,
    /// For each node from `low` to y: does it depend on an x?
    reaches: Vec<bool>,
    /// For each node from `low` to y: is it an x?
    wanted: Vec<bool>,
}

impl Path {
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
        }
    }

    fn contains(&self, id: NodeId) -> bool {
        id >= self.low && self.reaches[id - self.low]
    }

    /// Visits the nodes from y down, so that every consumer comes before what it consumes and sums have a fixed order. Returns
    /// the adjoints of what was asked for.
    ///
    /// `pull` turns the finished adjoint of a node into contributions to the adjoints of its arguments, `add` sums them.
    pub(super) fn sweep<T: Clone>(
        &self,
        seed: T,
        pull: impl Fn(NodeId, T) -> Vec<(NodeId, T)>,
        add: impl Fn(&mut T, T),
    ) -> Vec<Option<T>> {
        let mut adjoints: Vec<Option<T>> = vec![None; self.reaches.len()];
        *adjoints.last_mut().expect("y is on the path") = Some(seed);
        for slot in (0..adjoints.len()).rev() {
            // What was asked for is kept; the rest is given away, and freed as soon as it has been used.
            let finished = match self.wanted[slot] {
                true => adjoints[slot].clone(),
                false => adjoints[slot].take(),
            };
            let Some(gy) = finished.filter(|_| self.reaches[slot]) else {
                continue;
            };
            for (arg, term) in pull(self.low + slot, gy) {
                match &mut adjoints[arg - self.low] {
                    Some(sum) => add(sum, term),
                    empty => *empty = Some(term),
                }
            }
        }
        adjoints
    }

    /// What one node contributes to the adjoints of those of its arguments that lie on the path.
    pub(super) fn contributions<F: Real, T: Contribution>(
        &self,
        pull: &Vjp<'_, F>,
        rule: &Rule<F>,
        each: impl Fn(&Derivative<F>) -> T,
        joint: impl Fn(&dyn Joint<F>, &[bool]) -> Vec<Option<T>>,
    ) -> Vec<(NodeId, T)> {
        let on: Vec<bool> = pull.args.iter().map(|&id| self.contains(id)).collect();
        let terms = match rule {
            Rule::Leaf => return Vec::new(),
            Rule::Each(rules) => (rules.iter().zip(&on))
                .map(|(rule, &on)| on.then(|| each(rule)))
                .collect(),
            Rule::Joint(rule) => joint(rule.as_ref(), &on),
        };
        let op = pull.tape.node(pull.node).op;
        let mut out = Vec::with_capacity(terms.len());
        for (k, (term, &id)) in terms.into_iter().zip(&pull.args).enumerate() {
            if !on[k] {
                continue;
            }
            let term = term.unwrap_or_else(|| {
                panic!("{op}: it has no derivative with respect to argument {k}")
            });
            let shape = pull.arg(k).shape();
            assert!(
                term.has_shape(&shape),
                "{op}: its derivative with respect to argument {k} does not have that argument's shape {shape:?}"
            );
            out.push((id, term));
        }
        out
    }

    pub(super) fn adjoint<T: Clone>(&self, adjoints: &[Option<T>], id: NodeId) -> Option<T> {
        let slot = id.checked_sub(self.low)?;
        adjoints.get(slot)?.clone()
    }
}

/// An adjoint in either mode; only its shape is of interest here.
pub(super) trait Contribution {
    fn has_shape(&self, shape: &[usize]) -> bool;
}

impl<F: Real> Contribution for Tensor<F> {
    fn has_shape(&self, shape: &[usize]) -> bool {
        self.shape() == shape
    }
}

impl<F: Real> Contribution for Var<'_, F> {
    fn has_shape(&self, shape: &[usize]) -> bool {
        self.shape() == shape
    }
}
