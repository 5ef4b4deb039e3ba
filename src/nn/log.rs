//! The log of a pass: the calls of layers, in order.

use super::{Entry, Params};
use crate::autodiff::Var;
use crate::real::Real;
use crate::symmetry::Ports;
use crate::tensor::Tensor;
use std::ops::Range;

/// One call of a layer.
///
/// A perceptron calls its two layers; the names of their parameters begin with the paths:
///
/// ```
/// use emmy::{init, nn::{Activation, Mlp, Trace}};
///
/// let net = Mlp::<f64>::new(&[2, 3, 1], Activation::Relu, true, &mut init::rng(0));
/// let x = init::normal(&[5, 2], 1.0, &mut init::rng(1));
/// let trace = Trace::at(&net, &x, |pass, x| net.forward(pass, x));
/// let [all, first, _] = trace.calls() else { unreachable!("three calls") };
/// assert_eq!((all.kind, all.parent), ("Mlp", None));
/// assert_eq!((first.kind, first.path.as_str(), first.parent), ("Linear", "layers.0", Some(0)));
/// assert_eq!((&first.shape[..], &first.parameters[..]), (&[5, 3][..], &[0, 1][..]));
/// assert_eq!(trace.names()[0], "layers.0.weight");
/// ```
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
    pub(in crate::nn) inputs: Vec<usize>,
    pub(in crate::nn) output: usize,
    pub(in crate::nn) nodes: Range<usize>,
}

impl Call {
    /// The name of the layer for readers: the path of its fields, or its type if it has no
    /// parameters.
    pub(in crate::nn) fn title(&self) -> String {
        match self.path.is_empty() {
            true => self.kind.to_owned(),
            false => spoken(&self.path),
        }
    }
}

/// The calls of one pass.
#[derive(Debug)]
pub struct Log {
    /// The names of the model's parameters.
    pub(in crate::nn) names: Vec<String>,
    pub(in crate::nn) calls: Vec<Call>,
    open: Vec<usize>,
}

impl Log {
    pub(in crate::nn) fn new(names: Vec<String>) -> Self {
        Self {
            names,
            calls: Vec::new(),
            open: Vec::new(),
        }
    }

    /// Records the beginning of a call of a layer of type `kind` with the parameters `own`, before node
    /// `start`, and returns the number of the call.
    pub(in crate::nn) fn open<F: Real>(
        &mut self,
        kind: &'static str,
        own: &[Entry<&Tensor<F>>],
        params: &Params<'_, F>,
        inputs: &[Var<'_, F>],
        start: usize,
        ports: Option<Ports>,
    ) -> usize {
        let numbers = own.iter().filter_map(|own| params.find(own.tensor));
        let parameters: Vec<usize> = numbers.collect();
        // A name in the model is the path of the layer, followed by the name within the layer.
        let path = (own.first().zip(parameters.first())).map_or("", |(own, &number)| {
            let full = &self.names[number];
            full.strip_suffix(own.name.as_str()).unwrap_or(full)
        });
        self.calls.push(Call {
            parent: self.open.last().copied(),
            path: path.trim_end_matches('.').to_owned(),
            kind,
            shape: Vec::new(),
            parameters,
            ports,
            inputs: inputs.iter().map(|x| x.id()).collect(),
            output: 0,
            nodes: start..0,
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
        entry.output = output.id();
        entry.nodes.end = output.tape().len();
    }
}

/// The name of a layer's type, without modules and type parameters.
pub(super) fn kind_of<L: ?Sized>(_: &L) -> &'static str {
    bare(std::any::type_name::<L>())
}

/// `Linear` for `emmy::nn::linear::Linear<f32>`.
fn bare(name: &'static str) -> &'static str {
    let bare = name.split('<').next().unwrap_or(name);
    bare.rsplit("::").next().unwrap_or(bare)
}

/// A path in words: `layers.0` is layer 1, `blocks.2.norm` is block 3, norm.
pub(super) fn spoken(path: &str) -> String {
    let mut out: Vec<String> = Vec::new();
    for part in path.split('.').filter(|part| !part.is_empty()) {
        match (part.parse::<usize>(), out.pop()) {
            (Ok(k), Some(list)) => {
                out.push(format!(
                    "{} {}",
                    list.strip_suffix('s').unwrap_or(&list),
                    k + 1
                ));
            }
            (Ok(k), None) => out.push(format!("{}", k + 1)),
            (Err(_), last) => out.extend(last.into_iter().chain([part.to_owned()])),
        }
    }
    out.join(", ")
}
