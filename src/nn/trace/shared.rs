//! Parameters used in several places: a change of such a parameter must leave the outputs as they are in
//! every place.

use super::Trace;
use super::streams::Streams;
use crate::symmetry::Ports;

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
    }

    /// Ties two calls with the same ports: their outputs are one stream, and so are their inputs.
    fn tie(&mut self, a: usize, b: usize) {
        if let (Some(x), Some(y)) = (self.written[a], self.written[b]) {
            self.unite(x, y);
        }
        let trace = self.trace;
        let inputs = trace.calls[a].inputs.iter().zip(&trace.calls[b].inputs);
        for (x, y) in inputs {
            let (x, y) = (
                self.living(self.relations[*x]),
                self.living(self.relations[*y]),
            );
            match (x.stream, y.stream) {
                (None, None) => {}
                (Some(s), Some(t)) if x.passage == y.passage => self.unite(s, t),
                _ => {
                    for stream in [x.stream, y.stream].into_iter().flatten() {
                        let stream = self.root(stream);
                        self.breaks_all(stream);
                    }
                }
            }
        }
    }
}

fn ports(trace: &Trace, call: usize) -> &Ports {
    trace.calls[call].ports.as_ref().expect("a declared call")
}
