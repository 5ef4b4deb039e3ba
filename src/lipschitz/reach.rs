//! The reach of values: bounds of their entries and rows. Operations whose slope grows with their argument
//! need them.

use super::bound::Tree;
use super::walk::{Domain, Slot, Walk, product};
use crate::linalg::{Lp, Upper};
use crate::ops::layer_norm::GainAndBias;
use crate::real::Real;
use std::rc::Rc;

/// Bounds of the values of a node for all inputs of the domain, as far as they are known.
#[derive(Debug, Clone, Default)]
pub(super) struct Reach {
    /// The largest 2-norm of a row, along the last axis.
    pub row: Option<Rc<Tree>>,
    /// The largest entry in size.
    pub entry: Option<Rc<Tree>>,
}

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
            _ => Self::default(),
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
    pub fn of<F: Real>(walk: &Walk<'_, F>, id: usize) -> Self {
        let node = walk.tape.node(id);
        let shape = node.value.shape();
        let d = shape.last().copied().unwrap_or(1);
        if walk.domain == Domain::Here {
            return Self::of_input(walk.domain, id);
        }
        // The name of a user's own operation says nothing about its values.
        if node.custom {
            return Self::default();
        }
        // A fixed operand reaches as far as its entries.
        let arg = |k: usize| {
            let a = node.args[k];
            match walk.slot(a) {
                Slot::Fixed => Self {
                    row: Some(Rc::new(Tree::MaxRow(a))),
                    entry: Some(Rc::new(Tree::MaxAbs(a))),
                },
                _ => walk.reach(a),
            }
        };
        let width = |k: usize| {
            let value = &walk.tape.node(node.args[k]).value;
            value.shape().last().copied().unwrap_or(1)
        };
        let reach = match node.op {
            "sigmoid" | "tanh" | "sin" | "cos" | "normal_cdf" => Self::entries(Upper::ONE),
            "softmax" => Self {
                row: Some(number(Upper::ONE)),
                entry: Some(number(Upper::ONE)),
            },
            "segment_softmax" => Self::entries(Upper::ONE),
            "relu" | "abs" | "neg" | "alias" | "gelu" | "gelu_tanh" | "silu" => arg(0),
            "leaky_relu" | "elu" => {
                let slope = if node.constant.is_nan() {
                    1.0
                } else {
                    node.constant
                };
                arg(0).times(&number(Upper::new(slope.abs().max(1.0))))
            }
            "scale" => arg(0).times(&number(Upper::new(node.constant.abs()))),
            "add" | "sub" => {
                let (a, b) = (arg(0), arg(1));
                // A row that is repeated along the last axis has another norm.
                let same = width(0) == width(1);
                Self {
                    row: a.row.zip(b.row).filter(|_| same).map(|(a, b)| sum(a, b)),
                    entry: a.entry.zip(b.entry).map(|(a, b)| sum(a, b)),
                }
            }
            "mul" => {
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
            "layer_norm" | "rms_norm" => {
                let root = number(Upper::new(d as f64).sqrt());
                let parts = walk.tape.note::<GainAndBias>(id);
                let gain = parts.as_ref().and_then(|p| p.gain);
                let gain = gain.map(|g| Rc::new(Tree::MaxAbs(g)));
                let row = product([Some(root), gain].into_iter().flatten().collect());
                let row = match parts.and_then(|p| p.bias) {
                    Some(bias) => sum(row, Rc::new(Tree::MaxRow(bias))),
                    None => row,
                };
                Self {
                    row: Some(row),
                    entry: None,
                }
            }
            "matmul" | "linear" if !walk.moves(node.args[1]) => {
                let norm = Tree::Norm(Lp::Two, vec![node.args[1].into()]);
                Self {
                    row: arg(0).row.map(|row| product(vec![Rc::new(norm), row])),
                    entry: None,
                }
            }
            "reshape" => {
                let (from, to) = (width(0), d);
                let a = arg(0);
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
            "permute" => {
                // Only a permutation that leaves the last axis in its place keeps rows; such a permutation
                // leaves a note.
                let a = arg(0);
                Self {
                    row: a.row.filter(|_| node.constant == 1.0),
                    entry: a.entry,
                }
            }
            "slice" | "pad" | "gather_rows" | "gather_columns" => arg(0),
            // Columns may be chosen twice.
            "index_select" => {
                let a = arg(0);
                Self {
                    row: a.row.filter(|_| node.constant + 1.0 < shape.len() as f64),
                    entry: a.entry,
                }
            }
            "max" | "min" | "segment_max" | "broadcast_to" => Self {
                row: None,
                ..arg(0)
            },
            "dropout" => arg(0).times(&number(Upper::new(node.constant))),
            "attend" => {
                // Means of the rows of v; `attend` keeps the axes of q.
                let v = arg(2);
                Self {
                    row: v.row,
                    entry: v.entry,
                }
            }
            "concat" => {
                let all: Option<Vec<_>> = (0..node.args.len()).map(|k| arg(k).entry).collect();
                Self {
                    row: None,
                    entry: all.map(|all| Rc::new(Tree::Max(all))),
                }
            }
            _ => Self::default(),
        };
        reach.completed(d)
    }
}
