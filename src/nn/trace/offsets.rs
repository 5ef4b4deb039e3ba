//! Numbers that biases add to neurons, the same in all rows, and the sums of them that nothing notices.

use super::glue::relate;
use super::relation::Relation;
use super::{Trace, ports};
use crate::symmetry::{Change, Law, Passage, Ports, Slice, Symmetry, Term, Way};
use std::collections::BTreeMap;

/// The unit of every offset: node 0 is no operation, so no operation has this unit of its own.
const UNIT: usize = 0;

/// A change of parameters that adds t to each neuron of the output of one or several calls.
struct Offset<'a> {
    call: usize,
    /// The number among the offsets of the call, from 1; 0 if the call has no other.
    number: usize,
    terms: &'a [Term],
}

/// The offsets of a pass, and what must be zero so that nothing else changes.
///
/// An offset is followed from the call that makes it through the operations that the table of `glue` knows.
/// Where an operation, a layer or the loss notices offsets, their sum must vanish: Σ c_w k_w = 0 over all
/// offsets w that arrive there. Every c that fulfils these equations is a symmetry, θ_w → θ_w + c_w t, and
/// Σ c_w G_w = 0 a law, or Σ c_w Σ_j G_w[j] = 0 if t is one number for all neurons j.
struct Offsets<'a> {
    trace: &'a Trace,
    /// Whether t is one number for all neurons. Such an offset is also a shift of every row, so it passes
    /// each operation that a shift passes, such as the removal of the mean.
    one_number: bool,
    offsets: Vec<Offset<'a>>,
    /// The k of each offset that arrives at a node as k t.
    arrives: Vec<BTreeMap<usize, f64>>,
    /// The coefficients of the sums that must vanish, by place: a node or call, and the number of the
    /// operand.
    sums: BTreeMap<(bool, usize, usize), BTreeMap<usize, f64>>,
    /// Offsets that must vanish on their own.
    stuck: Vec<usize>,
}

/// The laws of biases: first those of each neuron, then those of sums over neurons that do not follow from
/// them. `sound` states of each call whether its ports are the whole truth about its parameters, `sight` is
/// the passage through the loss, and `shifted` has the parameters whose sums have a law already.
pub(super) fn of_offsets(
    trace: &Trace,
    sound: &[bool],
    sight: Passage,
    shifted: &[usize],
) -> Vec<(usize, Law)> {
    let single = Offsets::of(trace, sound, sight, false);
    let mut known = single.solutions();
    let laws = known.iter().filter_map(|weights| single.law(weights));
    let mut laws: Vec<(usize, Law)> = laws.collect();
    let sums = Offsets::of(trace, sound, sight, true);
    for weights in sums.solutions() {
        let mut used = sums
            .offsets
            .iter()
            .zip(&weights)
            .filter(|(_, w)| **w != 0.0);
        let has_law = |(offset, _): (&Offset<'_>, &f64)| {
            let mut terms = offset.terms.iter();
            terms.all(|term| shifted.contains(&term.slice.parameter))
        };
        let rest = remainder(&weights, &known);
        if used.all(has_law) || rest.iter().all(|x| x.abs() < 1e-9) {
            continue;
        }
        known.push(rest);
        laws.extend(sums.law(&weights));
    }
    laws
}

impl<'a> Offsets<'a> {
    fn of(trace: &'a Trace, sound: &[bool], sight: Passage, one_number: bool) -> Self {
        let mut all = Self {
            trace,
            one_number,
            offsets: Vec::new(),
            arrives: vec![BTreeMap::new(); trace.nodes.len()],
            sums: BTreeMap::new(),
            stuck: Vec::new(),
        };
        all.walk(sound);
        for (k, &output) in trace.outputs.iter().enumerate() {
            if all.way(sight) != Way::Absorbs {
                all.vanish((true, trace.calls.len(), k), output);
            }
        }
        all
    }

    /// What becomes of an offset on this passage.
    fn way(&self, passage: Passage) -> Way {
        let [offset, shift] = [Change::Offset, Change::Shift].map(|change| passage.way(change));
        match (offset, shift) {
            (Way::Absorbs, _) => Way::Absorbs,
            (_, Way::Absorbs) if self.one_number => Way::Absorbs,
            (Way::Breaks, shift) if self.one_number => shift,
            (offset, _) => offset,
        }
    }

    /// What becomes of an offset in a call. If the call carries shifts and breaks offsets, it may multiply
    /// each row by a number of its own, so the offset counts as broken.
    fn through(&self, passage: Passage) -> Way {
        match (self.way(passage), passage.way(Change::Offset)) {
            (Way::Carries(_), Way::Breaks) => Way::Breaks,
            (way, _) => way,
        }
    }

    /// Node by node, and call by call, as [`Streams`](super::streams::Streams).
    fn walk(&mut self, sound: &[bool]) {
        let trace = self.trace;
        let mut calls = trace.declared.iter().copied().peekable();
        let mut id = 0;
        while id < trace.nodes.len() || calls.peek().is_some() {
            if let Some(call) = calls.next_if(|&c| trace.calls[c].nodes.start <= id) {
                self.call(call, sound[call]);
                id = id.max(trace.calls[call].nodes.end);
            } else {
                self.operation(id);
                id += 1;
            }
        }
    }

    fn operation(&mut self, id: usize) {
        let args = &self.trace.nodes[id].args;
        let mut arriving: Vec<usize> = (args.iter())
            .flat_map(|&a| self.arrives[a].keys().copied())
            .collect();
        arriving.sort_unstable();
        arriving.dedup();
        for offset in arriving {
            let parts: Vec<Option<f64>> = (args.iter())
                .map(|&a| self.arrives[a].get(&offset).copied())
                .collect();
            let relation = |k: &Option<f64>| k.map_or(Relation::FIXED, |k| self.moved_by(k));
            let operands: Vec<Relation> = parts.iter().map(relation).collect();
            let found = relate(&self.trace.nodes, id, &operands);
            // A shift counts where the offset breaks.
            let base = match found.passage.way(Change::Offset) {
                Way::Breaks => found.shift_base,
                _ => found.offset_base,
            };
            match self.way(found.passage) {
                Way::Absorbs => {}
                Way::Carries(k) if base == UNIT => {
                    self.arrives[id].insert(offset, k);
                }
                // What another unit is in terms of t is not known.
                Way::Carries(_) => self.stuck.push(offset),
                Way::Breaks => {
                    for (place, k) in parts.into_iter().enumerate() {
                        if let Some(k) = k {
                            self.add((false, id, place), offset, k);
                        }
                    }
                }
            }
        }
    }

    fn call(&mut self, number: usize, sound: bool) {
        let trace = self.trace;
        let (call, ports) = (&trace.calls[number], ports(trace, number));
        let passes = ports.writers.is_empty();
        for (input, &node) in call.inputs.iter().enumerate() {
            let rows = trace.nodes[node].shape.len() > 1;
            let reader = ports.readers.get(input).filter(|_| sound && rows);
            match reader.map_or(Way::Breaks, |r| self.through(r.passage)) {
                Way::Absorbs => {}
                Way::Carries(k) if passes && input == 0 => {
                    if call.output != node {
                        let passed = self.arrives[node].iter();
                        let passed = passed.map(|(&offset, part)| (offset, part * k)).collect();
                        self.arrives[call.output] = passed;
                    }
                }
                Way::Carries(_) | Way::Breaks => self.vanish((true, number, input), node),
            }
        }
        // What a call reads and does not list among its inputs.
        for node in &trace.nodes[call.nodes.clone()] {
            for &arg in &node.args {
                if arg < call.nodes.start && !call.inputs.contains(&arg) {
                    self.stuck.extend(self.arrives[arg].keys());
                }
            }
        }
        if !sound {
            return;
        }
        for (k, terms) in ports.offsets.iter().enumerate() {
            let known = self.offsets.iter().position(|o| o.terms == terms);
            let offset = known.unwrap_or_else(|| {
                self.offsets.push(Offset {
                    call: number,
                    number: if ports.offsets.len() > 1 { k + 1 } else { 0 },
                    terms,
                });
                self.offsets.len() - 1
            });
            self.arrives[call.output].insert(offset, 1.0);
        }
    }

    /// The relation of a node that changes by k t, and in no other way.
    fn moved_by(&self, k: f64) -> Relation {
        let shift = match self.one_number {
            true => Way::Carries(k),
            false => Way::Absorbs,
        };
        let passage = Passage::ABSORBS.with(Change::Offset, Way::Carries(k));
        Relation {
            stream: Some(0),
            passage: passage.with(Change::Shift, shift),
            shift_base: UNIT,
            offset_base: UNIT,
        }
    }

    /// All that arrives at a node must vanish there.
    fn vanish(&mut self, place: (bool, usize, usize), node: usize) {
        for (offset, k) in self.arrives[node].clone() {
            self.add(place, offset, k);
        }
    }

    fn add(&mut self, place: (bool, usize, usize), offset: usize, k: f64) {
        self.sums.entry(place).or_default().insert(offset, k);
    }

    /// A basis of the coefficients c for which all sums vanish: per offset that is left free a vector in
    /// which it has the coefficient 1 and no other free offset has any.
    fn solutions(&self) -> Vec<Vec<f64>> {
        let n = self.offsets.len();
        let single = |&k: &usize| BTreeMap::from([(k, 1.0)]);
        let mut pivots: Vec<(usize, Vec<f64>)> = Vec::new();
        let sums = self.sums.values().cloned();
        for sum in sums.chain(self.stuck.iter().map(single)) {
            let mut row = vec![0.0; n];
            for (k, weight) in sum {
                row[k] = weight;
            }
            for (column, pivot) in &pivots {
                let factor = row[*column];
                subtract(&mut row, factor, pivot);
            }
            let Some(column) = row.iter().position(|x| x.abs() > 1e-9) else {
                continue;
            };
            let scale = row[column].recip();
            row.iter_mut().for_each(|x| *x *= scale);
            for (_, pivot) in &mut pivots {
                let factor = pivot[column];
                subtract(pivot, factor, &row);
            }
            pivots.push((column, row));
        }
        let bound = |k: &usize| pivots.iter().any(|(column, _)| column == k);
        let vector = |free: usize| {
            let mut out = vec![0.0; n];
            out[free] = 1.0;
            for (column, row) in &pivots {
                out[*column] = -row[free];
            }
            out
        };
        (0..n).filter(|k| !bound(k)).map(vector).collect()
    }

    /// Σ c_w G_w = 0, with the number of the call that makes the last of these offsets; for all neurons
    /// together if t is one number, and none if one of them is of a part of its parameter.
    fn law(&self, weights: &[f64]) -> Option<(usize, Law)> {
        let mut used: Vec<(&Offset<'_>, f64)> = (self.offsets.iter())
            .zip(weights.iter().copied())
            .filter(|(_, w)| w.abs() > 1e-9)
            .collect();
        // The free offset, which has the coefficient 1 and comes after those that it determines, first.
        used.reverse();
        let (last, _) = used[0];
        let title = self.trace.calls[last.call].title();
        let others: Vec<String> = (used[1..].iter())
            .filter(|(offset, _)| offset.call != last.call)
            .map(|(offset, _)| self.trace.calls[offset.call].title())
            .collect();
        let name = match (used.len(), last.number, others.is_empty()) {
            (1, 0, _) => format!("{title}, bias"),
            (1, number, _) => format!("{title}, bias, {number}"),
            (_, _, true) => format!("{title}, biases"),
            _ => format!("{title}, bias, against {}", others.join(" and ")),
        };
        let mut terms: Vec<Term> = (used.iter())
            .flat_map(|&(offset, w)| offset.terms.iter().map(move |t| t.clone().times(w)))
            .collect();
        for (offset, _) in used.iter() {
            let beside = reference(ports(self.trace, offset.call), &offset.terms[0].slice);
            if let Some(beside) = beside.filter(|beside| !terms.contains(beside)) {
                terms.push(beside);
            }
        }
        let layer = self.trace.layer(last.call).max(1);
        let first = used.iter().map(|(offset, _)| offset.call).min();
        let (name, terms) = match self.one_number {
            true => {
                let terms: Option<Vec<Term>> = terms.iter().map(Term::as_one_neuron).collect();
                (format!("{name}, sum"), terms?)
            }
            false => (name, terms),
        };
        let law = Law::new(name, layer, Symmetry::Translation, terms);
        Some((first.expect("an offset"), law))
    }
}

/// The vector minus multiples of the others, so that it is 0 where each of them has its last entry that is
/// not 0. At this place all later vectors of the list are 0.
fn remainder(vector: &[f64], others: &[Vec<f64>]) -> Vec<f64> {
    let mut rest = vector.to_vec();
    for other in others {
        let last = other.iter().rposition(|x| x.abs() > 1e-9);
        let last = last.expect("no vector of zeros");
        let factor = rest[last] / other[last];
        subtract(&mut rest, factor, other);
    }
    rest
}

/// x − factor y.
fn subtract(x: &mut [f64], factor: f64, y: &[f64]) {
    for (x, y) in x.iter_mut().zip(y) {
        *x -= factor * y;
    }
}

/// The weight beside a bias: in comparison with the gradient of the weight, one can see that the gradient of
/// the bias vanishes, or those of several biases together where each is a rounding error alone.
fn reference(ports: &Ports, bias: &Slice) -> Option<Term> {
    let beside = ports.writers.iter().map(|t| &t.slice);
    let mut weights =
        beside.filter(|s| s.parameter != bias.parameter && s.neurons() == bias.neurons());
    weights.next().map(|slice| Term::reference(slice.clone()))
}
