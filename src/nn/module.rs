//! Layers and models as owners of named parameters, and the pass that binds them to a tape.

use crate::autodiff::{Tape, Var, grad};
use crate::kernels::random::mix;
use crate::real::Real;
use crate::tensor::Tensor;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// A list of parameters with their names, in a fixed order; `R` is `&Tensor<F>` or `&mut Tensor<F>`.
///
/// A name is the path of fields that leads to the parameter: `layers.0.weight`.
pub struct Named<R> {
    path: Vec<String>,
    items: Vec<(String, R)>,
}

impl<R> Named<R> {
    fn new() -> Self {
        Self {
            path: Vec::new(),
            items: Vec::new(),
        }
    }

    /// Collects what `list` adds, under `name`.
    pub fn within(&mut self, name: &str, list: impl FnOnce(&mut Self)) {
        self.path.push(name.to_owned());
        list(self);
        self.path.pop();
    }

    fn push(&mut self, parameter: R) {
        self.items.push((self.path.join("."), parameter));
    }
}

/// An owner of parameters: a tensor (one parameter), a layer, a list of layers, a model.
///
/// Parameters are plain tensors. A layer lists those of its fields that hold parameters with [`module!`](crate::module), in the
/// order that checkpoints and optimisers then use.
pub trait Module<F: Real> {
    /// Adds every parameter to `out`, in a fixed order.
    fn collect<'a>(&'a self, out: &mut Named<&'a Tensor<F>>);

    /// The same, to be written to.
    fn collect_mut<'a>(&'a mut self, out: &mut Named<&'a mut Tensor<F>>);

    /// Every parameter with its name.
    fn parameters(&self) -> Vec<(String, &Tensor<F>)> {
        let mut out = Named::new();
        self.collect(&mut out);
        out.items
    }

    /// Every parameter with its name, to be written to.
    fn parameters_mut(&mut self) -> Vec<(String, &mut Tensor<F>)> {
        let mut out = Named::new();
        self.collect_mut(&mut out);
        out.items
    }

    /// Every parameter, in the order of [`parameters`](Self::parameters).
    fn tensors(&self) -> Vec<&Tensor<F>> {
        self.parameters().into_iter().map(|(_, p)| p).collect()
    }

    /// The same, to be written to.
    fn tensors_mut(&mut self) -> Vec<&mut Tensor<F>> {
        self.parameters_mut().into_iter().map(|(_, p)| p).collect()
    }

    /// The number of scalars in all parameters.
    fn parameter_count(&self) -> usize {
        self.parameters().iter().map(|(_, p)| p.len()).sum()
    }
}

impl<F: Real> Module<F> for Tensor<F> {
    fn collect<'a>(&'a self, out: &mut Named<&'a Tensor<F>>) {
        out.push(self);
    }

    fn collect_mut<'a>(&'a mut self, out: &mut Named<&'a mut Tensor<F>>) {
        out.push(self);
    }
}

impl<F: Real, M: Module<F>> Module<F> for Option<M> {
    fn collect<'a>(&'a self, out: &mut Named<&'a Tensor<F>>) {
        if let Some(module) = self {
            module.collect(out);
        }
    }

    fn collect_mut<'a>(&'a mut self, out: &mut Named<&'a mut Tensor<F>>) {
        if let Some(module) = self {
            module.collect_mut(out);
        }
    }
}

impl<F: Real, M: Module<F>> Module<F> for Vec<M> {
    fn collect<'a>(&'a self, out: &mut Named<&'a Tensor<F>>) {
        for (k, module) in self.iter().enumerate() {
            out.within(&k.to_string(), |out| module.collect(out));
        }
    }

    fn collect_mut<'a>(&'a mut self, out: &mut Named<&'a mut Tensor<F>>) {
        for (k, module) in self.iter_mut().enumerate() {
            out.within(&k.to_string(), |out| module.collect_mut(out));
        }
    }
}

/// Implements [`Module`](crate::nn::Module) for a struct `Name<F>`: its parameters are those of the listed fields, in this order.
///
/// ```
/// use emmy::{Real, Tensor, nn::Module};
/// struct Affine<F: Real> {
///     weight: Tensor<F>,
///     bias: Option<Tensor<F>>,
/// }
/// emmy::module!(Affine: weight, bias);
///
/// let layer = Affine { weight: Tensor::<f32>::zeros(vec![2, 3]), bias: None };
/// assert_eq!(layer.parameters()[0].0, "weight");
/// ```
#[macro_export]
macro_rules! module {
    ($name:ident: $($field:ident),* $(,)?) => {
        impl<F: $crate::Real> $crate::nn::Module<F> for $name<F> {
            fn collect<'a>(&'a self, out: &mut $crate::nn::Named<&'a $crate::Tensor<F>>) {
                $(out.within(stringify!($field), |out| self.$field.collect(out));)*
            }

            fn collect_mut<'a>(&'a mut self, out: &mut $crate::nn::Named<&'a mut $crate::Tensor<F>>) {
                $(out.within(stringify!($field), |out| self.$field.collect_mut(out));)*
            }
        }
    };
}

/// One forward pass: a tape, whether it is for training, and a source of seeds.
///
/// Layers ask it for their parameters ([`param`](Self::param)); in a training pass these become variables, in an evaluation pass
/// constants. A parameter asked for twice is one variable, so shared weights need nothing special.
pub struct Pass<'t, F: Real> {
    tape: &'t Tape<F>,
    /// The seed of a training pass; an evaluation pass has none, and needs none.
    seed: Option<u64>,
    draws: Cell<u64>,
    /// By address: for as long as a pass lives, a parameter stays where it is.
    bound: RefCell<BTreeMap<usize, Var<'t, F>>>,
}

impl<'t, F: Real> Pass<'t, F> {
    /// A training pass; all that is random in it follows from `seed`.
    pub fn train(tape: &'t Tape<F>, seed: u64) -> Self {
        Self {
            seed: Some(seed),
            ..Self::evaluate(tape)
        }
    }

    /// An evaluation pass: no dropout, no derivatives with respect to parameters.
    pub fn evaluate(tape: &'t Tape<F>) -> Self {
        Self {
            tape,
            seed: None,
            draws: Cell::new(0),
            bound: RefCell::new(BTreeMap::new()),
        }
    }

    /// The tape of this pass.
    pub fn tape(&self) -> &'t Tape<F> {
        self.tape
    }

    /// Whether this is a training pass.
    pub fn is_training(&self) -> bool {
        self.seed.is_some()
    }

    /// The seed for the next random operation of a training pass (the k-th call gives the k-th seed), `None` in evaluation.
    pub fn draw(&self) -> Option<u64> {
        let k = self.draws.get();
        let seed = self.seed?;
        self.draws.set(k + 1);
        Some(mix(seed, k))
    }

    /// Whether anything random happened in this pass.
    pub fn was_random(&self) -> bool {
        self.draws.get() > 0
    }

    /// The variable (in evaluation: the constant) that stands for a parameter.
    pub fn param(&self, parameter: &Tensor<F>) -> Var<'t, F> {
        let address = std::ptr::from_ref(parameter).addr();
        *self.bound.borrow_mut().entry(address).or_insert_with(|| {
            if self.is_training() {
                self.tape.var(parameter.clone())
            } else {
                self.tape.constant(parameter.clone())
            }
        })
    }

    /// Lets a variable stand for a parameter: a layer as a function of its parameters, to be differentiated by other means than
    /// [`gradients`](Self::gradients).
    ///
    /// # Panics
    /// If the shapes differ, or something stands for the parameter already.
    #[track_caller]
    pub fn bind(&self, parameter: &Tensor<F>, variable: Var<'t, F>) {
        let (expected, found) = (parameter.shape(), variable.shape());
        assert!(
            found == expected,
            "bind: a variable of shape {found:?} for a parameter of shape {expected:?}"
        );
        let address = std::ptr::from_ref(parameter).addr();
        let earlier = self.bound.borrow_mut().insert(address, variable);
        assert!(
            earlier.is_none(),
            "bind: something stands for this parameter already"
        );
    }

    /// ∂loss/∂θ for every parameter θ of `model`, in its order; zeros for a parameter that took no part.
    ///
    /// # Panics
    /// If this is not a training pass, or the loss has not exactly one element.
    #[track_caller]
    pub fn gradients(&self, loss: Var<'t, F>, model: &impl Module<F>) -> Vec<Tensor<F>> {
        assert!(
            self.is_training(),
            "gradients: an evaluation pass binds parameters as constants"
        );
        let vars: Vec<_> = (model.parameters().iter())
            .map(|(_, p)| self.param(p))
            .collect();
        grad(loss, &vars)
    }
}
