//! The effect of operations between layers on the symmetries of their operands: the table of
//! `docs/evidence/conservation.md`.
//!
//! The neurons of a stream are the entries of the last axis; the other axes number the rows. Each kind
//! of operation has an answer. An operation of which nothing is known breaks everything, so a list of
//! laws may be too short, but is never false. `tests/operations/passages.rs` changes real operands of every
//! registered operation and compares the output with the table.

use super::Node;
use super::relation::{Relation, equal, product, sum, worse};
use crate::autodiff::{Kind, Map};
use crate::symmetry::{Change, Passage, Way};

/// How an operation combines its operands.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Join {
    /// One operand.
    One(Passage),
    /// One operand, whose rows are selected or mixed: shifts get a new unit.
    Of(Passage),
    /// Entry by entry a + c b: both operands must have changed alike. The number is c.
    Sum(f64),
    /// Entry by entry one of the operands, selected by their values or by a fixed mask.
    Choice,
    /// Rows of all operands, one below the other.
    Rows,
    /// Entry by entry a · b (the number is 1) or a / b (the number is −1).
    Product(f64),
    /// A matrix product: the first operand maps the rows of the second.
    Propagation,
    /// Means of rows of the first operand, with weights computed from the others.
    Means,
    /// A norm of the first operand; then a gain, if it is there, and a bias, if there is a further operand.
    Norm(Passage, bool),
    /// Nothing is known.
    Unknown,
}

/// The relation of node `id` to its stream, from those of its operands. All operands that carry a
/// change must belong to one stream; the caller ensures this (`Streams::operands`).
pub(super) fn relate(nodes: &[Node], id: usize, operands: &[Relation]) -> Relation {
    let node = &nodes[id];
    let stream = operands.iter().find_map(|r| r.stream);
    let Some(&first) = operands.first().filter(|_| stream.is_some()) else {
        return Relation::FIXED;
    };
    let shapes: Vec<&[usize]> = node.args.iter().map(|&a| &nodes[a].shape[..]).collect();
    // The relation of the output to one operand if the others do not change.
    let reached = |k: usize| {
        let relation = operands[k].behind(broadcast(shapes[k], &node.shape));
        // Repeated rows get the shifts of other rows: a unit of their own, which is that of no node.
        match rows(shapes[k]) == rows(&node.shape) {
            true => relation,
            false => Relation {
                shift_base: nodes.len() + k,
                ..relation
            },
        }
    };
    let of = |passage| Relation {
        stream,
        passage,
        ..first
    };
    match known(join(node, &shapes), operands.len()) {
        Join::One(passage) => first.behind(passage),
        Join::Of(passage) => first.behind(passage).shift_anew(id),
        Join::Propagation => {
            let left = first.passage.then(only_all());
            let right = operands[1].passage.then(Passage::ROWS);
            let both = left.zip(right, |_, a, b| match (a, b) {
                (Way::Absorbs, b) => b,
                (Way::Carries(_), Way::Absorbs) => a,
                _ => Way::Breaks,
            });
            of(both).shift_anew(id).offset_anew(id)
        }
        Join::Means => {
            let rows = first.passage.then(Passage::ROWS);
            let others = operands[1..].iter();
            let both = others.fold(rows, |all, r| {
                all.zip(r.passage.then(Passage::BREAKS), |_, a, b| worse(a, b))
            });
            of(both).shift_anew(id).offset_anew(id)
        }
        Join::Product(sign) => {
            let (a, b) = (reached(0), reached(1));
            let alike = [uniform(shapes[0]), uniform(shapes[1])];
            let passage =
                (a.passage).zip(b.passage, |change, a, b| product(change, a, b, sign, alike));
            of(passage).shift_anew(id).offset_anew(id)
        }
        Join::Sum(c) => sum(id, reached(0), reached(1), c, node.epsilon),
        Join::Choice => {
            let first = reached(0);
            let mut passage = first.passage;
            for k in 1..operands.len() {
                let other = reached(k);
                passage = passage.zip(other.passage, |change, a, b| match change {
                    Change::Mix | Change::Turn | Change::Mean if a.carries() || b.carries() => {
                        Way::Breaks
                    }
                    _ if a.carries() && !first.comparable(&other, change) => Way::Breaks,
                    _ => equal(a, b),
                });
            }
            Relation {
                stream,
                passage,
                ..first
            }
        }
        Join::Norm(passage, gain) => {
            let mut found = first.behind(passage);
            if gain {
                let (a, b) = (found.passage, reached(1).passage);
                let gained = a.zip(b, |change, a, b| product(change, a, b, 1.0, [false; 2]));
                found = of(gained).shift_anew(id).offset_anew(id);
            }
            match 1 + usize::from(gain) {
                bias if bias < operands.len() => sum(id, found, reached(bias), 1.0, node.epsilon),
                _ => found,
            }
        }
        Join::Rows => {
            let mut passage = first.passage;
            for other in &operands[1..] {
                passage = passage.zip(other.passage, |change, a, b| match change {
                    Change::Shift => worse(a, b),
                    Change::Offset if a.carries() && !first.comparable(other, change) => {
                        Way::Breaks
                    }
                    _ => equal(a, b),
                });
            }
            of(passage).shift_anew(id)
        }
        Join::Unknown => {
            let broken = operands.iter().map(|r| r.passage.then(Passage::BREAKS));
            of(broken.fold(Passage::ABSORBS, |all, p| all.zip(p, |_, a, b| worse(a, b))))
        }
    }
}

/// Of an operation with fewer operands than its kind has, nothing is known.
fn known(join: Join, operands: usize) -> Join {
    let needed = match join {
        Join::Sum(_) | Join::Product(_) | Join::Propagation | Join::Norm(_, true) => 2,
        _ => 1,
    };
    match operands >= needed {
        true => join,
        false => Join::Unknown,
    }
}

/// The table: how each operation combines its operands.
fn join(node: &Node, shapes: &[&[usize]]) -> Join {
    let (from, to) = (shapes.first().copied().unwrap_or(&[]), &node.shape[..]);
    match &node.kind {
        Kind::Add => Join::Sum(1.0),
        Kind::Subtract => Join::Sum(-1.0),
        Kind::Multiply => Join::Product(1.0),
        Kind::Divide => Join::Product(-1.0),
        Kind::Choice(_) => Join::Choice,
        Kind::Alias | Kind::Declared(_) => Join::One(Passage::CARRIES),
        &Kind::Scale(c) => Join::One(times(c)),
        Kind::AddScalar(0.0) => Join::One(Passage::CARRIES),
        Kind::AddScalar(_) => Join::One(
            Passage::BREAKS
                .with(Change::Shift, Way::Carries(1.0))
                .with(Change::Offset, Way::Carries(1.0)),
        ),
        Kind::Entrywise(function) => match function.degree {
            Some(k) => Join::One(Passage::homogeneous(k)),
            None => Join::Unknown,
        },
        Kind::Dropout { .. } => Join::One(Passage::homogeneous(1.0)),
        Kind::Softmax | Kind::LogSoftmax => Join::One(
            Passage::BREAKS
                .with(Change::Shift, Way::Absorbs)
                .with(Change::Mean, Way::Absorbs),
        ),
        Kind::EdgeAttention { apart: true, .. } => Join::Means,
        &Kind::RowNorm {
            centred, eps, gain, ..
        } => {
            let norm = match centred {
                true => Passage::layer_norm(eps),
                false => Passage::rms_norm(eps),
            };
            Join::Norm(norm, gain)
        }
        Kind::LogSumExp => Join::One(Passage::BREAKS.with(Change::Shift, Way::Carries(1.0))),
        Kind::Extremum { .. } => reduction(false, from, to),
        Kind::SegmentMax if from.len() >= 2 => Join::One(Passage::homogeneous(1.0)),
        Kind::SegmentMax => Join::One(only_all()),
        Kind::Linear(map) => linear(map, from, to),
        Kind::Concat { axis } if axis + 1 != from.len() => Join::Rows,
        Kind::MatMul { transposed: false } | Kind::SparseProduct { .. } => Join::Propagation,
        // x Wᵀ mixes the neurons of x: what reads a stream by a weight is a call with ports.
        Kind::MatMul { transposed: true }
        | Kind::Concat { .. }
        | Kind::SampledProduct(_)
        | Kind::SegmentSoftmax
        | Kind::Attention { .. }
        | Kind::EdgeAttention { apart: false, .. }
        | Kind::Opaque(_)
        | Kind::Variable
        | Kind::Constant => Join::Unknown,
    }
}

/// A linear map of one operand.
fn linear(map: &Map, from: &[usize], to: &[usize]) -> Join {
    // Whether the axis is the last one, that of the neurons.
    let last = |axis: usize| axis + 1 == from.len();
    let matrix = from.len() >= 2;
    match *map {
        Map::Sum => reduction(true, from, to),
        Map::Broadcast if rows(from) == rows(to) => Join::One(broadcast(from, to)),
        // A repeated row gets the shift of the row that it repeats.
        Map::Broadcast => Join::Of(broadcast(from, to)),
        Map::Reshape if from.last() == to.last() && !from.is_empty() => Join::One(Passage::CARRIES),
        // The neurons as groups, each of which is a row.
        Map::Reshape if splits(from, to) => {
            Join::Of(only_all().with(Change::Shift, Way::Carries(1.0)))
        }
        Map::Permute { last: true } => Join::Of(Passage::CARRIES),
        Map::Select { axis, .. } | Map::Slice { axis } if !last(axis) => Join::Of(Passage::CARRIES),
        Map::Scatter { axis, .. } | Map::Pad { axis } if !last(axis) => Join::Of(Passage::ROWS),
        Map::GatherRows(_) | Map::GatherColumns(_) if matrix => Join::Of(Passage::CARRIES),
        Map::SegmentSum(_) | Map::SegmentSumColumns(_) if matrix => Join::Of(Passage::ROWS),
        Map::SumTo
        | Map::Reshape
        | Map::Permute { .. }
        | Map::Select { .. }
        | Map::Slice { .. }
        | Map::Scatter { .. }
        | Map::Pad { .. }
        | Map::GatherRows(_)
        | Map::GatherColumns(_)
        | Map::SegmentSum(_)
        | Map::SegmentSumColumns(_)
        | Map::Rotate
        | Map::Own { .. } => Join::One(only_all()),
    }
}

/// A sum (`sums`), a maximum or a minimum over axes, which remain with size 1. Where they do not, the shapes
/// do not say which they were.
fn reduction(sums: bool, from: &[usize], to: &[usize]) -> Join {
    if from.len() != to.len() {
        return Join::Of(only_all());
    }
    let reduced = |k: usize| from[k] != to[k];
    let rows = (0..from.len().saturating_sub(1)).any(reduced);
    let neurons = from.len().checked_sub(1).is_some_and(reduced);
    let count = |axes: &[usize]| axes.iter().product::<usize>() as f64;
    let d = from.last().copied().unwrap_or(1) as f64;
    let (n, m) = (count(self::rows(from)), count(self::rows(to)));
    // If an axis of the rows has size 1, the shapes do not show whether it was reduced.
    let single = from.len() > 1 && from[..from.len() - 1].contains(&1);
    let passage = match (neurons, rows, sums) {
        (false, false, _) if single => return Join::Of(Passage::ROWS),
        (false, false, _) => Passage::CARRIES,
        (false, true, true) => Passage::CARRIES.with(Change::Offset, Way::Carries(n / m)),
        (false, true, false) => Passage::homogeneous(1.0).with(Change::Offset, Way::Carries(1.0)),
        (true, false, true) => total().with(Change::Shift, Way::Carries(d)),
        (true, false, false) => only_all().with(Change::Shift, Way::Carries(1.0)),
        (true, true, true) => total(),
        (true, true, false) => only_all(),
    };
    match rows {
        true => Join::Of(passage),
        false => Join::One(passage),
    }
}

/// Only a factor of the whole stream passes.
fn only_all() -> Passage {
    Passage::BREAKS.with(Change::All, Way::Carries(1.0))
}

/// The passage of a sum over neurons (n times the mean of a row), or of a number that is repeated for all
/// neurons (and is then their mean).
fn total() -> Passage {
    only_all().with(Change::Mean, Way::Carries(1.0))
}

/// The passage of c x.
fn times(c: f64) -> Passage {
    if c == 0.0 {
        return Passage::ABSORBS;
    }
    Passage::CARRIES
        .with(Change::Shift, Way::Carries(c))
        .with(Change::Offset, Way::Carries(c))
}

/// The passage of an operand of shape `from` that is repeated to shape `to`.
fn broadcast(from: &[usize], to: &[usize]) -> Passage {
    match (from.last(), to.last()) {
        (a, b) if a == b => Passage::CARRIES,
        _ => total().with(Change::Shift, Way::Carries(1.0)),
    }
}

/// Whether a reshape only splits the axis of the neurons.
fn splits(from: &[usize], to: &[usize]) -> bool {
    let neurons = from.last().copied().unwrap_or(1);
    let kept = rows(from).len();
    kept < to.len() && to[..kept] == *rows(from) && to[kept..].iter().product::<usize>() == neurons
}

/// The axes that number the rows.
fn rows(shape: &[usize]) -> &[usize] {
    shape.split_last().map_or(&[], |(_, rows)| rows)
}

/// Whether an operand has one number per row, or a single one: a product with it treats all neurons
/// alike.
fn uniform(shape: &[usize]) -> bool {
    shape.last().is_none_or(|&d| d == 1)
}
