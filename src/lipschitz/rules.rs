//! The table of rules: how the bound of an operation follows from the bounds of its operands.
//!
//! Each kind of operation has an answer. An operation that says nothing of itself has no bound, so that a
//! result is never too small.

use super::attention::{self, Scores};
use super::known::{Domain, Known, Slot};
use super::moments;
use super::reach::least;
use super::rule::{Rule, TreeResult};
use super::softmax::softmax_norm;
use super::sparse::{self, degrees};
use super::tree::{Tree, number, product, root, sum};
use crate::autodiff::{Function, Kind, Map};
use crate::linalg::{Lower, Lp, Upper};
use crate::real::Real;
use std::rc::Rc;

/// The constant of node `id`, from the constants of its arguments, at least one of which depends on the
/// input.
pub(super) fn derive<F: Real>(known: &Known<'_, F>, id: usize, slots: &[Slot]) -> Slot {
    let constants: Vec<Option<Rc<Tree>>> = slots
        .iter()
        .map(|slot| match slot {
            Slot::Moves(tree) => Some(Rc::clone(tree)),
            _ => None,
        })
        .collect();
    let rule = Rule {
        known,
        id,
        constants,
    };
    let unbounded = slots.iter().find(|s| matches!(s, Slot::Unbounded { .. }));
    // A norm has a bound although the squares under its root have none.
    match (unbounded, rule.norm()) {
        (Some(_), Some(norm)) => Slot::Moves(norm),
        (Some(unbounded), None) => unbounded.clone(),
        (None, norm) => match (rule.apply(), norm) {
            (Ok(tree), Some(norm)) => Slot::Moves(Rc::new(Tree::Min(vec![norm, tree]))),
            (Ok(tree), None) | (Err(_), Some(tree)) => Slot::Moves(tree),
            (Err(reason), None) => Slot::Unbounded { node: id, reason },
        },
    }
}

impl<F: Real> Rule<'_, '_, F> {
    fn apply(&self) -> TreeResult {
        let node = self.known.tape.node(self.id);
        match &node.kind {
            Kind::Alias
            | Kind::Declared(_)
            | Kind::AddScalar(_)
            | Kind::Extremum { .. }
            | Kind::SegmentMax
            | Kind::LogSumExp => self.times(number(1.0)),
            Kind::Entrywise(function) => self.times(self.steepest(function)?),
            Kind::Scale(c) => self.times(number(c.abs())),
            Kind::Dropout { factor } => self.times(number(*factor)),
            Kind::Linear(map) => self.times(self.map_norm(map)),
            Kind::Add | Kind::Subtract => self.joined(Joined::Sum),
            Kind::Choice(_) => self.joined(Joined::Choice),
            Kind::Concat { .. } => self.joined(Joined::Concat),
            Kind::Multiply => self.entrywise_product(),
            Kind::Divide => self.quotient(),
            Kind::MatMul { transposed } => self.matrix_product(*transposed),
            Kind::SparseProduct {
                pattern,
                transposed,
            } => sparse::matrix_product(self, pattern, *transposed),
            Kind::SampledProduct(pattern) => sparse::sampled(self, pattern),
            Kind::Softmax if self.known.domain == Domain::Here => {
                let y = self.known.tape.value(self.id).mapv(Real::as_f64);
                let last = ndarray::Axis(y.ndim() - 1);
                let norms = y.lanes(last).into_iter().map(|p| {
                    let p: Vec<f64> = p.iter().copied().collect();
                    softmax_norm(&p, self.p())
                });
                let worst = norms.fold(0.0, |m: f64, n| if n > m || n.is_nan() { n } else { m });
                match worst.is_nan() {
                    true => Err("a softmax that is not a number".into()),
                    false => self.times(Rc::new(Tree::Here(Upper::rounded(worst, 1e-12)))),
                }
            }
            Kind::Softmax | Kind::SegmentSoftmax => self.times(number(0.5)),
            Kind::LogSoftmax => {
                // I − 1 pᵀ, whose norm is convex in p: the worst p is a corner of the simplex.
                let n = self.shape(self.id).last().copied().unwrap_or(1);
                self.times(match self.p() {
                    Lp::One => number((n.max(2) - 1) as f64),
                    Lp::Two => root(n),
                    Lp::Inf => number(2.0),
                })
            }
            &Kind::RowNorm {
                centred, eps, gain, ..
            } => self.row_norm(centred, eps, gain),
            Kind::Attention { options, beta, t } => {
                let t = t.then(|| node.args[3 + usize::from(*beta)]);
                let beta = beta.then(|| node.args[3]);
                attention::bound(self, &Scores { options, beta, t })
            }
            Kind::EdgeAttention { .. } | Kind::Opaque(_) | Kind::Variable | Kind::Constant => {
                Err("nothing is known of it".into())
            }
        }
    }

    /// The norm of a linear map.
    fn map_norm(&self, map: &Map) -> Rc<Tree> {
        let (p, dual) = (self.p(), self.p().dual());
        let count = |id: usize| self.shape(id).iter().product::<usize>().max(1);
        match map {
            Map::Reshape | Map::Permute { .. } | Map::Slice { .. } | Map::Pad { .. } => number(1.0),
            // |cos| + |sin| in a row and in a column.
            Map::Rotate => match p {
                Lp::Two => number(1.0),
                _ => root(2),
            },
            Map::Sum | Map::SumTo => self.copies(count(self.arg(0)) / count(self.id), dual),
            Map::Broadcast => self.repeated(0),
            Map::Select { indices, .. } => self.copies(most_frequent(indices), p),
            Map::Scatter { indices, .. } => self.copies(most_frequent(indices), dual),
            Map::GatherRows(pattern) => self.copies(degrees(pattern).0, p),
            Map::GatherColumns(pattern) => self.copies(degrees(pattern).1, p),
            Map::SegmentSum(pattern) => self.copies(degrees(pattern).0, dual),
            Map::SegmentSumColumns(pattern) => self.copies(degrees(pattern).1, dual),
            Map::Own { norms, .. } => number(match p {
                Lp::One => norms[0],
                Lp::Two => norms[1],
                Lp::Inf => norms[2],
            }),
        }
    }

    /// a + b, or one of the two entry by entry, or both side by side.
    fn joined(&self, how: Joined) -> TreeResult {
        let concat = how == Joined::Concat;
        let parts = self.constants.iter().enumerate().filter_map(|(k, own)| {
            let own = own.clone()?;
            let repeated = if concat {
                number(1.0)
            } else {
                self.repeated(k)
            };
            Some(product(vec![repeated, own]))
        });
        let parts: Vec<_> = parts.collect();
        if let [only] = &parts[..] {
            return Ok(Rc::clone(only));
        }
        let tree = match (how == Joined::Sum, self.p()) {
            (true, _) => Tree::Sum(parts),
            // Entries of a maximum move by no more than one of the two.
            (false, Lp::Inf) => Tree::Max(parts),
            (false, Lp::Two) if concat && self.same(&parts) => {
                return Ok(product(vec![root(parts.len()), Rc::clone(&parts[0])]));
            }
            (false, Lp::Two) => Tree::Hypot(parts),
            (false, Lp::One) => Tree::Sum(parts),
        };
        Ok(Rc::new(tree))
    }

    fn same(&self, parts: &[Rc<Tree>]) -> bool {
        parts.iter().all(|part| Rc::ptr_eq(part, &parts[0]))
    }

    /// a ⊙ b: the constant of each, times the reach of the other.
    fn entrywise_product(&self) -> TreeResult {
        let mut parts = Vec::new();
        for (k, own) in self.constants.iter().enumerate() {
            let Some(own) = own else { continue };
            let other = self.arg(1 - k);
            let limit = match self.known.moves(other) {
                false => Rc::new(Tree::MaxAbs(other)),
                true => (self.known.reach(other).entry).ok_or(
                    "a product of two operands that depend on the input and have no limits",
                )?,
            };
            parts.push(product(vec![limit, self.repeated(k), Rc::clone(own)]));
        }
        Ok(sum(parts))
    }

    /// a / b: the constant of a by 1/|b|, and that of b by |a|/b². Either b is fixed, or its values are known
    /// ([`Domain::Here`]) or limited ([`Domain::Ball`]), or it has a positive lower limit.
    fn quotient(&self) -> TreeResult {
        let (a, b) = (self.arg(0), self.arg(1));
        let least = least(self.known, b);
        let limited = (least > 0.0).then(|| Rc::new(Tree::Number(Upper::ONE / Lower::new(least))));
        let near = self.known.distance(b);
        let near = near.map(|distance| Rc::new(Tree::Recip(b, Some(distance))));
        let recip = match self.known.moves(b) && self.known.domain != Domain::Here {
            false => Rc::new(Tree::Recip(b, None)),
            true => match (limited, near) {
                (Some(limited), Some(near)) => Rc::new(Tree::Min(vec![limited, near])),
                (limited, near) => limited
                    .or(near)
                    .ok_or("a division by something that depends on the input")?,
            },
        };
        let mut parts = Vec::new();
        if let Some(own) = &self.constants[1] {
            let limit = match self.known.moves(a) && self.known.domain != Domain::Here {
                false => Rc::new(Tree::MaxAbs(a)),
                true => (self.known.reach(a).entry)
                    .ok_or("a division of something that has no limits by something that depends on the input")?,
            };
            let own = Rc::clone(own);
            parts.push(product(vec![
                limit,
                Rc::clone(&recip),
                Rc::clone(&recip),
                self.repeated(1),
                own,
            ]));
        }
        if let Some(own) = &self.constants[0] {
            parts.push(product(vec![recip, self.repeated(0), Rc::clone(own)]));
        }
        Ok(sum(parts))
    }

    /// LayerNorm and RMSNorm: their Jacobian is diag(γ) (a projection) / √(var + ε), or in place of the
    /// projection a matrix between 0 and one.
    fn row_norm(&self, centred: bool, eps: f64, gain: bool) -> TreeResult {
        let node = self.known.tape.node(self.id);
        if node.args[1..].iter().any(|&a| self.known.moves(a)) {
            return Err("its gain depends on the input".into());
        }
        let shape = node.shape.to_vec();
        let d = shape.last().copied().unwrap_or(1);
        // Rows do not interact; within a row ‖·‖_p ≤ √d ‖·‖₂ for p = 1, and likewise for ∞.
        let spread = match self.p() {
            Lp::Two => Upper::ONE,
            _ => Upper::new(d as f64).sqrt(),
        };
        let x = node.args[0];
        let anywhere = moments::largest_scale(0.0, eps) * spread;
        let scale = match (self.known.domain, self.known.distance(x)) {
            (Domain::Here, _) => {
                let values = self.known.tape.value(x).mapv(Real::as_f64);
                let root = moments::least_root(&values, centred);
                Tree::Here(moments::largest_scale(root, eps) * spread)
            }
            (_, Some(distance)) => Tree::NearNorm {
                node: x,
                centred,
                eps,
                distance,
            },
            _ => Tree::Number(anywhere),
        };
        match scale {
            Tree::Here(scale) if !scale.is_finite() => {
                return Err("its input has a row without variance, and ε is 0".into());
            }
            Tree::Number(scale) if !scale.is_finite() => {
                return Err("ε is 0, and an input may have any variance".into());
            }
            _ => {}
        }
        let gain = gain.then(|| Rc::new(Tree::MaxAbs(node.args[1])));
        let scale = Some(Rc::new(scale));
        self.times(product([scale, gain].into_iter().flatten().collect()))
    }

    /// The largest slope of a function of each entry: over the entries at the recorded input, near them, or
    /// over all that are possible.
    fn steepest(&self, function: &Function) -> TreeResult {
        let x = self.arg(0);
        let known = self.known;
        if known.domain == Domain::Here {
            let value = known.tape.value(x).mapv(Real::as_f64);
            let slopes = value
                .iter()
                .flat_map(|&x| function.slope_at(x))
                .map(f64::abs);
            let worst = slopes.fold(0.0, |m: f64, s| if s > m || s.is_nan() { s } else { m });
            if !worst.is_nan() {
                return Ok(Rc::new(Tree::Here(Upper::new(worst))));
            }
        }
        let own = self.steepest_anywhere(function);
        let Some(distance) = known.distance(x).filter(|_| function.turns.is_some()) else {
            return own;
        };
        let near = Rc::new(Tree::Near(*function, x, distance));
        Ok(own.map_or(Rc::clone(&near), |own| Rc::new(Tree::Min(vec![own, near]))))
    }

    /// The largest slope over all arguments, or over those between their limits.
    fn steepest_anywhere(&self, function: &Function) -> TreeResult {
        let x = self.arg(0);
        let known = self.known;
        if function.steepest().is_finite() {
            return Ok(number(function.steepest()));
        }
        let least = least(known, x);
        let above = function.slopes_on(least, f64::INFINITY);
        let above = above[0].abs().max(above[1].abs());
        if least.is_finite() && above.is_finite() {
            return Ok(number(above));
        }
        let reach = known.reach(x).entry.filter(|_| function.turns.is_some());
        let reach = reach.ok_or_else(|| {
            "its slope has no limit for the arguments that it may get (limit the input: `Domain::Rows`, \
             `Domain::Ball` or `Domain::Here`)"
                .to_string()
        })?;
        // A formula that can be differentiated.
        if function.power == Some(2.0) {
            return Ok(product(vec![number(2.0), reach]));
        }
        Ok(Rc::new(Tree::Steepest(*function, least, reach)))
    }

    /// √(a Σ z² + b) with a, b ≥ 0, a norm of z: its gradient has the 2-norm √a at most. A sum over m entries
    /// has √(a m) for p = ∞.
    fn norm(&self) -> Option<Rc<Tree>> {
        let tape = self.known.tape;
        let mut id = match &tape.node(self.id).kind {
            Kind::Entrywise(function) if function.power == Some(0.5) => self.arg(0),
            _ => return None,
        };
        let mut a = Upper::ONE;
        let z = loop {
            let node = tape.node(id);
            match &node.kind {
                Kind::Alias | Kind::Linear(Map::Reshape | Map::Sum) => {}
                Kind::AddScalar(c) if *c >= 0.0 => {}
                Kind::Scale(c) if *c >= 0.0 => a = a * Upper::new(*c),
                Kind::Entrywise(f) if f.power == Some(2.0) => break node.args[0],
                Kind::Multiply if node.args[0] == node.args[1] => break node.args[0],
                _ => return None,
            }
            id = node.args[0];
        };
        let Slot::Moves(own) = self.known.slot(z) else {
            return None;
        };
        let size = |id: usize| tape.handle(id).len();
        let m = size(z) / size(self.id).max(1);
        let spread = match self.p() {
            Lp::Inf => Upper::new(m as f64).sqrt(),
            _ => Upper::ONE,
        };
        Some(product(vec![Rc::new(Tree::Number(a.sqrt() * spread)), own]))
    }
}

/// How operands come together.
#[derive(Clone, Copy, PartialEq)]
enum Joined {
    /// Added.
    Sum,
    /// Entry by entry one of them.
    Choice,
    /// One behind the other.
    Concat,
}

/// How often the most frequent index occurs.
pub(super) fn most_frequent(indices: &[usize]) -> usize {
    let mut counts = std::collections::HashMap::new();
    for &index in indices {
        *counts.entry(index).or_insert(0usize) += 1;
    }
    counts.into_values().max().unwrap_or(0)
}
