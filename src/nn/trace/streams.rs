//! Streams: neurons that layers write, operations pass on, and other layers read.

use super::centred::centred;
use super::glue::relate;
use super::relation::Relation;
use super::{Call, Node, Trace};
use crate::autodiff::{Function, Kind};
use crate::symmetry::{Change, Passage, Reader, Way};
use std::collections::BTreeSet;

/// The neurons that some calls write and others read. Addition of two streams makes them one.
#[derive(Debug, Clone, Default)]
pub(super) struct Stream {
    /// The calls that write it, in order.
    pub writers: Vec<usize>,
    /// The calls that read it.
    pub edges: Vec<Edge>,
    /// For each kind of change, whether it has an effect that no parameter can compensate.
    broken: [bool; Change::ALL.len()],
    /// Whether any operation, call or loss reads it.
    pub used: bool,
}

/// A call that reads a stream.
#[derive(Debug, Clone)]
pub(super) struct Edge {
    pub call: usize,
    /// The number of the input among the call's inputs.
    pub input: usize,
    /// The passage from the stream to the call's parameters.
    pub passage: Passage,
}

/// All streams of a pass.
pub(super) struct Streams<'a> {
    pub(super) trace: &'a Trace,
    /// Whether the laws are for balanced initialisation, which treats activations that are not homogeneous as
    /// if they were.
    balancing: bool,
    /// The one call whose neurons are followed; with `None` the neurons of all calls are followed.
    only: Option<usize>,
    /// Whether the change that is followed is one of the mean, which is a shift too: it breaks only
    /// where both do.
    pub(super) mean_as_shift: bool,
    /// For each kind of change, whether it is left out.
    omitted: [bool; Change::ALL.len()],
    /// For each node, whether its rows sum to zero.
    centred: Vec<bool>,
    pub(super) relations: Vec<Relation>,
    streams: Vec<Stream>,
    /// For each stream, the stream of which it is part; itself if it is part of no other.
    part_of: Vec<usize>,
    /// The stream that each call writes.
    pub(super) written: Vec<Option<usize>>,
    /// For each call, whether the laws inside it hold.
    pub sound: Vec<bool>,
    /// The calls whose streams are multiplied by another stream, as in a gated layer.
    pub multiplied: BTreeSet<usize>,
}

impl<'a> Streams<'a> {
    /// The streams of a pass up to its outputs, without a loss, for the kinds of change in `kinds`.
    pub fn of(trace: &'a Trace, kinds: &[Change], balancing: bool) -> Self {
        Self::following(trace, None, kinds, balancing)
    }

    fn following(trace: &'a Trace, only: Option<usize>, kinds: &[Change], balancing: bool) -> Self {
        let mut streams = Self {
            trace,
            balancing,
            only,
            mean_as_shift: only.is_some() && *kinds == MEAN_AND_SHIFT,
            omitted: Change::ALL.map(|change| !kinds.contains(&change)),
            centred: centred(&trace.nodes),
            relations: vec![Relation::FIXED; trace.nodes.len()],
            streams: Vec::new(),
            part_of: Vec::new(),
            written: vec![None; trace.calls.len()],
            sound: vec![true; trace.calls.len()],
            multiplied: BTreeSet::new(),
        };
        streams.walk();
        streams.leaks(&trace.outputs);
        streams
    }

    /// The streams of a pass with a loss of its outputs; `sight` is the passage through the loss.
    pub fn seen(trace: &'a Trace, sight: Passage, kinds: &[Change], balancing: bool) -> Self {
        let mut streams = Self::of(trace, kinds, balancing);
        streams.ends_at(sight);
        streams.shared();
        streams
    }

    /// Whether parameters can compensate every effect of a shift of the neurons that one call alone writes,
    /// in a pass with a loss of its outputs. The other writers of the stream stay as they are.
    pub fn shifts_alone(trace: &'a Trace, sight: Passage, call: usize) -> bool {
        let mut streams = Self::following(trace, Some(call), &[Change::Shift], false);
        streams.ends_at(sight);
        let stream = streams.written_by(call).map(|(number, _)| number);
        streams.sound[call] && stream.is_some_and(|s| streams.allows(s, Change::Shift))
    }

    /// The streams of a pass in which the neurons of one call alone are followed, with a loss of its outputs.
    /// For [`MEAN_AND_SHIFT`] the change is one of the mean, followed as both.
    pub fn alone(trace: &'a Trace, sight: Passage, call: usize, kinds: &[Change]) -> Self {
        let mut streams = Self::following(trace, Some(call), kinds, false);
        streams.ends_at(sight);
        let own = streams.written_by(call).map(|(number, _)| number);
        // Where nothing is left, shared parameters need no look, which takes long in a deep network.
        if own.is_some_and(|own| kinds.iter().any(|&change| streams.allows(own, change))) {
            streams.shared();
        }
        streams
    }

    /// Marks the changes on which the loss of the outputs depends; `sight` is the passage through the loss.
    fn ends_at(&mut self, sight: Passage) {
        for &output in &self.trace.outputs {
            let seen = self.relations[output].passage.then(sight);
            let stuck = seen.zip(
                seen,
                |_, way, _| {
                    if way.carries() { Way::Breaks } else { way }
                },
            );
            self.settle(output, stuck);
        }
    }

    /// The calls that write the stream of an output, and the passage from the stream to the output;
    /// none if no stream arrives there.
    pub fn at_output(&self, output: usize) -> Option<(Vec<usize>, Passage)> {
        let relation = self.relations[output];
        let stream = self.root(relation.stream?);
        let passage = relation.passage.zip(relation.passage, |change, way, _| {
            if self.allows(stream, change) {
                way
            } else {
                Way::Breaks
            }
        });
        Some((self.streams[stream].writers.clone(), passage))
    }

    /// The streams that are not part of another, in the order of their first writers.
    pub fn all(&self) -> impl Iterator<Item = (usize, &Stream)> {
        let whole = (0..self.streams.len()).filter(|&s| self.part_of[s] == s);
        whole.map(|s| (s, &self.streams[s]))
    }

    /// The stream that a call writes, with its number.
    pub fn written_by(&self, call: usize) -> Option<(usize, &Stream)> {
        let stream = self.root(self.written[call]?);
        Some((stream, &self.streams[stream]))
    }

    /// Whether a change of the stream can be compensated.
    pub fn allows(&self, stream: usize, change: Change) -> bool {
        !self.streams[stream].broken[change as usize]
    }

    /// Follows the streams node by node, and call by call.
    fn walk(&mut self) {
        let trace = self.trace;
        let mut calls = trace.declared.iter().copied().peekable();
        let mut id = 0;
        while id < trace.nodes.len() || calls.peek().is_some() {
            if let Some(call) = calls.next_if(|&c| trace.calls[c].nodes.start <= id) {
                self.call(call);
                id = id.max(trace.calls[call].nodes.end);
                continue;
            }
            let args = &trace.nodes[id].args;
            if !args.is_empty() {
                self.leaks(args);
                let operands = self.operands(id);
                let mut relation = relate(&trace.nodes, id, &operands);
                if self.balancing {
                    relation = as_if_homogeneous(&trace.nodes[id], &operands, relation);
                }
                if self.centred[id] && relation.passage.way(Change::Mean).carries() {
                    // The mean that would change is zero, so x − mean x absorbs the change.
                    relation.passage = relation.passage.with(Change::Mean, Way::Absorbs);
                }
                self.relations[id] = relation;
                self.settle(id, relation.passage);
            }
            id += 1;
        }
    }

    /// The relations of the operands of a node, whose streams become one.
    fn operands(&mut self, id: usize) -> Vec<Relation> {
        let args = self.trace.nodes[id].args.iter();
        let mut out: Vec<Relation> = args.map(|&a| self.living(self.relations[a])).collect();
        let first = out.iter().find_map(|r| r.stream);
        for relation in &mut out {
            if let (Some(into), Some(stream)) = (first, relation.stream) {
                let (into, stream) = (self.root(into), self.root(stream));
                if into != stream && !alike(&self.trace.nodes[id].kind) {
                    // A product of two streams: each may change on its own. The table does not
                    // cover this case; `alone` follows one of them while the other stays.
                    let writers = |s: usize| self.streams[s].writers.clone();
                    let both = [writers(stream), writers(into)].concat();
                    self.multiplied.extend(both);
                    self.breaks_all(stream);
                    self.breaks_all(into);
                }
                self.unite(into, stream);
                relation.stream = Some(self.root(into));
            }
        }
        out
    }

    /// The relation with only those changes of a stream that can still be compensated. Changes of
    /// the other kinds are never applied, so they count as absorbed.
    pub(super) fn living(&self, relation: Relation) -> Relation {
        let Some(stream) = relation.stream.map(|s| self.root(s)) else {
            return Relation::FIXED;
        };
        let passage = relation.passage.zip(relation.passage, |change, way, _| {
            if self.allows(stream, change) {
                way
            } else {
                Way::Absorbs
            }
        });
        match Change::ALL
            .iter()
            .any(|&change| passage.way(change).carries())
        {
            true => Relation {
                passage,
                ..relation
            },
            false => Relation::FIXED,
        }
    }

    /// Gives up each declared call with an inner node among `args` that is not its output: such
    /// uses are not followed.
    fn leaks(&mut self, args: &[usize]) {
        let trace = self.trace;
        for &arg in args {
            let made = !trace.nodes[arg].args.is_empty();
            if let Some(call) = trace.owner[arg]
                && arg != trace.calls[call].output
                && made
            {
                self.give_up(call);
            }
        }
    }

    /// Drops every law that involves a call: those inside it, those of the streams that it reads, and those
    /// of the stream that it writes.
    pub(super) fn give_up(&mut self, call: usize) {
        self.sound[call] = false;
        for &input in &self.trace.calls[call].inputs {
            if let Some(stream) = self.relations[input].stream {
                let stream = self.root(stream);
                self.breaks_all(stream);
            }
        }
        if let Some(stream) = self.written[call] {
            let stream = self.root(stream);
            self.breaks_all(stream);
        }
    }

    /// Adds a call to the streams that it reads, and begins the stream that it writes.
    fn call(&mut self, number: usize) {
        let trace = self.trace;
        let call = &trace.calls[number];
        self.leaks(&call.inputs);
        let ports = call.ports.as_ref().expect("a declared call");
        let nothing = Reader::passing(Passage::BREAKS);
        let passes = ports.writers.is_empty();
        for (input, &node) in call.inputs.iter().enumerate() {
            let reader = ports.readers.get(input).unwrap_or(&nothing);
            let relation = self.living(self.relations[node]);
            let Some(stream) = relation.stream else {
                continue;
            };
            let stream = self.root(stream);
            // The values of a sparse matrix are not rows of neurons.
            let rows = trace.nodes[node].shape.len() > 1;
            let seen = if rows {
                reader.passage
            } else {
                Passage::BREAKS
            };
            let mut passage = relation.passage.then(seen);
            if self.mean_as_shift && passage.way(Change::Shift) == Way::Absorbs {
                passage = passage.with(Change::Mean, Way::Absorbs);
            }
            self.streams[stream].used = true;
            let passage = if passes && input == 0 {
                passage
            } else {
                let compensated = |change: Change, way: Way, _| match (change, way) {
                    (_, Way::Carries(_)) if reader.terms.is_empty() => Way::Breaks,
                    (Change::Mix | Change::Turn | Change::Mean, Way::Carries(_))
                        if !reader.mixes =>
                    {
                        Way::Breaks
                    }
                    (Change::Shift | Change::Offset, Way::Carries(_)) => Way::Breaks,
                    (_, way) => way,
                };
                let passage = passage.zip(passage, compensated);
                self.streams[stream].edges.push(Edge {
                    call: number,
                    input,
                    passage,
                });
                passage
            };
            self.broken(stream, passage);
            if passes && input == 0 && call.output != node {
                let out = Relation {
                    passage,
                    ..relation
                };
                self.relations[call.output] =
                    (out.shift_anew(call.output)).offset_anew(call.output);
            }
        }
        self.unlisted(call);
        let followed = self.only.is_none_or(|only| only == number);
        if !passes && followed {
            let mut stream = Stream {
                writers: vec![number],
                broken: self.omitted,
                ..Stream::default()
            };
            // Neurons of several heads can be mixed only within each head, so there is no change of the mean
            // of all neurons.
            stream.broken[Change::Mix as usize] |= !ports.mixes;
            stream.broken[Change::Turn as usize] |= !ports.mixes;
            stream.broken[Change::Mean as usize] |= !ports.mixes || ports.heads > 1;
            self.streams.push(stream);
            self.part_of.push(self.streams.len() - 1);
            self.written[number] = Some(self.streams.len() - 1);
            self.relations[call.output] = Relation {
                stream: self.written[number],
                passage: Passage::CARRIES,
                shift_base: call.output,
                offset_base: call.output,
            };
        }
    }

    /// Drops the laws of streams that a call reads but does not list among its inputs.
    fn unlisted(&mut self, call: &Call) {
        for node in &self.trace.nodes[call.nodes.clone()] {
            for &arg in &node.args {
                if arg >= call.nodes.start || call.inputs.contains(&arg) {
                    continue;
                }
                self.leaks(&[arg]);
                if let Some(stream) = self.relations[arg].stream {
                    let stream = self.root(stream);
                    self.streams[stream].used = true;
                    self.breaks_all(stream);
                }
            }
        }
    }

    /// Marks the changes that an operation broke on the way to a node.
    fn settle(&mut self, id: usize, passage: Passage) {
        if let Some(stream) = self.relations[id].stream {
            let stream = self.root(stream);
            self.streams[stream].used = true;
            self.broken(stream, passage);
        }
    }

    pub(super) fn broken(&mut self, stream: usize, passage: Passage) {
        let breaks = |change| passage.way(change) == Way::Breaks;
        for change in Change::ALL {
            let both_break = MEAN_AND_SHIFT.into_iter().all(breaks);
            self.streams[stream].broken[change as usize] |=
                breaks(change) && (both_break || !self.mean_as_shift);
        }
    }

    pub(super) fn breaks_all(&mut self, stream: usize) {
        self.streams[stream].broken = [true; Change::ALL.len()];
    }

    pub(super) fn root(&self, mut stream: usize) -> usize {
        while self.part_of[stream] != stream {
            stream = self.part_of[stream];
        }
        stream
    }

    /// Makes two streams one: a change of one must then be the same change of the other.
    pub(super) fn unite(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        if a == b {
            return;
        }
        let (into, from) = (a.min(b), a.max(b));
        let other = std::mem::take(&mut self.streams[from]);
        self.part_of[from] = into;
        let stream = &mut self.streams[into];
        stream.writers.extend(other.writers);
        stream.writers.sort_unstable();
        stream.edges.extend(other.edges);
        stream.edges.sort_by_key(|e| (e.call, e.input));
        stream.used |= other.used;
        for (broken, other) in stream.broken.iter_mut().zip(other.broken) {
            *broken |= other;
        }
    }
}

/// A change of the mean, and the shift that it is.
pub(super) const MEAN_AND_SHIFT: [Change; 2] = [Change::Mean, Change::Shift];

/// Operations whose operands must change alike, so that their streams are one.
fn alike(kind: &Kind) -> bool {
    matches!(
        kind,
        Kind::Add | Kind::Subtract | Kind::Choice(_) | Kind::Concat { .. }
    )
}

/// Treats activations that are not homogeneous as if they were of degree 1: f(x), and x times a
/// gate of x.
fn as_if_homogeneous(node: &Node, operands: &[Relation], found: Relation) -> Relation {
    let as_degree_one = |operand: Relation| Relation {
        passage: operand.passage.then(Passage::homogeneous(1.0)),
        ..operand
    };
    let activation = |f: &Function| f.negative_slope.is_some() && f.degree.is_none();
    let gated = || node.args[0] != node.args[1] && operands[0].passage == operands[1].passage;
    match node.kind {
        Kind::Entrywise(ref function) if activation(function) => as_degree_one(operands[0]),
        Kind::Multiply if gated() => as_degree_one(operands[0]),
        _ => found,
    }
}
