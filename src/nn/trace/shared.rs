//! Parameters used in several places: a change of such a parameter must leave the outputs as they are in
//! every place.

use super::ports;
use super::streams::{MEAN_AND_SHIFT, Streams};
use crate::symmetry::Way;

impl Streams<'_> {
    /// Ties together the calls that use the same parameter. If a use is unknown, or the ports
    /// differ, no laws of these calls are kept.
    pub(super) fn shared(&mut self) {
        let trace = self.trace;
        let declared = trace.declared();
        // The users of each parameter: declared calls, and `None` for a use elsewhere.
        let mut users = vec![Vec::new(); trace.names.len()];
        for (id, node) in trace.nodes.iter().enumerate() {
            let call = (declared.iter().copied()).find(|&c| trace.calls[c].nodes.contains(&id));
            for &arg in &node.args {
                if let Some(parameter) = trace.nodes[arg].parameter
                    && !users[parameter].contains(&call)
                {
                    users[parameter].push(call);
                }
            }
        }
        // The loss uses outputs. (A parameter that a layer gives as its output is the stream of this layer.)
        for &output in &trace.outputs {
            let is_of_layer = declared.iter().any(|&c| trace.calls[c].output == output);
            if let Some(parameter) = trace.nodes[output].parameter.filter(|_| !is_of_layer) {
                users[parameter].push(None);
            }
        }
        for &call in &declared {
            let own = ports(trace, call).parameters();
            let inputs = trace.calls[call].inputs.iter();
            // What a layer reads of its own parameters, its ports do not say.
            for parameter in inputs.filter_map(|&input| trace.nodes[input].parameter) {
                if own.contains(&parameter) {
                    users[parameter].push(None);
                }
            }
        }
        for (parameter, users) in users.iter().enumerate() {
            let named = |c: &usize| ports(trace, *c).parameters().contains(&parameter);
            let naming: Vec<usize> = declared.iter().copied().filter(named).collect();
            let known = |user: &Option<usize>| user.is_some_and(|c| naming.contains(&c));
            let alike = naming
                .windows(2)
                .all(|pair| ports(trace, pair[0]) == ports(trace, pair[1]));
            if !(users.iter().all(known) && alike) {
                for &call in &naming {
                    self.give_up(call);
                }
                continue;
            }
            for pair in naming.windows(2) {
                self.tie(pair[0], pair[1]);
            }
        }
        for &call in &declared {
            self.inputs_of_one_weight(call);
        }
    }

    /// Ties the inputs of a call that one parameter reads: a change of its columns meets all of them.
    fn inputs_of_one_weight(&mut self, call: usize) {
        let trace = self.trace;
        let readers = &ports(trace, call).readers;
        let inputs = &trace.calls[call].inputs;
        for (a, first) in readers.iter().enumerate().take(inputs.len()) {
            for (b, second) in readers.iter().enumerate().take(inputs.len()).skip(a + 1) {
                if first.terms.iter().any(|term| second.terms.contains(term)) {
                    self.alike(inputs[a], inputs[b]);
                }
            }
        }
    }

    /// Ties two calls with the same ports: their outputs are one stream, and so are their inputs.
    fn tie(&mut self, a: usize, b: usize) {
        match (self.written[a], self.written[b]) {
            (Some(x), Some(y)) => self.unite(x, y),
            // Only the neurons of one of the calls are followed, and the other would change too.
            (Some(stream), None) | (None, Some(stream)) => self.breaks_all(self.root(stream)),
            (None, None) => {}
        }
        let trace = self.trace;
        let inputs = trace.calls[a].inputs.iter().zip(&trace.calls[b].inputs);
        for (x, y) in inputs {
            self.alike(*x, *y);
        }
    }

    /// Two nodes must change alike: their streams become one, without the changes that reach only one of the
    /// nodes or reach them in different ways.
    fn alike(&mut self, x: usize, y: usize) {
        let (x, y) = (
            self.living(self.relations[x]),
            self.living(self.relations[y]),
        );
        let Some(stream) = x.stream.or(y.stream) else {
            return;
        };
        if let (Some(s), Some(t)) = (x.stream, y.stream) {
            self.unite(s, t);
        }
        let unequal = x.passage.zip(y.passage, |_, a, b| match a == b {
            true => Way::Absorbs,
            false => Way::Breaks,
        });
        let differs = MEAN_AND_SHIFT.map(|change| unequal.way(change) == Way::Breaks);
        match self.mean_as_shift && differs.contains(&true) {
            true => self.breaks_all(self.root(stream)),
            false => self.broken(self.root(stream), unequal),
        }
    }
}
