//! What is checked: a model, or a function, with its input and a seed.

use super::Loss;
use crate::autodiff::{Tape, Var, grad};
use crate::graph::{Duplicates, Graph, SelfLoops};
use crate::nn::{Module, Pass, Trace};
use crate::real::Real;
use crate::symmetry::Law;
use crate::tensor::Tensor;

/// A forward pass of the model at the input x.
type AtInput<'a, F> = dyn for<'t, 'm> Fn(&Pass<'t, 'm, F>, Var<'t, F>) -> Var<'t, F> + Sync + 'a;

/// A forward pass of the model at the input x on a graph.
type OnGraph<'a, F> =
    dyn for<'t, 'm> Fn(&Pass<'t, 'm, F>, Var<'t, F>, &Graph) -> Var<'t, F> + Sync + 'a;

/// A forward pass of the model on data of its own.
type Alone<'a, F> = dyn for<'t, 'm> Fn(&Pass<'t, 'm, F>) -> Var<'t, F> + Sync + 'a;

/// A function of variables.
type Function<'a, F> = dyn for<'t> Fn(&[Var<'t, F>]) -> Var<'t, F> + Sync + 'a;

enum Forward<'a, F: Real> {
    AtInput(Box<AtInput<'a, F>>),
    OnGraph(Box<OnGraph<'a, F>>),
    Alone(Box<Alone<'a, F>>),
    Function(Box<Function<'a, F>>),
}

/// What is checked: a model with its forward pass, an input, and the seed of all that a check draws.
///
/// The forward function is written once, and every check runs it, with other parameters or another input in
/// place of those given. It must take both from the pass and from x, and nothing random from elsewhere.
///
/// ```
/// use emmy::{init, lipschitz::Lp, nn::{Activation, Mlp}};
/// use emmy::testing::{Subject, assert_laws, assert_lipschitz};
/// let net = Mlp::<f64>::new(&[3, 4, 2], Activation::Relu, true, &mut init::rng(0));
/// let x = init::normal(&[5, 3], 1.0, &mut init::rng(1));
/// let subject = Subject::new(&net, &x, 7, |pass, x| net.forward(pass, x));
/// assert_laws(&subject);
/// assert_lipschitz(&subject, Lp::Two);
/// ```
pub struct Subject<'a, F: Real> {
    pub(super) model: &'a (dyn Module<F> + Sync + 'a),
    pub(super) x: Option<Tensor<F>>,
    pub(super) graph: Option<Graph>,
    pub(super) seed: u64,
    pub(super) loss: Loss,
    forward: Forward<'a, F>,
}

impl<'a, F: Real> Subject<'a, F> {
    /// A model at an input x, a row per node, token or sample.
    pub fn new(
        model: &'a (impl Module<F> + Sync),
        x: &Tensor<F>,
        seed: u64,
        forward: impl for<'t, 'm> Fn(&Pass<'t, 'm, F>, Var<'t, F>) -> Var<'t, F> + Sync + 'a,
    ) -> Self {
        Self::made(model, Some(x), seed, Forward::AtInput(Box::new(forward)))
    }

    /// A model at an input with a row per node of a graph. The forward function gets the graph too, for the
    /// checks that relabel its nodes.
    ///
    /// # Panics
    /// If x has not a row per node.
    #[track_caller]
    pub fn on_graph(
        model: &'a (impl Module<F> + Sync),
        x: &Tensor<F>,
        graph: &Graph,
        seed: u64,
        forward: impl for<'t, 'm> Fn(&Pass<'t, 'm, F>, Var<'t, F>, &Graph) -> Var<'t, F> + Sync + 'a,
    ) -> Self {
        let (rows, nodes) = (x.shape().first().copied(), graph.nodes());
        assert!(
            rows == Some(nodes),
            "Subject: an input of shape {:?} for a graph of {nodes} nodes: a row per node is needed",
            x.shape()
        );
        Self {
            graph: Some(graph.clone()),
            ..Self::made(model, Some(x), seed, Forward::OnGraph(Box::new(forward)))
        }
    }

    /// A model on data that the forward function has itself, such as symbols or a sparse matrix. Checks that
    /// need an input report that there is none.
    pub fn without_input(
        model: &'a (impl Module<F> + Sync),
        seed: u64,
        forward: impl for<'t, 'm> Fn(&Pass<'t, 'm, F>) -> Var<'t, F> + Sync + 'a,
    ) -> Self {
        Self::made(model, None, seed, Forward::Alone(Box::new(forward)))
    }

    /// A function of tensors, such as an operation; its arguments stand in place of the parameters.
    ///
    /// ```
    /// use emmy::{init, testing::{Subject, assert_grads, assert_kind}};
    /// let args = vec![init::normal::<f64>(&[3, 2], 1.0, &mut init::rng(0))];
    /// let tanh = Subject::function(&args, 0, |x| x[0].tanh());
    /// assert_grads(&tanh);
    /// assert_kind(&tanh);
    /// ```
    pub fn function(
        args: &'a Vec<Tensor<F>>,
        seed: u64,
        f: impl for<'t> Fn(&[Var<'t, F>]) -> Var<'t, F> + Sync + 'a,
    ) -> Self {
        Self::made(args, None, seed, Forward::Function(Box::new(f)))
    }

    fn made(
        model: &'a (impl Module<F> + Sync),
        x: Option<&Tensor<F>>,
        seed: u64,
        forward: Forward<'a, F>,
    ) -> Self {
        Self {
            model,
            x: x.cloned(),
            graph: None,
            seed,
            loss: Loss::Smooth,
            forward,
        }
    }

    /// The same with another loss than [`Loss::Smooth`].
    pub fn with_loss(self, loss: Loss) -> Self {
        Self { loss, ..self }
    }

    /// The names of the parameters, and of the input after them.
    pub(super) fn names(&self) -> Vec<String> {
        let parameters = self.model.parameters().into_iter().map(|p| p.name);
        parameters
            .chain(self.x.iter().map(|_| "x".to_owned()))
            .collect()
    }

    pub(super) fn parameters(&self) -> Vec<Tensor<F>> {
        self.model.tensors().into_iter().cloned().collect()
    }

    /// The parameters and the input.
    pub(super) fn arguments(&self) -> Vec<Tensor<F>> {
        let mut all = self.parameters();
        all.extend(self.x.clone());
        all
    }

    /// The output of a pass at x (a constant if none is given), on another graph if one is given.
    pub(super) fn output<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        x: Option<Var<'t, F>>,
        graph: Option<&Graph>,
    ) -> Var<'t, F> {
        let input = || {
            let x = self.x.clone().expect("a subject with an input");
            pass.tape().constant(x)
        };
        match &self.forward {
            Forward::AtInput(f) => f(pass, x.unwrap_or_else(input)),
            Forward::OnGraph(f) => {
                let graph = graph.or(self.graph.as_ref()).expect("a subject on a graph");
                f(pass, x.unwrap_or_else(input), graph)
            }
            Forward::Alone(f) => f(pass),
            Forward::Function(f) => f(pass.vars()),
        }
    }

    /// The model as a function of its parameters and its input, in a training pass: norms over a batch are
    /// those of the batch, and dropout follows from the seed.
    pub(super) fn apply<'t>(&self, arguments: &[Var<'t, F>]) -> Var<'t, F> {
        if let Forward::Function(f) = &self.forward {
            return f(arguments);
        }
        let count = self.model.tensors().len();
        let tape = arguments.first().expect("an argument").tape();
        let pass = Pass::bound_as(tape, self.model, &arguments[..count], Some(self.seed));
        self.output(&pass, arguments.get(count).copied(), None)
    }

    /// The output of a training pass with these parameters.
    pub(super) fn value(&self, theta: &[Tensor<F>]) -> Tensor<F> {
        let tape = Tape::new();
        let vars: Vec<_> = theta.iter().map(|p| tape.constant(p.clone())).collect();
        let pass = Pass::bound_as(&tape, self.model, &vars, Some(self.seed));
        self.output(&pass, None, None).value()
    }

    /// The output of an evaluation at x.
    pub(super) fn evaluate<'t>(&self, x: Var<'t, F>) -> Var<'t, F> {
        self.output(&Pass::eval(x.tape(), self.model), Some(x), None)
    }

    /// The loss of a training pass with these parameters, and its gradients.
    pub(super) fn point(&self, theta: &[Tensor<F>]) -> (f64, Vec<Tensor<F>>) {
        let tape = Tape::new();
        let vars: Vec<_> = theta.iter().map(|p| tape.var(p.clone())).collect();
        let pass = Pass::bound_as(&tape, self.model, &vars, Some(self.seed));
        let loss = self.loss.of(self.output(&pass, None, None), self.seed);
        (loss.item().as_f64(), grad(loss, &vars))
    }

    /// What a training pass records.
    pub fn trace(&self) -> Trace {
        Trace::of(self.model, |pass| self.output(pass, None, None))
    }

    /// The laws that are read off a training pass; for a loss of softmax, the further ones too.
    pub fn laws(&self) -> Vec<Law> {
        let trace = self.trace();
        let mut laws = trace.laws();
        if self.loss.ignores_shifts() {
            laws.extend(trace.softmax_laws());
        }
        laws
    }

    /// A graph of its rows: the subject's own, or one without edges.
    pub(super) fn rows(&self, n: usize) -> Graph {
        let none = || Graph::new(n, &[], Duplicates::Reject, SelfLoops::Reject);
        self.graph
            .clone()
            .unwrap_or_else(|| none().expect("no edges"))
    }
}
