//! Queries, keys and values that are linear maps of one operand, split into heads.

use super::matrix::Matrix;
use super::rule::Rule;
use crate::autodiff::{Kind, Map as LinearMap};
use crate::real::Real;

/// An operand that is a linear map of another and is split into heads.
pub(super) struct Map {
    pub from: usize,
    pub weight: usize,
    pub bias: Option<usize>,
    /// Rows of the weight.
    rows: usize,
}

impl Map {
    pub fn head(&self, h: usize, heads: usize) -> Matrix {
        let d = self.rows / heads.max(1);
        Matrix {
            node: self.weight,
            rows: Some(h * d..(h + 1) * d),
            transposed: false,
        }
    }
}

/// The maps that computed queries, keys and values.
pub(super) fn maps_of<F: Real>(rule: &Rule<'_, '_, F>) -> Option<[Map; 3]> {
    // A constant per position in keys and values is no part of a linear map: it counts in C_i and Σ_i.
    let [q, k, v] = [(0, true), (1, false), (2, false)];
    let of = |(k, per_position)| map_of(rule, rule.arg(k), per_position);
    Some([of(q)?, of(k)?, of(v)?])
}

/// The map that computed an operand `[.., n, H, d]` of attention: x Wᵀ, a bias that is added, and the split
/// of the last axis into heads.
fn map_of<F: Real>(rule: &Rule<'_, '_, F>, mut id: usize, per_position: bool) -> Option<Map> {
    let known = rule.known;
    let operand = rule.shape(id);
    let (&[heads, d], row) = operand
        .split_last_chunk::<2>()
        .map(|(row, last)| (last, row))?;
    let whole = [row, &[heads * d]].concat();
    // The axes of one row: heads and their width, behind the split the last one alone.
    let mut axes = 2;
    let mut bias = None;
    // An operation on constants records no arguments.
    while known.moves(id) {
        let node = known.tape.node(id);
        match node.kind {
            Kind::Linear(LinearMap::Reshape)
                if bias.is_none() && axes == 2 && rule.shape(node.args[0]) == whole =>
            {
                id = node.args[0];
                axes = 1;
            }
            Kind::Add if bias.is_none() && !known.moves(node.args[1]) => {
                let (all, added) = (rule.shape(id), rule.shape(node.args[1]));
                let in_front = added.len().checked_sub(axes)?;
                // Of full width: a number that is broadcast has another norm than the bias that it is.
                let is_whole = added[in_front..] == all[all.len() - axes..];
                let is_same = added[..in_front].iter().all(|&n| n == 1);
                if !is_whole || !(per_position || is_same) {
                    return None;
                }
                bias = Some(node.args[1]);
                id = node.args[0];
            }
            Kind::MatMul { transposed: true } if !known.moves(node.args[1]) => {
                let rows = known.tape.node(node.args[1]).shape[0];
                return (rows == heads * d && (axes == 1 || heads == 1)).then_some(Map {
                    from: node.args[0],
                    weight: node.args[1],
                    bias,
                    rows,
                });
            }
            _ => return None,
        }
    }
    None
}
