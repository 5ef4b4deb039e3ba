//! A forward pass over a model: its parameters on a tape, seeds for random operations, and a log of
//! calls if a trace is taken.

use super::log::{Log, kind_of};
use super::module::states_mut;
use super::{Entry, Module, Params};
use crate::autodiff::{Tape, Var, grad};
use crate::kernels::random::mix;
use crate::real::Real;
use crate::symmetry::Ports;
use crate::tensor::Tensor;
use std::cell::{Cell, RefCell};

/// A module with a forward pass.
///
/// The forward function is an ordinary function that wraps its body in [`Pass::call`]. The ports
/// are read when a [`Trace`](super::Trace) is taken.
pub trait Layer<F: Real>: Module<F> {
    /// How the layer takes part in conservation laws: which of its parameters write and read neurons
    /// (`Ports::writes(..).reads(..)`); a trace reads the rest off the call. A layer without ports is
    /// transparent: the calls inside it are examined one by one. Calls inside a layer with ports are not
    /// examined.
    fn ports(&self, params: &Params<'_, F>) -> Option<Ports> {
        let _ = params;
        None
    }
}

impl<F: Real, L: Layer<F> + ?Sized> Layer<F> for Box<L> {
    fn ports(&self, params: &Params<'_, F>) -> Option<Ports> {
        (**self).ports(params)
    }
}

/// One forward pass over a model: a tape, the model's parameters on it, the mode (training or
/// evaluation), and a source of seeds.
///
/// A pass borrows its model for `'m` and puts all parameters on the tape when it begins: as variables in a
/// training pass, as constants in an evaluation. The model cannot change while a pass over it
/// exists:
///
/// ```compile_fail,E0502
/// use emmy::{Tape, init, nn::{Linear, Pass}};
/// let mut layers = vec![Linear::<f32>::new(3, 3, true, &mut init::rng(0))];
/// let tape = Tape::new();
/// let pass = Pass::train(&tape, &layers, 0);
/// let x = tape.constant(init::normal(&[2, 3], 1.0, &mut init::rng(1)));
/// let y = layers[0].forward(&pass, x);
/// layers.push(layers[0].clone()); // error: `layers` is borrowed by the pass
/// let z = layers[1].forward(&pass, y);
/// ```
///
/// It cannot move either:
///
/// ```compile_fail,E0505
/// use emmy::{Tape, init, nn::{Linear, Pass}};
/// let layer = Linear::<f32>::new(3, 3, true, &mut init::rng(0));
/// let tape = Tape::new();
/// let pass = Pass::train(&tape, &layer, 0);
/// let moved = Box::new(layer); // error: `layer` is borrowed by the pass
/// let y = moved.forward(&pass, tape.constant(init::normal(&[2, 3], 1.0, &mut init::rng(1))));
/// ```
///
/// The tape and the model have lifetimes of their own. With one for both, a function of variables on any tape
/// that borrows a model (`|x| net.forward(&Pass::bound(x.tape(), &net, ..), x)`, as `check_grads` and
/// `discover` take it) would not compile: it would have to borrow the model for every lifetime of a tape.
///
/// A tensor that does not belong to the model, such as a temporary or a copy, makes
/// [`param`](Self::param) panic.
pub struct Pass<'t, 'm, F: Real> {
    tape: &'t Tape<F>,
    /// The seed of a training pass; `None` in an evaluation.
    seed: Option<u64>,
    draws: Cell<u64>,
    params: Params<'m, F>,
    vars: Vec<Var<'t, F>>,
    states: Vec<Var<'t, F>>,
    updates: RefCell<Vec<Option<Tensor<F>>>>,
    pub(super) log: Option<RefCell<Log>>,
}

impl<'t, 'm, F: Real> Pass<'t, 'm, F> {
    /// A training pass; all random numbers in it follow from `seed`.
    pub fn train(tape: &'t Tape<F>, model: &'m (impl Module<F> + ?Sized), seed: u64) -> Self {
        Self::new(tape, model, Some(seed), |p| tape.var(p.clone()))
    }

    /// An evaluation: no dropout, no derivatives with respect to parameters.
    pub fn eval(tape: &'t Tape<F>, model: &'m (impl Module<F> + ?Sized)) -> Self {
        Self::new(tape, model, None, |p| tape.constant(p.clone()))
    }

    /// An evaluation that can be differentiated by the parameters: its [`vars`](Self::vars) are variables.
    ///
    /// ```
    /// use emmy::{Tape, autodiff::grad, init, nn::{Linear, Pass}};
    /// let layer = Linear::<f64>::new(3, 2, true, &mut init::rng(0));
    /// let tape = Tape::new();
    /// let pass = Pass::differentiable(&tape, &layer);
    /// let y = layer.forward(&pass, tape.constant(init::normal(&[4, 3], 1.0, &mut init::rng(1))));
    /// assert_eq!(grad(y.sum_all(), pass.vars())[1].as_slice(), Some(&[4.0, 4.0][..]));
    /// ```
    pub fn differentiable(tape: &'t Tape<F>, model: &'m (impl Module<F> + ?Sized)) -> Self {
        Self::new(tape, model, None, |p| tape.var(p.clone()))
    }

    /// An evaluation in which `vars` replace the parameters, in the model's order. The model is then a
    /// function of these variables; differentiate it with [`crate::autodiff`], not with
    /// [`gradients`](Self::gradients).
    ///
    /// ```
    /// use emmy::{Tape, autodiff::hvp, init, nn::{Linear, Module, Pass}};
    /// let layer = Linear::<f64>::new(3, 2, true, &mut init::rng(0));
    /// let tape = Tape::new();
    /// let theta: Vec<_> = layer.tensors().into_iter().map(|p| tape.var(p.clone())).collect();
    /// let pass = Pass::bound(&tape, &layer, &theta);
    /// let x = tape.constant(init::normal(&[4, 3], 1.0, &mut init::rng(1)));
    /// let loss = layer.forward(&pass, x).tanh().sum_all();
    /// let direction: Vec<_> = layer.tensors().into_iter().cloned().collect();
    /// assert_eq!(hvp(loss, &theta, &direction)[0].shape(), [2, 3]);
    /// ```
    ///
    /// # Panics
    /// If there is not one variable per parameter, with the shape of the parameter.
    #[track_caller]
    pub fn bound(
        tape: &'t Tape<F>,
        model: &'m (impl Module<F> + ?Sized),
        vars: &[Var<'t, F>],
    ) -> Self {
        Self::bound_as(tape, model, vars, None)
    }

    /// The same as a training pass with this seed, if there is one.
    #[track_caller]
    pub(crate) fn bound_as(
        tape: &'t Tape<F>,
        model: &'m (impl Module<F> + ?Sized),
        vars: &[Var<'t, F>],
        seed: Option<u64>,
    ) -> Self {
        let expected: Vec<_> = model.tensors().iter().map(|p| p.shape().to_vec()).collect();
        let found: Vec<_> = vars.iter().map(|v| v.shape()).collect();
        assert!(
            found == expected,
            "bound: variables of shapes {found:?} for parameters of shapes {expected:?}"
        );
        let mut vars = vars.iter().copied();
        Self::new(tape, model, seed, |_| vars.next().expect("as many"))
    }

    fn new(
        tape: &'t Tape<F>,
        model: &'m (impl Module<F> + ?Sized),
        seed: Option<u64>,
        bind: impl FnMut(&Tensor<F>) -> Var<'t, F>,
    ) -> Self {
        let params = Params::of(model);
        let vars = params.tensors().iter().copied().map(bind).collect();
        let states = params.states().iter().copied();
        Self {
            tape,
            seed,
            draws: Cell::new(0),
            vars,
            states: states.map(|s| tape.constant(s.clone())).collect(),
            updates: RefCell::new(vec![None; params.states().len()]),
            params,
            log: None,
        }
    }

    /// The tape of this pass.
    pub fn tape(&self) -> &'t Tape<F> {
        self.tape
    }

    /// The parameters of the model, by address.
    pub fn params(&self) -> &Params<'m, F> {
        &self.params
    }

    /// The variables (in a pass of [`Pass::eval`]: the constants) that stand for the parameters, in the
    /// model's order.
    pub fn vars(&self) -> &[Var<'t, F>] {
        &self.vars
    }

    /// Whether this is a training pass.
    pub fn is_training(&self) -> bool {
        self.seed.is_some()
    }

    /// The seed for the next random operation of a training pass (the k-th call gives the k-th seed), `None`
    /// in an evaluation.
    pub fn draw(&self) -> Option<u64> {
        let k = self.draws.get();
        let seed = self.seed?;
        self.draws.set(k + 1);
        Some(mix(seed, k))
    }

    /// Whether a seed has been drawn in this pass.
    pub fn was_random(&self) -> bool {
        self.draws.get() > 0
    }

    /// The variable (in a pass of [`Pass::eval`]: the constant) that stands for a parameter. Two calls for
    /// one parameter return the same variable, so shared weights need no special treatment.
    ///
    /// # Panics
    /// If the tensor is not a parameter of the model: a temporary, a copy, or a field that `module!` does not
    /// list.
    #[track_caller]
    pub fn param(&self, parameter: &Tensor<F>) -> Var<'t, F> {
        let Some(number) = self.params.find(parameter) else {
            panic!("param: {}", self.params.stranger(parameter));
        };
        self.vars[number]
    }

    /// The constant that stands for a tensor of state.
    ///
    /// # Panics
    /// If the tensor is not state of the model.
    #[track_caller]
    pub fn state(&self, state: &Tensor<F>) -> Var<'t, F> {
        self.states[self.state_number("state", state)]
    }

    /// A tensor of state as the last [`update`](Self::update) of this pass left it, for a layer that runs
    /// twice in one pass.
    ///
    /// # Panics
    /// If the tensor is not state of the model.
    #[track_caller]
    pub fn updated(&self, state: &Tensor<F>) -> Tensor<F> {
        let number = self.state_number("updated", state);
        let updates = self.updates.borrow();
        updates[number].as_ref().unwrap_or(state).clone()
    }

    /// Replaces a tensor of state after the pass, when [`into_updates`](Self::into_updates) is applied to the
    /// model.
    ///
    /// # Panics
    /// If the tensor is not state of the model, or the shapes differ.
    #[track_caller]
    pub fn update(&self, state: &Tensor<F>, value: Tensor<F>) {
        let (expected, found) = (state.shape(), value.shape());
        assert!(
            found == expected,
            "update: a value of shape {found:?} for state of shape {expected:?}"
        );
        let number = self.state_number("update", state);
        self.updates.borrow_mut()[number] = Some(value);
    }

    #[track_caller]
    fn state_number(&self, what: &str, state: &Tensor<F>) -> usize {
        let number = self.params.find_state(state);
        number.unwrap_or_else(|| {
            let shape = state.shape();
            panic!("{what}: a tensor of shape {shape:?} is not state of the model of this pass; list it after `state` in `module!`")
        })
    }

    /// Ends the pass and returns the new values of the model's state.
    pub fn into_updates(self) -> Updates<F> {
        Updates(self.updates.into_inner())
    }

    /// Runs the forward function of a layer. If a trace is taken, the call is recorded in its log;
    /// otherwise `body` just runs.
    ///
    /// `inputs` are the variables that the layer reads, in the order of the readers of its
    /// [`Ports`].
    ///
    /// # Panics
    /// If a parameter of the layer is not one of the model; the message names the layer and the parameter.
    #[track_caller]
    pub fn call<R: Output<'t, F>>(
        &self,
        layer: &(impl Layer<F> + ?Sized),
        inputs: &[Var<'t, F>],
        body: impl FnOnce() -> R,
    ) -> R {
        self.call_with(layer, inputs, |params| layer.ports(params), body)
    }

    /// The same for a layer whose ports depend on what it is called with, as on a graph: `ports` stands in
    /// place of [`Layer::ports`].
    ///
    /// # Panics
    /// As [`call`](Self::call).
    #[track_caller]
    pub fn call_with<R: Output<'t, F>>(
        &self,
        layer: &(impl Layer<F> + ?Sized),
        inputs: &[Var<'t, F>],
        ports: impl FnOnce(&Params<'_, F>) -> Option<Ports>,
        body: impl FnOnce() -> R,
    ) -> R {
        if let Some(k) = self.params.first_stranger(&layer.tensors()) {
            let Entry { name, tensor, .. } = layer.parameters().swap_remove(k);
            self.refuse(kind_of(layer), &name, tensor);
        }
        if self.log.is_none() {
            return body();
        }
        let ports = ports(&self.params);
        let call = self.open(kind_of(layer), &layer.parameters(), inputs, ports);
        let result = body();
        self.close(call, result.output());
        result
    }

    /// Panics: the tensor `name` of a layer is not a parameter of the model of this pass.
    #[track_caller]
    #[inline(never)]
    fn refuse(&self, kind: &str, name: &str, tensor: &Tensor<F>) -> ! {
        let what = self.params.stranger(tensor);
        panic!("{kind}: its `{name}` is a stranger: {what}");
    }

    /// Records the beginning of a call.
    #[inline(never)]
    fn open(
        &self,
        kind: &'static str,
        own: &[Entry<&Tensor<F>>],
        inputs: &[Var<'t, F>],
        ports: Option<Ports>,
    ) -> Option<usize> {
        let mut log = self.log.as_ref()?.borrow_mut();
        Some(log.open(kind, own, &self.params, inputs, self.tape.len(), ports))
    }

    /// Records the end of a call.
    #[inline(never)]
    fn close(&self, call: Option<usize>, output: Var<'t, F>) {
        if let (Some(log), Some(call)) = (&self.log, call) {
            log.borrow_mut().close(call, output);
        }
    }

    /// ∂loss/∂θ for every parameter θ of the model, in its order; zeros for a parameter that the
    /// loss does not depend on.
    ///
    /// # Panics
    /// If this is not a training pass, or the loss has not exactly one element.
    #[track_caller]
    pub fn gradients(&self, loss: Var<'t, F>) -> Vec<Tensor<F>> {
        assert!(
            self.is_training(),
            "gradients: this is no training pass; begin with Pass::train, or use autodiff::grad(loss, pass.vars())"
        );
        grad(loss, &self.vars)
    }
}

/// The return value of a layer: its output alone, or a pair that begins with the output.
pub trait Output<'t, F: Real> {
    /// The output.
    fn output(&self) -> Var<'t, F>;
}

impl<'t, F: Real> Output<'t, F> for Var<'t, F> {
    fn output(&self) -> Var<'t, F> {
        *self
    }
}

impl<'t, F: Real, T> Output<'t, F> for (Var<'t, F>, T) {
    fn output(&self) -> Var<'t, F> {
        self.0
    }
}

/// New values for the state of a model, from one pass over it.
#[derive(Debug, Clone)]
pub struct Updates<F: Real>(Vec<Option<Tensor<F>>>);

impl<F: Real> Updates<F> {
    /// Writes them to the model.
    ///
    /// # Panics
    /// If the model has another number of state tensors than the model of the pass.
    #[track_caller]
    pub fn apply(self, model: &mut (impl Module<F> + ?Sized)) {
        if self.0.is_empty() {
            return;
        }
        let states = states_mut(model);
        let (expected, found) = (self.0.len(), states.len());
        assert!(
            found == expected,
            "updates: values for {expected} tensors of state, the model has {found}"
        );
        for (state, value) in states.into_iter().zip(self.0) {
            if let Some(value) = value {
                *state = value;
            }
        }
    }
}
