//! The log of a pass: the calls of layers, in order.

use super::super::pass::kind_of;
use super::super::{Layer, Pass};
use super::Node;
use crate::autodiff::Var;
use crate::real::Real;
use crate::symmetry::Ports;
use std::ops::Range;

/// One call of a layer.
#[derive(Debug, Clone)]
pub struct Call {
    /// The number of the call that encloses this one.
    pub parent: Option<usize>,
    /// The path of fields that leads to the layer, as in names of parameters; empty for a layer without
    /// parameters.
    pub path: String,
    /// The name of the layer's type.
    pub kind: &'static str,
    /// The shape of the output.
    pub shape: Vec<usize>,
    /// The numbers of the layer's parameters.
    pub parameters: Vec<usize>,
    /// The ports of the layer; none if the calls inside it have them.
    pub ports: Option<Ports>,
    /// The nodes of its inputs, of its output, and all nodes that it recorded.
    pub(super) inputs: Vec<usize>,
    pub(super) output: usize,
    pub(super) nodes: Range<usize>,
}

impl Call {
    /// Panics if the ports contradict the shapes of the call.
    pub(super) fn check(&self, ports: &Ports, nodes: &[Node]) {
        let name = self.title();
        let refuse = |what: &str, found: usize, of: &str, expected: usize| {
            assert!(
                found == expected,
                "{name}: ports with {what} of {found} neurons, {of} has {expected}"
            );
        };
        let width = |node: usize| nodes[node].shape.last().copied().unwrap_or(1);
        for term in &ports.writers {
            refuse(
                "a writer",
                term.slice.neurons(),
                "the output",
                width(self.output),
            );
            assert!(
                ports.heads > 0 && term.slice.neurons().is_multiple_of(ports.heads),
                "{name}: ports with {} heads for {} neurons",
                ports.heads,
                term.slice.neurons()
            );
        }
        for (reader, &node) in ports.readers.iter().zip(&self.inputs) {
            // Constants are not checked, nor are sparse matrices, whose nodes hold only the stored
            // values.
            if !nodes[node].args.is_empty() && nodes[node].shape.len() > 1 {
                for term in &reader.terms {
                    refuse("a reader", term.slice.neurons(), "the input", width(node));
                }
            }
        }
    }
}

/// The calls of one pass.
#[derive(Debug)]
pub struct Log {
    /// The names of the model's parameters.
    pub(super) names: Vec<String>,
    pub(super) calls: Vec<Call>,
    open: Vec<usize>,
}

impl Log {
    pub(super) fn new(names: Vec<String>) -> Self {
        Self {
            names,
            calls: Vec::new(),
            open: Vec::new(),
        }
    }

    /// Records the beginning of a call, and returns the number of the call.
    pub(in crate::nn) fn open<F: Real>(
        &mut self,
        pass: &Pass<'_, '_, F>,
        layer: &(impl Layer<F> + ?Sized),
        inputs: &[Var<'_, F>],
        ports: Option<Ports>,
    ) -> usize {
        let own = layer.parameters();
        let numbers = own.iter().filter_map(|own| pass.params().find(own.tensor));
        let parameters: Vec<usize> = numbers.collect();
        // A name in the model is the path of the layer, followed by the name within the layer.
        let path = (own.first().zip(parameters.first())).map_or("", |(own, &number)| {
            let full = &self.names[number];
            full.strip_suffix(own.name.as_str()).unwrap_or(full)
        });
        self.calls.push(Call {
            parent: self.open.last().copied(),
            path: path.trim_end_matches('.').to_owned(),
            kind: kind_of(layer),
            shape: Vec::new(),
            parameters,
            ports,
            inputs: inputs.iter().map(|x| x.id).collect(),
            output: 0,
            nodes: pass.tape().len()..0,
        });
        self.open.push(self.calls.len() - 1);
        self.calls.len() - 1
    }

    /// Records the end of a call, and its output.
    pub(in crate::nn) fn close<F: Real>(&mut self, call: usize, output: Var<'_, F>) {
        self.open
            .truncate(self.open.iter().position(|&c| c == call).unwrap_or(0));
        let entry = &mut self.calls[call];
        entry.shape = output.shape();
        entry.output = output.id;
        entry.nodes.end = output.tape().len();
    }
}
