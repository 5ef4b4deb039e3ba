//! What the operations of a call show of its ports: which changes of its parameters shift or offset the
//! output, and where any matrix may mix neurons.
//!
//! A layer states which parameters write and which read. The rest is read off here: a change of one
//! parameter, or of all that write, is followed through the call by the table of [`glue`](super::glue). A
//! change that meets an operation of which the table knows nothing is left out, so a list of laws may be
//! too short, but is never false.

use super::glue::relate;
use super::relation::Relation;
use super::{Call, Node, Trace, ports};
use crate::autodiff::{Kind, Map};
use crate::symmetry::{Change, Passage, Ports, Reader, Side, Slice, Term, Way};
use std::collections::BTreeMap;

/// Checks and completes the ports of every declared call.
pub(super) fn complete(trace: &mut Trace) {
    for call in trace.declared.clone() {
        let stated = ports(trace, call);
        check(&trace.calls[call], stated, &trace.nodes);
        let inside = Inside {
            nodes: &trace.nodes,
            call: &trace.calls[call],
        };
        let (inputs, count) = (&trace.calls[call].inputs, stated.readers.len());
        let stated = &match inside.uses_all(stated) {
            true => inside.as_read(stated),
            // The call uses a parameter without its derivative, say detached: no law holds.
            false => Ports::opaque(count.max(inputs.len())),
        };
        let mut all = stated.clone();
        let (shifts, offsets) = inside.of_single_parameters();
        all.shifts.extend(shifts);
        all.shifts.sort_by_key(|slice| slice.parameter);
        all.offsets.splice(0..0, offsets);
        all.mixes |= inside.output_mixes(stated);
        for (input, reader) in all.readers.iter_mut().enumerate() {
            reader.mixes |= inside.input_mixes(stated, input);
        }
        trace.calls[call].ports = Some(all);
    }
}

/// Panics if the ports contradict the shapes of the call.
fn check(call: &Call, ports: &Ports, nodes: &[Node]) {
    let name = call.title();
    let refuse = |what: &str, found: usize, of: &str, expected: usize| {
        assert!(
            found == expected,
            "{name}: ports with {what} of {found} neurons, {of} has {expected}"
        );
    };
    let reads = ports.readers.first().is_some_and(|r| !r.terms.is_empty());
    assert!(
        !(ports.writers.is_empty() && reads),
        "{name}: ports whose first input is read by parameters, and that nothing writes: what writes the output \
         must be stated too"
    );
    let width = |node: usize| nodes[node].shape.last().copied().unwrap_or(1);
    for term in &ports.writers {
        refuse(
            "a writer",
            term.slice.neurons(),
            "the output",
            width(call.output),
        );
        assert!(
            ports.heads > 0 && term.slice.neurons().is_multiple_of(ports.heads),
            "{name}: ports with {} heads for {} neurons",
            ports.heads,
            term.slice.neurons()
        );
    }
    for (reader, &node) in ports.readers.iter().zip(&call.inputs) {
        // Constants are not checked, nor are sparse matrices, whose nodes hold only the stored
        // values.
        if !nodes[node].args.is_empty() && nodes[node].shape.len() > 1 {
            for term in &reader.terms {
                refuse("a reader", term.slice.neurons(), "the input", width(node));
            }
        }
    }
}

/// How a changed node has changed, seen both ways: `own` as rows of neurons, `across` as the transposed
/// matrix, which is how a product x Wᵀ reads its weight.
#[derive(Clone, Copy)]
struct Sides {
    own: Relation,
    across: Relation,
}

impl Sides {
    fn way(&self, change: Change) -> [Way; 2] {
        [self.own, self.across].map(|side| side.passage.way(change))
    }
}

/// Node `id` with one kind of change, and no other.
fn changed(id: usize, change: Change) -> Relation {
    Relation {
        stream: Some(0),
        passage: Passage::ABSORBS.with(change, Way::Carries(1.0)),
        shift_base: id,
        offset_base: id,
    }
}

/// The operations of one call.
struct Inside<'a> {
    nodes: &'a [Node],
    call: &'a Call,
}

impl Inside<'_> {
    /// Whether an operation of the call has this node as an operand, or it is the output.
    fn uses(&self, id: usize) -> bool {
        let mut inside = self.nodes[self.call.nodes.clone()].iter();
        id == self.call.output || inside.any(|node| node.args.contains(&id))
    }

    /// Whether the call uses every parameter that writes or reads.
    fn uses_all(&self, ports: &Ports) -> bool {
        let read = ports.readers.iter().flat_map(|reader| &reader.terms);
        let mut named = ports.writers.iter().chain(read);
        let own = self.parameters();
        let output = self.nodes[self.call.output].parameter;
        named.all(|term| {
            let number = term.slice.parameter;
            own.contains_key(&number) || output == Some(number)
        })
    }

    /// The ports without the parameters that read an input of which the call uses no more than its value.
    fn as_read(&self, ports: &Ports) -> Ports {
        let mut ports = ports.clone();
        for (reader, &input) in ports.readers.iter_mut().zip(&self.call.inputs) {
            if !reader.terms.is_empty() && !self.uses(input) {
                *reader = Reader::passing(Passage::BREAKS);
            }
        }
        ports
    }

    /// The parameters that the call uses: their numbers and nodes, in the order of the model.
    fn parameters(&self) -> BTreeMap<usize, usize> {
        let used = self.nodes[self.call.nodes.clone()].iter();
        let args = used.flat_map(|node| node.args.iter().copied());
        args.filter_map(|arg| Some((self.nodes[arg].parameter?, arg)))
            .collect()
    }

    /// The slices whose shift adds one number to all neurons of a row of the output, and the terms whose
    /// offset adds one number per neuron to all rows.
    fn of_single_parameters(&self) -> (Vec<Slice>, Vec<Vec<Term>>) {
        let (mut shifts, mut offsets) = (Vec::new(), Vec::new());
        for (number, id) in self.parameters() {
            let shape = &self.nodes[id].shape;
            let width = shape.last().copied().unwrap_or(1);
            let rows: usize = shape.iter().rev().skip(1).product();
            // One number per row, and one per column, added to all entries there. Seen across, they are one
            // per column and one per row.
            let per_row = match shape.len() {
                0 | 1 => Slice::new(number, [width, 1, 1]),
                _ => Slice::new(number, [1, rows, width]),
            };
            let per_column = Slice::new(number, [rows, width, 1]);
            for (slice, own, across) in [
                (per_row, Change::Shift, Change::Offset),
                (per_column, Change::Offset, Change::Shift),
            ] {
                let sides = Sides {
                    own: changed(id, own),
                    across: changed(id, across),
                };
                let found = self.follow(BTreeMap::from([(id, sides)]), &[]);
                match [Change::Shift, Change::Offset].map(|change| found.passage.way(change)) {
                    [Way::Carries(_), Way::Absorbs] => shifts.push(slice),
                    [Way::Absorbs, Way::Carries(k)] if found.offset_base == id => {
                        offsets.push(vec![Term::incoming(slice).times(k.recip())]);
                    }
                    _ => {}
                }
            }
        }
        (shifts, offsets)
    }

    /// Whether the output changes by a matrix if all that writes it changes by this matrix.
    fn output_mixes(&self, ports: &Ports) -> bool {
        let parameters = self.parameters();
        let start = |term: &Term| {
            let plain = term.side == Side::Incoming && term.weight == 1.0 && term.identity == 0.0;
            let id = *parameters.get(&term.slice.parameter).filter(|_| plain)?;
            let mixed = |shape| match Slice::new(term.slice.parameter, shape) == term.slice {
                true => changed(id, Change::Mix),
                false => Relation::BROKEN,
            };
            // A number per neuron, or the columns or the rows of a matrix.
            let (own, across) = match self.nodes[id].shape[..] {
                [n] => (mixed([1, n, 1]), Relation::BROKEN),
                [r, n] => (mixed([r, n, 1]), mixed([1, r, n])),
                _ => return None,
            };
            Some((id, Sides { own, across }))
        };
        let start: Option<BTreeMap<usize, Sides>> = ports.writers.iter().map(start).collect();
        start.is_some_and(|start| {
            !start.is_empty() && self.follow(start, &[]).passage.way(Change::Mix).carries()
        })
    }

    /// Whether the weights that read an input make good any matrix by which it changes.
    fn input_mixes(&self, ports: &Ports, input: usize) -> bool {
        let inputs = &self.call.inputs;
        let Some(&node) = inputs
            .get(input)
            .filter(|&&x| self.nodes[x].shape.len() > 1)
        else {
            return false;
        };
        // Inputs that are the same node, or are read by the same weights, change alike.
        let mut alike = vec![input];
        let mut terms: Vec<&Term> = ports.readers[input].terms.iter().collect();
        for (k, reader) in ports.readers.iter().enumerate().take(inputs.len()) {
            let same = inputs[k] == node || reader.terms.iter().any(|term| terms.contains(&term));
            if k != input && same {
                alike.push(k);
                terms.extend(&reader.terms);
            }
        }
        let reads = |&(number, id): &(usize, usize)| {
            let [outer, width] = self.nodes[id].shape[..] else {
                return false;
            };
            let columns = Term::outgoing(Slice::new(number, [outer, width, 1]));
            terms.iter().any(|term| **term == columns)
        };
        let weights: Vec<usize> = (self.parameters().into_iter())
            .filter(reads)
            .map(|(_, id)| id)
            .collect();
        let broken = Sides {
            own: Relation::BROKEN,
            across: Relation::BROKEN,
        };
        let mixed = |&k: &usize| {
            let own = changed(inputs[k], Change::Mix);
            (inputs[k], Sides { own, ..broken })
        };
        let weighing = weights.iter().map(|&id| (id, broken));
        let start = alike.iter().map(mixed).chain(weighing).collect();
        !weights.is_empty() && self.follow(start, &weights).passage.way(Change::Mix) == Way::Absorbs
    }

    /// The relation of the output to changes of some nodes. What breaks anywhere in the call is broken.
    /// Products of `weights` with operands that change by a matrix stay as they are.
    fn follow(&self, start: BTreeMap<usize, Sides>, weights: &[usize]) -> Relation {
        let mut sides = start;
        let mut broken = Passage::ABSORBS;
        for id in self.call.nodes.clone() {
            let node = &self.nodes[id];
            let of = |arg: &usize| sides.get(arg).copied();
            if !node.args.iter().any(|arg| sides.contains_key(arg))
                || self.compensated(node, weights, of)
            {
                continue;
            }
            let found = self.step(id, of);
            for change in Change::ALL {
                if found.way(change) == [Way::Breaks; 2] {
                    broken = broken.with(change, Way::Breaks);
                }
            }
            if found.own.passage != Passage::ABSORBS {
                sides.insert(id, found);
            }
        }
        let output = sides.get(&self.call.output);
        let output = output.map_or(Relation::FIXED, |sides| sides.own);
        let passage = broken.zip(output.passage, |_, broken, way| match broken {
            Way::Breaks => broken,
            _ => way,
        });
        Relation { passage, ..output }
    }

    /// Whether the node is x Wᵀ where x changes by a matrix, and W by its inverse.
    fn compensated(
        &self,
        node: &Node,
        weights: &[usize],
        of: impl Fn(&usize) -> Option<Sides>,
    ) -> bool {
        let ([x, w], Kind::MatMul { transposed: true }) = (&node.args[..], &node.kind) else {
            return false;
        };
        let mixed = |sides: Sides| sides.own.passage.way(Change::Mix).carries();
        weights.contains(w) && !weights.contains(x) && of(x).is_some_and(mixed)
    }

    /// How a node changes with its operands.
    fn step(&self, id: usize, of: impl Fn(&usize) -> Option<Sides>) -> Sides {
        let node = &self.nodes[id];
        match (&node.kind, &node.args[..]) {
            (Kind::MatMul { transposed: true }, [x, w]) if of(x).is_none() => {
                let weight = of(w).map_or(Relation::FIXED, |sides| sides.across);
                let own = weight.behind(Passage::ROWS);
                Sides {
                    own: own.shift_anew(id).offset_anew(id),
                    across: Relation::BROKEN,
                }
            }
            (Kind::Linear(Map::Permute { last: false }), [x]) if node.shape.len() == 2 => {
                let Sides { own, across } = of(x).expect("a changed operand");
                Sides {
                    own: across,
                    across: own,
                }
            }
            (_, args) => {
                let own = |arg| of(arg).map_or(Relation::FIXED, |sides| sides.own);
                let operands: Vec<Relation> = args.iter().map(own).collect();
                Sides {
                    own: relate(self.nodes, id, &operands),
                    across: Relation::BROKEN,
                }
            }
        }
    }
}
