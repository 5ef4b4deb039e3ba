//! The reach of values: bounds of their entries and rows. Operations whose slope grows with their argument
//! need them.

use super::attention;
use super::known::{Domain, Known, Reach, Slot};
use super::tree::{Tree, product};
use crate::autodiff::{Kind, Map};
use crate::linalg::{Lp, Upper};
use crate::real::Real;
use std::rc::Rc;

fn number(x: Upper) -> Rc<Tree> {
    Rc::new(Tree::Number(x))
}

fn sum(a: Rc<Tree>, b: Rc<Tree>) -> Rc<Tree> {
    Rc::new(Tree::Sum(vec![a, b]))
}

impl Reach {
    /// The reach of the input, node `id`.
    pub fn of_input(domain: Domain, id: usize) -> Self {
        match domain {
            Domain::Here => Self {
                row: Some(Rc::new(Tree::MaxRow(id))),
                entry: Some(Rc::new(Tree::MaxAbs(id))),
            },
            Domain::Rows(radius) => Self {
                row: Some(number(Upper::new(radius))),
                entry: Some(number(Upper::new(radius))),
            },
            Domain::Ball(radius) => Self::near(id, number(Upper::new(radius))),
            Domain::Everywhere => Self::default(),
        }
    }

    /// The reach of a node whose values are within this 2-norm distance from those that are recorded.
    fn near(id: usize, distance: Rc<Tree>) -> Self {
        Self {
            row: Some(sum(Rc::new(Tree::MaxRow(id)), Rc::clone(&distance))),
            entry: Some(sum(Rc::new(Tree::MaxAbs(id)), distance)),
        }
    }

    /// The smaller of two bounds each.
    fn or(self, other: Self) -> Self {
        let least = |a: Option<Rc<Tree>>, b: Option<Rc<Tree>>| match (a, b) {
            (Some(a), Some(b)) => Some(Rc::new(Tree::Min(vec![a, b]))),
            (a, b) => a.or(b),
        };
        Self {
            row: least(self.row, other.row),
            entry: least(self.entry, other.entry),
        }
    }

    fn entries(limit: Upper) -> Self {
        Self {
            row: None,
            entry: Some(number(limit)),
        }
    }

    /// Computes one bound from the other if it is missing, for rows of d entries.
    fn completed(self, d: usize) -> Self {
        let root = number(Upper::new(d as f64).sqrt());
        let row = self.row.clone().or_else(|| {
            let entry = self.entry.clone()?;
            Some(product(vec![root, entry]))
        });
        let entry = self.entry.or(self.row);
        Self { row, entry }
    }

    fn times(self, factor: &Rc<Tree>) -> Self {
        let times = |t: Rc<Tree>| product(vec![Rc::clone(factor), t]);
        Self {
            row: self.row.map(times),
            entry: self.entry.map(times),
        }
    }

    /// The reach of node `id`, from those of its arguments.
    pub fn of<F: Real>(known: &Known<'_, F>, id: usize) -> Self {
        if known.domain == Domain::Here {
            return Self::of_input(known.domain, id);
        }
        let node = known.tape.node(id);
        let shape = &node.shape;
        let d = shape.last().copied().unwrap_or(1);
        // A fixed operand reaches as far as its entries.
        let arg = |k: usize| {
            let a = node.args[k];
            match known.slot(a) {
                Slot::Fixed => Self::of_input(Domain::Here, a),
                _ => known.reach(a),
            }
        };
        let width = |k: usize| {
            let shape = &known.tape.node(node.args[k]).shape;
            shape.last().copied().unwrap_or(1)
        };
        let reach = match &node.kind {
            Kind::Alias | Kind::Declared(_) => arg(0),
            Kind::Entrywise(function) => {
                let [low, high] = function.range;
                let most = low.abs().max(high.abs());
                match function.growth {
                    _ if most.is_finite() => Self::entries(Upper::new(most)),
                    Some(growth) => arg(0).times(&number(Upper::new(growth))),
                    None => Self::default(),
                }
            }
            Kind::Scale(c) => arg(0).times(&number(Upper::new(c.abs()))),
            Kind::AddScalar(c) => Self {
                row: None,
                entry: (arg(0).entry).map(|entry| sum(entry, number(Upper::new(c.abs())))),
            },
            Kind::Dropout { factor } => arg(0).times(&number(Upper::new(*factor))),
            Kind::Linear(map) => {
                let a = arg(0);
                match map {
                    Map::Reshape => {
                        let (from, to) = (width(0), d);
                        let row = match (from, to) {
                            _ if to > 0 && from.is_multiple_of(to) => a.row,
                            _ if from > 0 && to.is_multiple_of(from) => {
                                let root = number(Upper::new((to / from) as f64).sqrt());
                                a.row.map(|row| product(vec![root, row]))
                            }
                            _ => None,
                        };
                        Self {
                            row,
                            entry: a.entry,
                        }
                    }
                    Map::Permute { last } => Self {
                        row: a.row.filter(|_| *last),
                        entry: a.entry,
                    },
                    Map::Slice { .. } | Map::Pad { .. } => a,
                    // A vector is one row, whose entries may be gathered twice.
                    Map::GatherRows(_) | Map::GatherColumns(_) => Self {
                        row: a.row.filter(|_| shape.len() > 1),
                        entry: a.entry,
                    },
                    // Columns may be chosen twice.
                    Map::Select { axis, .. } => Self {
                        row: a.row.filter(|_| axis + 1 < shape.len()),
                        entry: a.entry,
                    },
                    Map::Broadcast => Self { row: None, ..a },
                    Map::Sum | Map::SumTo => {
                        let terms = known.tape.handle(node.args[0]).len()
                            / known.tape.handle(id).len().max(1);
                        let terms = number(Upper::new(terms as f64));
                        Self {
                            row: None,
                            entry: a.entry.map(|entry| product(vec![terms, entry])),
                        }
                    }
                    Map::Scatter { .. }
                    | Map::SegmentSum(_)
                    | Map::SegmentSumColumns(_)
                    | Map::Rotate
                    | Map::Own { .. } => Self::default(),
                }
            }
            Kind::Add | Kind::Subtract => {
                let (a, b) = (arg(0), arg(1));
                // A row that is repeated along the last axis has another norm.
                let same = width(0) == width(1);
                Self {
                    row: a.row.zip(b.row).filter(|_| same).map(|(a, b)| sum(a, b)),
                    entry: a.entry.zip(b.entry).map(|(a, b)| sum(a, b)),
                }
            }
            Kind::Multiply => {
                let (a, b) = (arg(0), arg(1));
                let entry = a.entry.clone().zip(b.entry.clone());
                let row = match (width(0) == d, width(1) == d) {
                    (true, _) => a.row.zip(b.entry),
                    (_, true) => a.entry.zip(b.row),
                    _ => None,
                };
                let times = |(a, b)| product(vec![a, b]);
                Self {
                    row: row.map(times),
                    entry: entry.map(times),
                }
            }
            // A gain that depends on the input is as large as it is at the recorded one there alone.
            Kind::RowNorm { .. } if node.args[1..].iter().any(|&a| known.moves(a)) => {
                Self::default()
            }
            Kind::RowNorm { gain, bias, .. } => {
                let root = number(Upper::new(d as f64).sqrt());
                let of_gain = gain.then(|| Rc::new(Tree::MaxAbs(node.args[1])));
                let row = product([Some(root), of_gain].into_iter().flatten().collect());
                let row = match bias {
                    true => sum(
                        row,
                        Rc::new(Tree::MaxRow(node.args[1 + usize::from(*gain)])),
                    ),
                    false => row,
                };
                Self {
                    row: Some(row),
                    entry: None,
                }
            }
            Kind::MatMul { .. } if !known.moves(node.args[1]) => {
                let norm = Tree::Norm(Lp::Two, vec![node.args[1].into()]);
                Self {
                    row: arg(0).row.map(|row| product(vec![Rc::new(norm), row])),
                    entry: None,
                }
            }
            // ‖aᵢ B‖ ≤ ‖aᵢ‖ ‖B‖_F, and ‖B‖_F² ≤ rows · max ‖bⱼ‖². An entry of A Bᵀ is a product of
            // two rows.
            Kind::MatMul { transposed } => {
                let b = known.tape.node(node.args[1]);
                let rows = b.shape.iter().rev().nth(1).copied().unwrap_or(1);
                let rows = number(Upper::new(rows as f64).sqrt());
                let both = arg(0).row.zip(arg(1).row);
                let entry = both.clone().filter(|_| *transposed);
                Self {
                    row: both.map(|(a, b)| product(vec![a, rows, b])),
                    entry: entry.map(|(a, b)| product(vec![a, b])),
                }
            }
            Kind::Softmax => Self {
                row: Some(number(Upper::ONE)),
                entry: Some(number(Upper::ONE)),
            },
            Kind::SegmentSoftmax => Self::entries(Upper::ONE),
            Kind::Extremum { .. } | Kind::SegmentMax => Self {
                row: None,
                ..arg(0)
            },
            // Means of the rows of v, whose axes are those of q; dropout multiplies what stays.
            Kind::Attention { options, .. } => arg(2).times(&number(attention::kept(options))),
            Kind::Concat { .. } => {
                let all: Option<Vec<_>> = (0..node.args.len()).map(|k| arg(k).entry).collect();
                Self {
                    row: None,
                    entry: all.map(|all| Rc::new(Tree::Max(all))),
                }
            }
            Kind::Choice(_) => {
                let entries = arg(0).entry.zip(arg(1).entry);
                Self {
                    row: None,
                    entry: entries.map(|(a, b)| Rc::new(Tree::Max(vec![a, b]))),
                }
            }
            Kind::Divide
            | Kind::SparseProduct { .. }
            | Kind::SampledProduct(_)
            | Kind::LogSoftmax
            | Kind::LogSumExp
            | Kind::EdgeAttention { .. }
            | Kind::Opaque(_)
            | Kind::Variable
            | Kind::Constant => Self::default(),
        };
        let reach = reach.completed(d);
        match known.distance(id) {
            Some(distance) => reach.or(Self::near(id, distance)),
            None => reach,
        }
    }
}

/// A number that no entry of node `id` is below, for all inputs; −∞ if none is known.
pub(super) fn least<F: Real>(known: &Known<'_, F>, id: usize) -> f64 {
    if let Some(&found) = known.least.borrow().get(&id) {
        return found;
    }
    let found = match known.moves(id) {
        true => of_operation(known, id),
        false => {
            let value = known.tape.value(id);
            let least = |m: f64, x: &F| match x.is_nan() {
                true => f64::NEG_INFINITY,
                false => m.min(x.as_f64()),
            };
            value.iter().fold(f64::INFINITY, least)
        }
    };
    known.least.borrow_mut().insert(id, found);
    found
}

/// The same from the operands of an operation: 0 for squares and what is made of them.
fn of_operation<F: Real>(known: &Known<'_, F>, id: usize) -> f64 {
    const NONE: f64 = f64::NEG_INFINITY;
    let node = known.tape.node(id);
    let arg = |k: usize| least(known, node.args[k]);
    let elements = |id: usize| known.tape.handle(id).len();
    // Of a sum of entries, some of which may be left out.
    let of_sum = |least: f64| if least >= 0.0 { 0.0 } else { NONE };
    match &node.kind {
        Kind::Alias | Kind::Declared(_) | Kind::Extremum { .. } => arg(0),
        Kind::Entrywise(function) => function.range[0],
        &Kind::Scale(c) if c >= 0.0 && arg(0) > NONE => {
            (c * arg(0)).next_down().max(of_sum(arg(0)))
        }
        Kind::AddScalar(c) => (arg(0) + c).next_down(),
        Kind::Dropout { .. } => of_sum(arg(0)),
        Kind::Linear(map) => match map {
            Map::Reshape
            | Map::Permute { .. }
            | Map::Slice { .. }
            | Map::Select { .. }
            | Map::Broadcast
            | Map::GatherRows(_)
            | Map::GatherColumns(_) => arg(0),
            // At least one entry of each sum.
            Map::Sum | Map::SumTo if arg(0) >= 0.0 && elements(node.args[0]) > 0 => arg(0),
            Map::Sum
            | Map::SumTo
            | Map::Pad { .. }
            | Map::Scatter { .. }
            | Map::SegmentSum(_)
            | Map::SegmentSumColumns(_) => of_sum(arg(0)),
            Map::Rotate | Map::Own { .. } => NONE,
        },
        Kind::SegmentMax => arg(0).min(0.0),
        Kind::Add => (arg(0) + arg(1))
            .next_down()
            .max(of_sum(arg(0).min(arg(1)))),
        Kind::Multiply if node.args[0] == node.args[1] => 0.0,
        Kind::Multiply | Kind::SparseProduct { .. } | Kind::SampledProduct(_) => {
            of_sum(arg(0).min(arg(1)))
        }
        Kind::MatMul { .. } => of_sum(arg(0).min(arg(1))),
        Kind::Choice(_) => arg(0).min(arg(1)),
        Kind::Concat { .. } => (0..node.args.len()).map(arg).fold(f64::INFINITY, f64::min),
        Kind::Softmax | Kind::SegmentSoftmax => 0.0,
        Kind::Attention { .. } => of_sum(arg(2)),
        Kind::Scale(_)
        | Kind::Subtract
        | Kind::Divide
        | Kind::LogSoftmax
        | Kind::LogSumExp
        | Kind::RowNorm { .. }
        | Kind::EdgeAttention { .. }
        | Kind::Opaque(_)
        | Kind::Variable
        | Kind::Constant => NONE,
    }
}
