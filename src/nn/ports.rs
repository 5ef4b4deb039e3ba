//! Which parameters flow into the neurons of a layer and out of those before it, and the laws that follow when layers are chained.

use super::{Activation, Module};
use crate::real::Real;
use crate::symmetry::{Law, Slice, Symmetry, Term};
use crate::tensor::Tensor;

/// Where the parameters of a model stand in its list, found by address: a layer names its own fields.
#[derive(Debug)]
pub struct Slots<'a, F: Real> {
    parameters: Vec<&'a Tensor<F>>,
}

impl<'a, F: Real> Slots<'a, F> {
    /// The places of all parameters of `model`.
    pub fn of(model: &'a impl Module<F>) -> Self {
        Self {
            parameters: model.tensors(),
        }
    }

    /// The number of a parameter in the model's list.
    ///
    /// # Panics
    /// If it is none of the model's.
    #[track_caller]
    pub fn number(&self, parameter: &Tensor<F>) -> usize {
        let same = |p: &&Tensor<F>| std::ptr::eq(*p, parameter);
        match self.parameters.iter().position(same) {
            Some(number) => number,
            None => panic!("slots: not a parameter of this model"),
        }
    }

    /// One neuron a row of a weight `[out, in]`, or an entry of a bias `[out]`.
    pub fn rows(&self, parameter: &Tensor<F>) -> Slice {
        self.grouped(parameter, 1, parameter.shape()[0])
    }

    /// One neuron a column of a weight `[out, in]`.
    pub fn columns(&self, weight: &Tensor<F>) -> Slice {
        let input = weight.shape().last().copied().unwrap_or(1);
        let outer = weight.len().checked_div(input).unwrap_or(0);
        Slice::new(self.number(weight), [outer, input, 1])
    }

    /// `width` neurons, each of `groups` stretches: with 1 group consecutive entries, with H those of H heads that are averaged.
    pub fn grouped(&self, parameter: &Tensor<F>, groups: usize, width: usize) -> Slice {
        let inner = parameter.len().checked_div(groups * width).unwrap_or(0);
        Slice::new(self.number(parameter), [groups, width, inner])
    }
}

/// How a layer takes part in conservation laws.
#[derive(Debug, Clone, PartialEq)]
pub struct Ports {
    /// What flows into each of its output neurons, and what weighs them in its attention.
    pub writers: Vec<Term>,
    /// What reads each of its input neurons.
    pub readers: Vec<Term>,
    /// H, if its output neurons are those of H heads side by side, else 1.
    pub heads: usize,
    /// Whether its output neurons may also be mixed by any matrix: no function of single neurons stands between parameters and output.
    pub mixes: bool,
    /// What may be shifted for all output neurons together and shifts only the outputs, all alike; one neuron an input.
    pub shifts: Vec<Slice>,
    /// The numbers of the parameters of a skip connection.
    pub skip: Vec<usize>,
}

/// A model of layers in a row, with one activation between them.
pub trait Stack<F: Real>: Module<F> {
    /// The layers, first to last.
    fn ports(&self) -> Vec<Ports>;

    /// σ between the layers.
    fn activation(&self) -> Activation;

    /// Whether neurons are dropped between the layers in training.
    fn drops(&self) -> bool;

    /// The conservation laws that hold for every loss of the outputs.
    ///
    /// For each layer but the last and each head of it, one law about its neurons, if the activation is homogeneous: of degree 1 as in
    /// "Are GATs Out of Balance?", Theorem 2.2 (shared weights), Theorem 6.3 with what its right side lacks (separate weights), Theorem 6.4
    /// (heads). Besides, with the identity for σ, a law about the whole space of neurons where nothing sees them one by one.
    ///
    /// # Panics
    /// If a layer has ports that do not fit those of the next, or no writer or no head where there is a next.
    fn laws(&self) -> Vec<Law> {
        let activation = self.activation();
        let linear = activation == Activation::Identity && !self.drops();
        let degree = activation.degree();
        degree.map_or_else(Vec::new, |k| chain(&self.ports(), k, linear))
    }

    /// The further laws of a loss that does not change when all outputs are shifted alike, such as cross-entropy of their softmax: the
    /// gradient of the last layer sums to zero over the classes.
    fn softmax_laws(&self) -> Vec<Law> {
        let ports = self.ports();
        let shifts = ports.last().map_or(&[][..], |last| &last.shifts);
        let name = |k: usize| match shifts.len() {
            1 => format!("layer {}, sum over classes", ports.len()),
            _ => format!("layer {}, sum over classes, {}", ports.len(), k + 1),
        };
        let law = |(k, slice): (usize, &Slice)| {
            let terms = vec![Term::incoming(slice.clone())];
            Law::new(name(k), ports.len(), Symmetry::Translation, terms)
        };
        shifts.iter().enumerate().map(law).collect()
    }
}

/// The laws of layers in a row, between them a function that is homogeneous of this degree and may be linear.
pub(super) fn chain(ports: &[Ports], degree: u32, linear: bool) -> Vec<Law> {
    let mut laws = Vec::new();
    for (l, pair) in ports.windows(2).enumerate() {
        let [from, to] = pair else { unreachable!() };
        let readers = to.readers.iter().map(|t| t.clone().times(degree.into()));
        let terms: Vec<Term> = from.writers.iter().cloned().chain(readers).collect();
        let layer = l + 1;
        assert!(
            !from.writers.is_empty(),
            "layer {layer}: ports without a writer"
        );
        let neurons = terms[0].slice.neurons();
        assert!(
            from.heads > 0 && neurons.is_multiple_of(from.heads),
            "layer {layer}: {neurons} neurons of {} heads",
            from.heads
        );
        let width = neurons / from.heads;
        for h in 0..from.heads {
            let range = h * width..(h + 1) * width;
            let terms: Vec<Term> = terms.iter().map(|t| t.narrow(range.clone())).collect();
            let whose = match from.heads {
                1 => format!("layer {layer}"),
                _ => format!("layer {layer}, head {}", h + 1),
            };
            let law = |what, symmetry| {
                Law::new(format!("{whose}, {what}"), layer, symmetry, terms.clone())
            };
            laws.push(law("neurons", Symmetry::Rescaling));
            if from.mixes && linear {
                laws.push(law("space of neurons", Symmetry::Linear));
            }
        }
    }
    laws
}

/// The law of a stream of neurons that some layers add to and some read, x ← x + f(x): one about coordinate i, that is, row i of all that is
/// written and column i of all that is read, for every i.
///
/// Skip connections tie the neurons of all the layers between into one stream: scaled alone, those of one layer would no longer fit what they
/// are added to, so the laws of a chain ([`Stack::laws`]) do not hold. Scaled in all layers at once, coordinate i of the stream is scaled, and
/// nothing else, if
/// - all that is ever added to the stream comes from the writers, and all that is ever seen of it goes through the readers;
/// - whatever else stands on the way, before or behind a writer or reader, acts on each coordinate alone and is homogeneous of degree 1: ReLU,
///   LeakyReLU, dropout, propagation along a graph.
///
/// A layer within the stream is both, writer and reader. The first features are no parameters, so a stream starts with a layer that makes it.
///
/// # Panics
/// If there is neither writer nor reader, or they are not all of the same width.
#[track_caller]
pub fn stream_law(
    name: impl Into<String>,
    layer: usize,
    writers: &[&Ports],
    readers: &[&Ports],
) -> Law {
    let written = writers.iter().flat_map(|ports| &ports.writers);
    let read = readers.iter().flat_map(|ports| &ports.readers);
    let terms = written.chain(read).cloned().collect();
    Law::new(name, layer, Symmetry::Rescaling, terms)
}
