//! The laws of a pass: those of its streams of neurons, and those inside its layers.

use super::centred::of_readers;
use super::offsets::of_offsets;
use super::streams::{Edge, MEAN_AND_SHIFT, Stream, Streams};
use super::{Trace, ports};
use crate::symmetry::{Change, Law, Passage, Slice, Symmetry, Term, Way};

impl Trace {
    /// The conservation laws that hold for every loss that is a function of the traced outputs.
    ///
    /// Each stream of neurons has at most
    ///
    /// | change | law | name |
    /// |---|---|---|
    /// | a factor per neuron | incoming entries against k times the outgoing entries, per neuron and head; k is the degree of the operations between | neurons |
    /// | any matrix | the same as matrices, where no operation acts on single neurons | space of neurons |
    /// | a rotation | the same, where operations depend on the lengths of rows and on nothing else | turns (rotations) |
    /// | one factor | all writers against all readers, where a norm acts on all neurons together, or on all of a head | scale |
    /// | a number for all neurons | the gradient of each writer sums to zero over the neurons | shift |
    /// | a number per neuron | Σ c_w G_w = 0 over biases whose sum nothing reads; of one bias, its gradient is zero | bias, biases |
    /// | a number for all neurons and rows | the same of the sum of each G_w, where norms that remove the mean read the neurons between two biases | bias, sum; biases, sum |
    /// | a factor for the mean | the means of all writers against those of all readers, where norms that remove the mean leave no larger law | mean |
    ///
    /// Where two streams are multiplied, as in a gated layer, the neurons of each are followed on their own.
    ///
    /// A weight that reads only numbers with the mean zero, such as the output of a LayerNorm without gain,
    /// has a law of its own, "rows": the gradient of each of its rows sums to zero.
    ///
    /// "Are GATs Out of Balance?", Theorem 2.2 (shared weights), Theorem 6.3 with the term that its right
    /// side lacks (separate weights), Theorem 6.4 (heads) are the first row between two graph layers. The
    /// list also has the laws that layers state about the parameters inside them. An unknown operation
    /// between layers ends all laws of its stream, so every law in the list holds.
    pub fn laws(&self) -> Vec<Law> {
        self.laws_seen(Passage::CARRIES, false)
    }

    /// The further laws of a loss that does not change when all outputs of a row are shifted alike,
    /// such as cross-entropy of their softmax: the gradients of the parameters that shift all
    /// outputs of a row sum to zero over the classes.
    pub fn softmax_laws(&self) -> Vec<Law> {
        let others = self.laws();
        let softmax =
            (Passage::CARRIES.with(Change::Shift, Way::Absorbs)).with(Change::Mean, Way::Absorbs);
        let mut laws = self.laws_seen(softmax, false);
        laws.retain(|law| !others.contains(law));
        for law in &mut laws {
            law.name = law.name.replace("shift", "sum over classes");
        }
        laws
    }

    /// For each output, the calls that write its stream, and the passage from the stream to the
    /// output, per kind of change. `None` where no change of any stream arrives, or nothing is
    /// known of the changes that arrive.
    ///
    /// ```
    /// use emmy::{init, nn::{Linear, Trace}, symmetry::{Change, Way}};
    /// let layer = Linear::<f64>::new(4, 3, true, &mut init::rng(0));
    /// let x = init::normal(&[5, 4], 1.0, &mut init::rng(1));
    /// let trace = Trace::of(&layer, |pass| {
    ///     let y = layer.forward(pass, pass.tape().constant(x.clone()));
    ///     (y - y.mean(&[-1], true)).relu()
    /// });
    /// let (_, passage) = trace.passages().remove(0).expect("the stream of the layer");
    /// assert_eq!(passage.way(Change::All), Way::Carries(1.0));
    /// assert_eq!(passage.way(Change::Shift), Way::Absorbs);
    /// assert_eq!(passage.way(Change::Each), Way::Breaks);
    /// ```
    pub fn passages(&self) -> Vec<Option<(Vec<usize>, Passage)>> {
        let streams = Streams::of(self, &Change::ALL, false);
        self.outputs.iter().map(|&y| streams.at_output(y)).collect()
    }

    /// The laws of neurons as they would be if every activation were homogeneous. Balanced
    /// initialisation uses them.
    pub(in crate::nn) fn laws_to_balance(&self) -> Vec<Law> {
        let mut laws = self.laws_seen(Passage::CARRIES, true);
        // A weight beside an identity does not grow by a factor when it is scaled.
        laws.retain(|law| {
            law.symmetry == Symmetry::Rescaling
                && law.name.ends_with("neurons")
                && law.terms.iter().all(|term| term.identity == 0.0)
        });
        laws
    }

    fn laws_seen(&self, sight: Passage, balancing: bool) -> Vec<Law> {
        // The mean and offsets are followed separately.
        let others: Vec<Change> = (Change::ALL.into_iter())
            .filter(|change| ![Change::Mean, Change::Offset].contains(change))
            .collect();
        let streams = Streams::seen(self, sight, &others, balancing);
        // The laws are in the order of the calls that write; laws of the inside of a call come
        // first.
        let mut found: Vec<(usize, Law)> = Vec::new();
        for (number, stream) in streams.all() {
            let laws = of_stream(&streams, number, stream, sight);
            found.extend(laws.into_iter().map(|law| (stream.writers[0], law)));
        }
        // Where two streams are multiplied, each has its own law. Balanced initialisation leaves these out.
        for &call in streams.multiplied.iter().filter(|_| !balancing) {
            let alone = Streams::alone(self, sight, call, &[Change::Each]);
            let own = alone.written_by(call);
            let own = own.map(|(number, stream)| of_stream(&alone, number, stream, sight));
            found.extend(own.into_iter().flatten().map(|law| (call, law)));
        }
        // The mean is followed separately. If the mean is the only change that arrives, the mean alone makes
        // two streams one, and this must not remove other laws of either stream.
        let means = Streams::seen(self, sight, &[Change::Mean], balancing);
        for (number, stream) in means.all() {
            let law = of_mean(self, &streams, &means, number, stream);
            found.extend(law.map(|law| (stream.writers[0], law)));
            if balancing || means.allows(number, Change::Mean) {
                continue;
            }
            // Where another term is added, as in x + σ(W x), the mean is not multiplied any more. It is
            // shifted, and a norm may remove that.
            for &call in &stream.writers {
                if Streams::shifts_alone(self, sight, call) {
                    continue;
                }
                let alone = Streams::alone(self, sight, call, &MEAN_AND_SHIFT);
                let own = alone.written_by(call);
                let law = own.and_then(|(n, stream)| of_mean(self, &streams, &alone, n, stream));
                found.extend(law.map(|law| (call, law)));
            }
        }
        if !balancing {
            let shifts = found.iter().map(|(_, law)| law);
            let shifts = shifts.filter(|law| law.symmetry == Symmetry::Translation);
            let shifted: Vec<usize> = shifts
                .flat_map(|law| law.terms.iter().map(|term| term.slice.parameter))
                .collect();
            found.extend(of_offsets(self, &streams.sound, sight, &shifted));
        }
        found.sort_by_key(|(call, _)| *call);
        let mut laws: Vec<Law> = Vec::new();
        let mut found = found.into_iter().peekable();
        for &call in &self.declared {
            for law in inside(self, call)
                .into_iter()
                .filter(|_| streams.sound[call])
            {
                if laws.iter().all(|known| known.terms != law.terms) {
                    laws.push(law);
                }
            }
            while let Some((_, law)) = found.next_if(|(writer, _)| *writer <= call) {
                laws.push(law);
            }
        }
        laws.extend(of_readers(self));
        laws
    }

    /// Whether nothing else uses the parameters of a call: no other call, and not the loss.
    fn used_once(&self, call: usize) -> bool {
        let own = &self.calls[call];
        let parameters = ports(self, call).parameters();
        let is_own = |node: usize| {
            let parameter = self.nodes[node].parameter;
            parameter.is_some_and(|p| parameters.contains(&p))
        };
        let mut outputs = self.outputs.iter();
        if outputs.any(|&y| y != own.output && is_own(y)) {
            return false;
        }
        self.nodes
            .iter()
            .enumerate()
            .all(|(id, node)| own.nodes.contains(&id) || !node.args.iter().any(|&arg| is_own(arg)))
    }

    /// The number of a call among those that write neurons, from 1.
    pub(super) fn layer(&self, call: usize) -> usize {
        let writes = |c: &&usize| !ports(self, **c).writers.is_empty();
        let writers = self.declared.iter().filter(writes);
        writers.take_while(|&&c| c <= call).count()
    }
}

/// The laws that a layer states about the parameters inside it, named after the layer.
fn inside(trace: &Trace, call: usize) -> Vec<Law> {
    let complete = |law: &Law| Law {
        name: format!("{}, {}", trace.calls[call].title(), law.name),
        layer: trace.layer(call),
        ..law.clone()
    };
    ports(trace, call).inside.iter().map(complete).collect()
}

fn of_stream(streams: &Streams<'_>, number: usize, stream: &Stream, sight: Passage) -> Vec<Law> {
    if !stream.used {
        return Vec::new();
    }
    let trace = streams.trace;
    let allows = |change| streams.allows(number, change);
    let first = stream.writers[0];
    let (name, layer) = (trace.calls[first].title(), trace.layer(first));
    let mut laws = Vec::new();
    if allows(Change::Each) {
        let terms = terms(trace, stream, Change::Each);
        let together = common_multiple(stream.writers.iter().map(|&w| ports(trace, w).together));
        if together > 1 {
            laws.extend(in_groups(&terms, together).map(|terms| {
                Law::new(format!("{name}, scale"), layer, Symmetry::Rescaling, terms)
            }));
        } else {
            for (whose, terms) in per_head(trace, stream, &name, &terms) {
                let law = |what, symmetry| {
                    Law::new(format!("{whose}, {what}"), layer, symmetry, terms.clone())
                };
                laws.push(law("neurons", Symmetry::Rescaling));
                if allows(Change::Mix) && alike_heads(trace, stream) {
                    laws.push(law("space of neurons", Symmetry::Linear));
                }
            }
        }
    } else if allows(Change::All) {
        let terms = terms(trace, stream, Change::All);
        if let Some(terms) = terms.iter().map(Term::as_one_neuron).collect() {
            laws.push(Law::new(
                format!("{name}, scale"),
                layer,
                Symmetry::Rescaling,
                terms,
            ));
        }
    }
    if allows(Change::Turn) && !allows(Change::Mix) && alike_heads(trace, stream) {
        let terms = terms(trace, stream, Change::Turn);
        for (whose, terms) in per_head(trace, stream, &name, &terms) {
            // A single neuron does not turn.
            if terms[0].neurons() > 1 {
                laws.push(Law::new(
                    format!("{whose}, turns"),
                    layer,
                    Symmetry::Rotation,
                    terms,
                ));
            }
        }
    }
    laws.extend(shifts(streams, number, stream, sight));
    laws
}

/// The laws of the writers whose shift of all neurons alike has no effect.
fn shifts(streams: &Streams<'_>, number: usize, stream: &Stream, sight: Passage) -> Vec<Law> {
    let trace = streams.trace;
    // A shift by one writer alone affects only the operations after this writer. After the sum of a
    // post-norm block that is the norm, which removes the shift, though other layers read the stream
    // before the sum.
    let alone = |w: usize| {
        stream.writers.len() > 1 && trace.used_once(w) && Streams::shifts_alone(trace, sight, w)
    };
    let together = streams.allows(number, Change::Shift);
    let mut seen: Vec<&Slice> = Vec::new();
    let mut laws = Vec::new();
    for &call in stream.writers.iter().filter(|&&w| together || alone(w)) {
        let all = &ports(trace, call).shifts;
        for (k, slice) in all.iter().enumerate() {
            if seen.contains(&slice) {
                continue;
            }
            seen.push(slice);
            let number = if all.len() > 1 {
                format!(", {}", k + 1)
            } else {
                String::new()
            };
            laws.push(Law::new(
                format!("{}, shift{number}", trace.calls[call].title()),
                trace.layer(call),
                Symmetry::Translation,
                vec![Term::incoming(slice.clone())],
            ));
        }
    }
    laws
}

/// The law of the mean of a stream, if no other law of the same writers contains it: a law of any matrix
/// does, and so do laws of shifts, which move the mean of every writer alone.
fn of_mean(
    trace: &Trace,
    others: &Streams<'_>,
    means: &Streams<'_>,
    number: usize,
    stream: &Stream,
) -> Option<Law> {
    if !stream.used || !means.allows(number, Change::Mean) {
        return None;
    }
    let allowed = |change| {
        let mut written = stream.writers.iter().map(|&w| others.written_by(w));
        written.all(|found| {
            found.is_some_and(|(number, other)| {
                others.allows(number, change)
                    && (change == Change::Shift || other.writers == stream.writers)
            })
        })
    };
    let terms = terms(trace, stream, Change::Mean);
    // A single neuron is its own mean.
    if allowed(Change::Mix) || allowed(Change::Shift) || terms[0].neurons() == 1 {
        return None;
    }
    let first = stream.writers[0];
    Some(Law::new(
        format!("{}, mean", trace.calls[first].title()),
        trace.layer(first),
        Symmetry::Rescaling,
        terms.into_iter().map(Term::mean).collect(),
    ))
}

/// The terms of the writers and the readers, each term once.
fn terms(trace: &Trace, stream: &Stream, change: Change) -> Vec<Term> {
    let written = stream
        .writers
        .iter()
        .flat_map(|&c| &ports(trace, c).writers)
        .cloned();
    let read = |edge: &Edge| {
        let Way::Carries(degree) = edge.passage.way(change) else {
            return Vec::new();
        };
        let reader = &ports(trace, edge.call).readers[edge.input];
        reader
            .terms
            .iter()
            .map(|t| t.clone().times(degree))
            .collect()
    };
    let mut terms: Vec<Term> = Vec::new();
    for term in written.chain(stream.edges.iter().flat_map(read)) {
        if !terms.contains(&term) {
            terms.push(term);
        }
    }
    without_cancelled(terms)
}

/// The terms without identities that cancel: where rows and columns of W + c I stand on opposite sides with
/// equal weights, those of W alone give the same law.
fn without_cancelled(terms: Vec<Term>) -> Vec<Term> {
    let opposite = |a: &Term, b: &Term| {
        a.slice.parameter == b.slice.parameter && a.identity == b.identity && a.weight == -b.weight
    };
    let plain = |term: &Term| Term {
        identity: match terms.iter().any(|other| opposite(term, other)) {
            true => 0.0,
            false => term.identity,
        },
        ..term.clone()
    };
    terms.iter().map(plain).collect()
}

/// Whether all writers have the same number of heads. Within a head, neurons can be mixed; between heads that
/// overlap, they cannot.
fn alike_heads(trace: &Trace, stream: &Stream) -> bool {
    let heads = ports(trace, stream.writers[0]).heads;
    let mut writers = stream.writers.iter();
    writers.all(|&c| ports(trace, c).heads == heads)
}

/// The terms of each head with its name, if all writers have the same number of heads.
fn per_head(
    trace: &Trace,
    stream: &Stream,
    name: &str,
    terms: &[Term],
) -> Vec<(String, Vec<Term>)> {
    let heads = ports(trace, stream.writers[0]).heads;
    if heads == 1 || !alike_heads(trace, stream) {
        return vec![(name.to_owned(), terms.to_vec())];
    }
    let width = terms[0].slice.neurons() / heads;
    let head = |h: usize| {
        let own = |t: &Term| t.narrow(h * width..(h + 1) * width);
        (
            format!("{name}, head {}", h + 1),
            terms.iter().map(own).collect(),
        )
    };
    (0..heads).map(head).collect()
}

/// The least common multiple of numbers from 1 on.
fn common_multiple(numbers: impl Iterator<Item = usize>) -> usize {
    let of_two = |a: usize, b: usize| (1..=b).map(|k| k * a).find(|n| n.is_multiple_of(b));
    numbers.fold(1, |a, b| of_two(a, b).expect("a b is one"))
}

/// The terms with every `together` neighbouring neurons as one; none if the neurons of a term are not whole
/// groups.
fn in_groups(terms: &[Term], together: usize) -> Option<Vec<Term>> {
    let whole = |t: &Term| t.slice.neurons().is_multiple_of(together);
    let group = |t: &Term| Term {
        slice: t.slice.together(together),
        ..t.clone()
    };
    terms
        .iter()
        .all(whole)
        .then(|| terms.iter().map(group).collect())
}
