//! Parameters used in several places: a change of such a parameter must leave the outputs as they are in
//! every place.

use super::streams::{MEAN_AND_SHIFT, Streams};
use super::{Trace, Users, ports};
use crate::symmetry::Way;

impl Trace {
    /// The users of each parameter.
    pub(super) fn users_of_parameters(&self) -> Vec<Users> {
        let mut users = vec![Users::default(); self.names.len()];
        for &call in &self.declared {
            for parameter in ports(self, call).parameters() {
                users[parameter].calls.push(call);
            }
        }
        for users in &mut users {
            let mut pairs = users.calls.windows(2);
            users.known = pairs.all(|pair| ports(self, pair[0]) == ports(self, pair[1]));
        }
        for (id, node) in self.nodes.iter().enumerate() {
            for parameter in node
                .args
                .iter()
                .filter_map(|&arg| self.nodes[arg].parameter)
            {
                let users = &mut users[parameter];
                users.known &= self.owner[id].is_some_and(|call| users.calls.contains(&call));
            }
        }
        // The loss uses outputs. (A parameter that a layer gives as its output is the stream of this
        // layer.)
        for &output in &self.outputs {
            let is_of_layer = |&c: &usize| self.calls[c].output == output;
            if let Some(parameter) = self.nodes[output].parameter
                && !self.declared.iter().any(is_of_layer)
            {
                users[parameter].known = false;
            }
        }
        // What a layer reads of its own parameters, its ports do not say.
        for &call in &self.declared {
            let inputs = self.calls[call].inputs.iter();
            for parameter in inputs.filter_map(|&input| self.nodes[input].parameter) {
                let users = &mut users[parameter];
                users.known &= !users.calls.contains(&call);
            }
        }
        users
    }
}

impl Streams<'_> {
    /// Ties together the calls that use the same parameter. If a use is unknown, or the ports
    /// differ, no laws of these calls are kept.
    pub(super) fn shared(&mut self) {
        let trace = self.trace;
        for users in &trace.users {
            match users.known {
                true => (users.calls.windows(2)).for_each(|pair| self.tie(pair[0], pair[1])),
                false => users.calls.iter().for_each(|&call| self.give_up(call)),
            }
        }
        for &call in &trace.declared {
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
