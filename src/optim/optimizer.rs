//! An algorithm, and the state of all parameters.

use super::{Algorithm, Parameter, Rates};
use crate::error::{Error, Result, Rules};
use crate::nn::{self, Module, Role};
use crate::real::Real;
use crate::tensor::{Tensor, contiguous, memory};
use serde::{Deserialize, Serialize};

/// The largest weight decay. Beside a larger one the gradient of the loss is nothing, and its square can
/// exceed the range of `f32`: such a run would learn nothing without a sign of it.
const MOST_DECAY: f64 = 1e6;

/// An [`Algorithm`] with weight decay, and its state: plain data, which a checkpoint holds.
///
/// ```
/// use emmy::optim::{Algorithm, Optimizer};
/// use emmy::tensor::tensor;
///
/// let mut p = tensor(&[2], vec![1.0_f64, -2.0]);
/// let mut optimizer = Optimizer::new(Algorithm::SGD).weight_decay(0.5);
/// optimizer.step([&mut p], &[tensor(&[2], vec![1.0, 1.0])], 0.1);
/// assert_eq!(p, tensor(&[2], vec![0.85, -2.0]));
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Optimizer<F: Real> {
    algorithm: Algorithm,
    weight_decay: f64,
    /// λ of each parameter; empty: `weight_decay` for all.
    decays: Vec<f64>,
    /// The role of each parameter; empty: [`Role::Weight`] for all.
    roles: Vec<Role>,
    steps: u64,
    /// The state of each parameter, made at the first step.
    state: Vec<Vec<Vec<F>>>,
}

impl<F: Real> Optimizer<F> {
    /// An optimiser before its first step, without weight decay.
    pub fn new(algorithm: Algorithm) -> Self {
        Self {
            algorithm,
            weight_decay: 0.0,
            decays: Vec::new(),
            roles: Vec::new(),
            steps: 0,
            state: Vec::new(),
        }
    }

    /// The same for parameters with these roles ([`nn::roles`]), in the model's order. Some rules treat the
    /// parameters of different roles differently, such as [`Muon`](super::Muon).
    /// [`train::step`](crate::train::step()) and [`Trainer`](crate::train::Trainer) do this; without roles
    /// each parameter is a [`Role::Weight`].
    pub fn of_roles(self, roles: impl IntoIterator<Item = Role>) -> Self {
        Self {
            roles: roles.into_iter().collect(),
            ..self
        }
    }

    /// The same with weight decay λ: the gradient of ½ λ ‖p‖² is added (SGD, Adam), or p shrinks by η λ p
    /// (AdamW, Muon).
    pub fn weight_decay(self, lambda: f64) -> Self {
        Self {
            weight_decay: lambda,
            ..self
        }
    }

    /// The same with weight decay for the chosen parameters only. `parameters` says something of each
    /// parameter of the model, in the model's order, and `choose` decides by it: by the
    /// names and roles in [`Module::parameters`](crate::nn::Module::parameters), for example.
    ///
    /// The original GCN decays its first layer alone; it is common to leave biases and gains out:
    ///
    /// ```
    /// # use emmy::{init, nn::{Linear, Module, Role}};
    /// # use emmy::optim::{Algorithm, Optimizer};
    /// let names = ["layers.0.weight", "layers.1.weight"];
    /// let adam = Optimizer::<f32>::new(Algorithm::ADAM).weight_decay(5e-4);
    /// let first_layer = adam.clone().decay_only(names, |name| name.starts_with("layers.0."));
    ///
    /// let layer = Linear::<f32>::new(3, 2, true, &mut init::rng(0));
    /// let weights = adam.decay_only(layer.parameters(), |p| p.role == Role::Weight);
    /// ```
    pub fn decay_only<T>(
        self,
        parameters: impl IntoIterator<Item = T>,
        choose: impl Fn(T) -> bool,
    ) -> Self {
        let lambda = self.weight_decay;
        self.decay_each(parameters, |p| if choose(p) { lambda } else { 0.0 })
    }

    /// The same with a weight decay λ for each parameter of the model, in the model's order. `lambda` gives
    /// it for what `parameters` says of a parameter.
    pub fn decay_each<T>(
        self,
        parameters: impl IntoIterator<Item = T>,
        lambda: impl Fn(T) -> f64,
    ) -> Self {
        Self {
            decays: parameters.into_iter().map(lambda).collect(),
            ..self
        }
    }

    /// The rule of its updates.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The number of steps taken.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Whether the other optimiser has the same algorithm and weight decay, whatever its state.
    pub fn same_rule(&self, other: &Self) -> bool {
        self.algorithm == other.algorithm
            && self.weight_decay == other.weight_decay
            && self.decays == other.decays
    }

    /// What [`same_rule`](Self::same_rule) compares, for a message.
    pub(crate) fn rule(&self) -> String {
        let (decay, each) = (self.weight_decay, &self.decays);
        match each.is_empty() {
            true => format!("{:?}, weight decay {decay}", self.algorithm),
            false => format!("{:?}, weight decays {each:?}", self.algorithm),
        }
    }

    /// Checks the options of the algorithm, and 0 ≤ λ ≤ 10⁶.
    ///
    /// # Errors
    /// [`Error::Invalid`] names the first that breaks its rule.
    pub fn validate(&self) -> Result<()> {
        for &lambda in self.decays.iter().chain([&self.weight_decay]) {
            let holds = (0.0..=MOST_DECAY).contains(&lambda);
            Rules("").hold(holds, "weight decay", "a number, 0 to 10⁶", lambda)?;
        }
        self.algorithm.validate()
    }

    /// Checks that the state is one for the parameters of this model; for states that come from a file.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it is not.
    pub fn check_state(&self, model: &impl Module<F>) -> Result<()> {
        let (tensors, roles) = (model.tensors(), nn::roles(model));
        let decays = self.decays.is_empty() || self.decays.len() == tensors.len();
        let told = self.roles.is_empty() || self.roles == roles;
        let rule = self.algorithm.rule::<F>();
        let lengths = |state: &[Vec<F>]| state.iter().map(Vec::len).collect::<Vec<_>>();
        let mut pairs = tensors.iter().zip(&self.state).enumerate();
        let state = match self.steps {
            0 => self.state.is_empty(),
            _ => self.state.len() == tensors.len(),
        };
        let fits = pairs.all(|(k, (p, state))| {
            let of = self.parameter(k, p.shape());
            let values = contiguous(p);
            let start = rule.start(of, values.as_slice().expect("contiguous"));
            lengths(&start) == lengths(state)
        });
        if decays && told && state && fits {
            return Ok(());
        }
        let shapes: Vec<_> = tensors.iter().map(|p| p.shape()).collect();
        Err(Error::invalid(
            "state of the optimiser",
            format!("that of parameters with the shapes {shapes:?}"),
            "another",
        ))
    }

    /// What the rule knows of parameter `k`.
    fn parameter<'a>(&self, k: usize, shape: &'a [usize]) -> Parameter<'a> {
        let role = self.roles.get(k).copied().unwrap_or_default();
        Parameter { role, shape }
    }

    /// [`step`](Self::step) for the parameters of a model, whose roles are taken from it before the first
    /// step.
    ///
    /// # Panics
    /// As [`step`](Self::step).
    #[track_caller]
    pub fn step_model(
        &mut self,
        model: &mut (impl Module<F> + ?Sized),
        gradients: &[Tensor<F>],
        lr: f64,
    ) {
        if self.steps == 0 && self.roles.is_empty() {
            self.roles = nn::roles(model);
        }
        self.step(model.tensors_mut(), gradients, lr);
    }

    /// One update of every parameter by its gradient, with learning rate η = `lr`.
    ///
    /// A parameter whose data nothing else shares is changed in place.
    ///
    /// # Panics
    /// If there is not one gradient of the same shape for each parameter, there are more parameters than in
    /// the first step, the algorithm keeps a state of a parameter that has another size now, or
    /// [`decay_each`](Self::decay_each) or [`of_roles`](Self::of_roles) is for another number of parameters.
    #[track_caller]
    pub fn step<'a>(
        &mut self,
        parameters: impl IntoIterator<Item = &'a mut Tensor<F>>,
        gradients: &[Tensor<F>],
        lr: f64,
    ) {
        for (what, told) in [
            ("weight decay for", self.decays.len()),
            ("roles of", self.roles.len()),
        ] {
            assert!(
                told == 0 || told == gradients.len(),
                "step: {what} {told} parameters, the gradients are of {}",
                gradients.len()
            );
        }
        let rule = self.algorithm.rule::<F>();
        let is_first = self.steps == 0;
        self.steps += 1;
        let mut count = 0;
        for (k, p) in parameters.into_iter().enumerate() {
            let Some(g) = gradients.get(k) else {
                let count = gradients.len();
                panic!("step: more parameters than the {count} gradients");
            };
            assert!(
                p.shape() == g.shape(),
                "step: parameter {k} has shape {:?}, its gradient {:?}",
                p.shape(),
                g.shape()
            );
            if !p.is_standard_layout() {
                *p = contiguous(p);
            }
            let (rows, of) = (contiguous(g), self.parameter(k, g.shape()));
            let g = rows.as_slice().expect("contiguous");
            let p = p.as_slice_mut().expect("contiguous");
            if is_first {
                self.state.push(rule.start(of, p));
            }
            let known = self.state.len();
            let Some(state) = self.state.get_mut(k) else {
                panic!("step: parameter {k}, the first step had {known} parameters");
            };
            let at = Rates {
                lr,
                decay: self.decays.get(k).copied().unwrap_or(self.weight_decay),
                step: self.steps,
            };
            rule.update(of, p, g, state, at);
            memory::recycle(rows);
            count = k + 1;
        }
        assert!(
            count == gradients.len(),
            "step: {count} parameters, {} gradients",
            gradients.len()
        );
    }
}
