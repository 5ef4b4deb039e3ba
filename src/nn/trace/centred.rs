//! Rows whose mean is zero, and the weights that read them.
//!
//! Each row of the output of a LayerNorm without gain sums to zero. If a weight W reads nothing else, the
//! same number can be added to all entries of a row, W → W + t e_r 1ᵀ, and no output changes.

use super::glue::relate;
use super::relation::Relation;
use super::{Node, Trace, spoken};
use crate::autodiff::Kind;
use crate::symmetry::{Change, Law, Passage, Slice, Symmetry, Term, Way};

/// For each node, whether P y = 0, P = 11ᵀ/n: the entries of each row sum to zero, whatever parameters
/// and data are.
///
/// This follows mostly from the table of operations. A change x + (λ − 1) P x of the mean does not change
/// operands with P x = 0. If the operation carries it, y = y + (λ − 1) P y, hence P y = 0.
pub(super) fn centred(nodes: &[Node]) -> Vec<bool> {
    let source = Relation {
        stream: Some(0),
        passage: Passage::ABSORBS.with(Change::Mean, Way::Carries(1.0)),
        ..Relation::FIXED
    };
    let mut out = vec![false; nodes.len()];
    for (id, node) in nodes.iter().enumerate() {
        let operand = |&a: &usize| if out[a] { source } else { Relation::FIXED };
        let operands: Vec<Relation> = node.args.iter().map(operand).collect();
        let kept = relate(nodes, id, &operands).passage.way(Change::Mean);
        let normalised = match (&node.kind, &node.args[..]) {
            (Kind::RowNorm { centred: true, .. }, [_]) => true,
            // A factor per row.
            (Kind::RowNorm { .. }, &[x]) => out[x],
            _ => false,
        };
        out[id] = kept.carries() || normalised || is_deviation(nodes, id);
    }
    out
}

/// Whether node `id` is x − mean x. Its value y does not depend on the mean, and it carries a change of the
/// mean, as both operands do: so P y = λ P y.
fn is_deviation(nodes: &[Node], id: usize) -> bool {
    let ([x, mean], Kind::Subtract) = (&nodes[id].args[..], &nodes[id].kind) else {
        return false;
    };
    let shape = &nodes[*x].shape;
    let rows = &shape[..shape.len().saturating_sub(1)];
    // Rows stay in their places. If there is a single row, the shapes do not show whether it was reduced.
    let in_place = nodes[id].shape == *shape && nodes[*mean].shape.starts_with(rows);
    if !in_place || rows.contains(&1) {
        return false;
    }
    let mut path = Vec::new();
    let mut at = *mean;
    while at != *x {
        let [from] = nodes[at].args[..] else {
            return false;
        };
        path.push(at);
        at = from;
    }
    let x = Relation {
        stream: Some(0),
        passage: Passage::CARRIES,
        shift_base: at,
        offset_base: at,
    };
    let mean = path
        .into_iter()
        .rev()
        .fold(x, |x, node| relate(nodes, node, &[x]));
    let arrives = |change| mean.passage.way(change).carries();
    let shifted = relate(nodes, id, &[x, mean]).passage.way(Change::Shift);
    arrives(Change::Mean) && arrives(Change::Shift) && shifted == Way::Absorbs
}

/// The laws of the weights that read nothing but centred rows: the gradient of each of their rows sums to
/// zero.
pub(super) fn of_readers(trace: &Trace) -> Vec<Law> {
    let centred = centred(&trace.nodes);
    let law = |(id, node): (usize, &Node)| {
        let parameter = node.parameter?;
        let [out, width] = node.shape[..] else {
            return None;
        };
        let nodes = trace.nodes.iter();
        let mut uses = nodes
            .enumerate()
            .filter(|(_, user)| user.args.contains(&id));
        let (first, _) = uses.clone().next()?;
        let reads = |(_, user): (usize, &Node)| {
            let linear = matches!(user.kind, Kind::MatMul { transposed: true });
            linear && user.args[0] != id && centred[user.args[0]]
        };
        if width == 1 || trace.outputs.contains(&id) || !uses.all(reads) {
            return None;
        }
        let name = &trace.names[parameter];
        Some(Law::new(
            format!(
                "{}, rows",
                spoken(name.strip_suffix(".weight").unwrap_or(name))
            ),
            trace.owner[first].map_or(1, |call| trace.layer(call).max(1)),
            Symmetry::Translation,
            vec![Term::incoming(Slice::new(parameter, [1, out, width]))],
        ))
    };
    trace.nodes.iter().enumerate().filter_map(law).collect()
}
