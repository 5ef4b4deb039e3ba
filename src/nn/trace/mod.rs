//! A recorded forward pass, and the properties that are read off it.
//!
//! A model is described once, by its forward function. A [`Trace`] runs it on a sample and records
//! the calls of layers and the operations between them, as plain data. The [laws](Trace::laws), a
//! [summary](Trace::summary) and the order of weights for
//! [`Initialization`](crate::init::Initialization) are computed from this record.

mod centred;
mod collapse;
mod complete;
mod glue;
mod laws;
mod lipschitz;
mod offsets;
mod relation;
mod shared;
mod streams;
mod summary;
mod weights;

pub use collapse::{Collapse, Measures};
pub use lipschitz::{Constant, Constants};
pub use summary::Summary;

use super::log::{Call, Log, spoken};
use super::{Entry, Module, Pass, Role};
use crate::autodiff::{Function, Kind, Tape, Var};
use crate::real::Real;
use crate::symmetry::Ports;
use crate::tensor::Tensor;
use std::cell::RefCell;

/// One forward pass over a sample input.
///
/// ```
/// use emmy::{Real, Tape, Tensor, Var, init, nn::{LayerNorm, Linear, Pass, Trace}};
///
/// struct Net<F: Real> {
///     first: Linear<F>,
///     norm: LayerNorm<F>,
///     inner: Linear<F>,
///     last: Linear<F>,
/// }
/// emmy::module!(Net: first, norm, inner, last);
///
/// impl<F: Real> Net<F> {
///     fn forward<'t>(&self, pass: &Pass<'t, '_, F>, x: Var<'t, F>) -> Var<'t, F> {
///         let x = self.first.forward(pass, x);
///         let y = self.inner.forward(pass, self.norm.forward(pass, x)).relu();
///         self.last.forward(pass, y)
///     }
/// }
///
/// let rng = &mut init::rng(0);
/// let net = Net::<f64> {
///     first: Linear::new(4, 6, true, rng),
///     norm: LayerNorm::new(6),
///     inner: Linear::new(6, 5, true, rng),
///     last: Linear::new(5, 2, true, rng),
/// };
/// let x = init::normal(&[3, 4], 1.0, rng);
/// let trace = Trace::of(&net, |pass| net.forward(pass, pass.tape().constant(x.clone())));
/// let names: Vec<_> = trace.laws().into_iter().map(|law| law.name).collect();
/// assert_eq!(names, ["first, shift, 1", "first, shift, 2", "norm, neurons", "inner, neurons"]);
/// ```
#[derive(Debug, Clone)]
pub struct Trace {
    /// The names of the model's parameters.
    names: Vec<String>,
    roles: Vec<Role>,
    shapes: Vec<Vec<usize>>,
    calls: Vec<Call>,
    nodes: Vec<Node>,
    outputs: Vec<usize>,
    /// The calls with ports, in order. Calls inside one of them are left out.
    declared: Vec<usize>,
    /// For each node, the declared call that recorded it.
    owner: Vec<Option<usize>>,
    /// For each parameter, the declared calls that use it.
    users: Vec<Users>,
    /// The tape itself and the node of the input, if the trace was taken of an evaluation.
    recorded: Option<lipschitz::Recorded>,
}

/// A node of the tape, without its value.
#[derive(Debug, Clone)]
struct Node {
    kind: Kind,
    args: Vec<usize>,
    shape: Vec<usize>,
    /// The number of the parameter, if the node is one.
    parameter: Option<usize>,
    /// ε of its numbers.
    epsilon: f64,
}

/// The calls that use a parameter.
#[derive(Debug, Clone, Default)]
struct Users {
    /// The declared calls whose ports name it, in order.
    calls: Vec<usize>,
    /// Whether these are all its uses, and their ports are equal.
    known: bool,
}

impl Node {
    /// The function that the operation applies to each entry.
    fn function(&self) -> Option<&Function> {
        match &self.kind {
            Kind::Entrywise(function) => Some(function),
            _ => None,
        }
    }
}

impl Trace {
    /// Runs `forward` once in a training pass. Laws hold for every loss that is a function of the
    /// returned variable.
    ///
    /// The sample should have at least two rows, better three: with one row, some operations cannot
    /// be told apart, and laws are then left out.
    ///
    /// Return the outputs of a model to get the laws that hold for every loss; return a loss to get
    /// the laws of that loss too.
    ///
    /// # Panics
    /// If a layer states ports that do not fit the shapes of its inputs and output.
    pub fn of<F: Real>(
        model: &(impl Module<F> + ?Sized),
        forward: impl for<'t, 'm> FnOnce(&Pass<'t, 'm, F>) -> Var<'t, F>,
    ) -> Self {
        Self::of_several(model, |pass| vec![forward(pass)])
    }

    /// The same for a model with several outputs.
    pub fn of_several<F: Real>(
        model: &(impl Module<F> + ?Sized),
        forward: impl for<'t, 'm> FnOnce(&Pass<'t, 'm, F>) -> Vec<Var<'t, F>>,
    ) -> Self {
        let tape = Tape::new();
        let mut pass = Pass::train(&tape, model, 0);
        pass.log = Some(RefCell::new(Log::new(trained_names(model))));
        let outputs = forward(&pass).iter().map(|y| y.id()).collect();
        Self::read(model.parameters(), pass, outputs)
    }

    /// A trace of an evaluation at the input x, for questions about the output as a function of the input:
    /// [`lipschitz`](Self::lipschitz). Nothing is random in it, and norms over a batch use their running
    /// statistics.
    ///
    /// The trace keeps the values of the pass as long as it lives.
    ///
    /// Write the closure where it is called, as here. A closure that is first kept in a variable would have
    /// one lifetime, and this one is called with any ("implementation of `FnOnce` is not general enough",
    /// "lifetime may not live long enough"): a forward pass that several calls share is a function.
    ///
    /// ```
    /// use emmy::{Var, init, lipschitz::Lp, nn::{Activation, Mlp, Pass, Trace}};
    /// let net = Mlp::<f64>::new(&[3, 4, 2], Activation::Relu, true, &mut init::rng(0));
    /// let x = init::normal(&[1, 3], 1.0, &mut init::rng(1));
    /// let trace = Trace::at(&net, &x, |pass, x| net.forward(pass, x));
    ///
    /// fn forward<'t>(net: &Mlp<f64>, pass: &Pass<'t, '_, f64>, x: Var<'t, f64>) -> Var<'t, f64> {
    ///     net.forward(pass, x).tanh()
    /// }
    /// let bounded = Trace::at(&net, &x, |pass, x| forward(&net, pass, x));
    /// assert!(bounded.lipschitz(Lp::Two)?.upper <= trace.lipschitz(Lp::Two)?.upper);
    /// # Ok::<(), emmy::Error>(())
    /// ```
    pub fn at<F: Real>(
        model: &(impl Module<F> + ?Sized),
        x: &Tensor<F>,
        forward: impl for<'t, 'm> FnOnce(&Pass<'t, 'm, F>, Var<'t, F>) -> Var<'t, F>,
    ) -> Self {
        Self::of_evaluation(model, Some(x), |pass, x| forward(pass, x.expect("given")))
    }

    /// The same for a model whose input is not a dense tensor, or if only the values of the pass are needed
    /// ([`collapse`](Self::collapse)).
    pub fn evaluated<F: Real>(
        model: &(impl Module<F> + ?Sized),
        forward: impl for<'t, 'm> FnOnce(&Pass<'t, 'm, F>) -> Var<'t, F>,
    ) -> Self {
        Self::of_evaluation(model, None, |pass, _| forward(pass))
    }

    fn of_evaluation<F: Real>(
        model: &(impl Module<F> + ?Sized),
        x: Option<&Tensor<F>>,
        forward: impl for<'t, 'm> FnOnce(&Pass<'t, 'm, F>, Option<Var<'t, F>>) -> Var<'t, F>,
    ) -> Self {
        let tape = Tape::new();
        let (mut trace, input, output) = {
            let mut pass = Pass::differentiable(&tape, model);
            let x = x.map(|x| tape.var(x.clone()));
            pass.log = Some(RefCell::new(Log::new(trained_names(model))));
            let y = forward(&pass, x);
            (
                Self::read(model.parameters(), pass, vec![y.id()]),
                x.map(|x| x.id()),
                y.id(),
            )
        };
        trace.recorded = Some(lipschitz::Recorded::new(tape, input, output));
        trace
    }

    /// Reads what a pass over a model with these parameters has recorded.
    #[inline(never)]
    fn read<F: Real>(
        trained: Vec<Entry<&Tensor<F>>>,
        mut pass: Pass<'_, '_, F>,
        outputs: Vec<usize>,
    ) -> Self {
        let tape = pass.tape();
        let parameters: Vec<usize> = pass.vars().iter().map(|v| v.id()).collect();
        let log = pass.log.take().expect("it was put there").into_inner();
        let node = |id| {
            let node = tape.node(id);
            Node {
                kind: node.kind.clone(),
                args: node.args.to_vec(),
                shape: node.shape.to_vec(),
                parameter: parameters.iter().position(|&p| p == id),
                epsilon: F::epsilon().as_f64(),
            }
        };
        let mut trace = Self {
            roles: trained.iter().map(|p| p.role).collect(),
            shapes: trained.iter().map(|p| p.tensor.shape().to_vec()).collect(),
            names: trained.into_iter().map(|p| p.name).collect(),
            calls: log.calls,
            nodes: (0..tape.len()).map(node).collect(),
            outputs,
            declared: Vec::new(),
            owner: Vec::new(),
            users: Vec::new(),
            recorded: None,
        };
        trace.declared = trace.with_ports();
        trace.owner = vec![None; trace.nodes.len()];
        for &call in &trace.declared {
            trace.owner[trace.calls[call].nodes.clone()].fill(Some(call));
        }
        complete::complete(&mut trace);
        trace.users = trace.users_of_parameters();
        trace
    }

    /// The calls of layers, in the order in which they began.
    pub fn calls(&self) -> &[Call] {
        &self.calls
    }

    /// The names of the model's parameters.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The calls with ports that are inside no other call with ports.
    fn with_ports(&self) -> Vec<usize> {
        let hidden = |mut call: usize| loop {
            match self.calls[call].parent {
                None => return false,
                Some(parent) if self.calls[parent].ports.is_some() => return true,
                Some(parent) => call = parent,
            }
        };
        let all = 0..self.calls.len();
        all.filter(|&c| self.calls[c].ports.is_some() && !hidden(c))
            .collect()
    }
}

/// The ports of a declared call.
fn ports(trace: &Trace, call: usize) -> &Ports {
    trace.calls[call].ports.as_ref().expect("a declared call")
}

fn trained_names<F: Real>(model: &(impl Module<F> + ?Sized)) -> Vec<String> {
    model.parameters().into_iter().map(|p| p.name).collect()
}

/// A model that can be traced on a sample that it makes itself, so its laws can be listed without
/// data.
pub trait Traced<F: Real>: Module<F> {
    /// A pass over a small sample.
    fn trace(&self) -> Trace;

    /// The laws that hold for every loss of the outputs: [`Trace::laws`].
    fn laws(&self) -> Vec<crate::symmetry::Law> {
        self.trace().laws()
    }

    /// The further laws of a loss that depends on the softmax of the outputs: [`Trace::softmax_laws`].
    fn softmax_laws(&self) -> Vec<crate::symmetry::Law> {
        self.trace().softmax_laws()
    }
}
