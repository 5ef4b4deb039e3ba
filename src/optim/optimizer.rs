//! Gradient descent with momentum, Adam, AdamW.

use crate::error::{Error, Result, Rules};
use crate::kernels::update;
use crate::real::Real;
use crate::tensor::{Tensor, contiguous};
use serde::{Deserialize, Serialize};

/// The rule of an update. Constants as in PyTorch's `torch.optim`, and with its values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Algorithm {
    /// Gradient descent: v ← μ v + g, p ← p − η v; with Nesterov's look-ahead p ← p − η (g + μ v).
    Sgd {
        /// μ; 0 for plain descent, which keeps no state
        momentum: f64,
        /// Whether to look ahead (Sutskever et al., 2013).
        nesterov: bool,
    },
    /// Adam (Kingma and Ba, 2015, algorithm 1); weight decay is added to the gradient.
    Adam {
        /// β₁
        beta1: f64,
        /// β₂
        beta2: f64,
        /// ε
        eps: f64,
    },
    /// AdamW (Loshchilov and Hutter, 2019, algorithm 2): Adam with weight decay apart from the gradient, p ←
    /// (1 − η λ) p.
    AdamW {
        /// β₁
        beta1: f64,
        /// β₂
        beta2: f64,
        /// ε
        eps: f64,
    },
}

impl Algorithm {
    /// Plain gradient descent.
    pub const SGD: Self = Self::Sgd {
        momentum: 0.0,
        nesterov: false,
    };

    /// Adam with β₁ = 0.9, β₂ = 0.999, ε = 10⁻⁸.
    pub const ADAM: Self = Self::Adam {
        beta1: 0.9,
        beta2: 0.999,
        eps: 1e-8,
    };

    /// AdamW with β₁ = 0.9, β₂ = 0.999, ε = 10⁻⁸.
    pub const ADAMW: Self = Self::AdamW {
        beta1: 0.9,
        beta2: 0.999,
        eps: 1e-8,
    };

    /// How many numbers of state it keeps for each number of a parameter.
    fn slots(self) -> usize {
        match self {
            Self::Sgd { momentum: 0.0, .. } => 0,
            Self::Sgd { .. } => 1,
            Self::Adam { .. } | Self::AdamW { .. } => 2,
        }
    }
}

/// The largest weight decay. Beside a larger one the gradient of the loss is nothing, and its square can
/// exceed the range of `f32`: such a run would learn nothing without a sign of it.
const MOST_DECAY: f64 = 1e6;

/// A [`Algorithm`] with weight decay, and its state: plain data, which a checkpoint holds.
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
    steps: u64,
    /// The velocity, or Adam's m: one list a parameter, made at the first step.
    first: Vec<Vec<F>>,
    /// Adam's v.
    second: Vec<Vec<F>>,
}

impl<F: Real> Optimizer<F> {
    /// An optimiser before its first step, without weight decay.
    pub fn new(algorithm: Algorithm) -> Self {
        Self {
            algorithm,
            weight_decay: 0.0,
            decays: Vec::new(),
            steps: 0,
            first: Vec::new(),
            second: Vec::new(),
        }
    }

    /// The same with weight decay λ: the gradient of ½ λ ‖p‖² is added (SGD, Adam), or p shrinks by η λ p
    /// (AdamW).
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

    /// Checks the constants: 0 ≤ μ, 0 ≤ λ, 0 ≤ β < 1, 0 ≤ ε, all finite, and Nesterov only with momentum.
    ///
    /// # Errors
    /// [`Error::Invalid`] names the first that breaks its rule.
    pub fn validate(&self) -> Result<()> {
        let rules = Rules("");
        for &lambda in self.decays.iter().chain([&self.weight_decay]) {
            let holds = (0.0..=MOST_DECAY).contains(&lambda);
            rules.hold(holds, "weight decay", "a number, 0 to 10⁶", lambda)?;
        }
        match self.algorithm {
            Algorithm::Sgd { momentum, nesterov } => {
                rules.from_zero("momentum", momentum)?;
                let holds = !nesterov || momentum > 0.0;
                rules.hold(holds, "Nesterov's look-ahead", "momentum", "none")
            }
            Algorithm::Adam { beta1, beta2, eps } | Algorithm::AdamW { beta1, beta2, eps } => {
                for (name, beta) in [("β₁", beta1), ("β₂", beta2)] {
                    rules.hold((0.0..1.0).contains(&beta), name, "0 ≤ β < 1", beta)?;
                }
                rules.from_zero("ε", eps)
            }
        }
    }

    /// Checks that the state is one for parameters of these sizes; for states that come from a file.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it is not.
    pub fn check_sizes(&self, sizes: &[usize]) -> Result<()> {
        let fits = |slot: usize, state: &Vec<Vec<F>>| {
            if self.steps == 0 || self.algorithm.slots() < slot {
                return state.is_empty();
            }
            state.iter().map(Vec::len).eq(sizes.iter().copied())
        };
        let decays = self.decays.is_empty() || self.decays.len() == sizes.len();
        if fits(1, &self.first) && fits(2, &self.second) && decays {
            return Ok(());
        }
        Err(Error::invalid(
            "state of the optimiser",
            format!("that of parameters with {sizes:?} elements"),
            "another",
        ))
    }

    /// One update of every parameter by its gradient, with learning rate η = `lr`.
    ///
    /// A parameter whose data nothing else shares is changed in place, in one pass; nothing is allocated
    /// after the first step. The constants are computed in `f64` and rounded once.
    ///
    /// # Panics
    /// If there is not one gradient of the same shape for each parameter, the parameters are not those of the
    /// first step, or [`decay_each`](Self::decay_each) is for another number of parameters.
    #[track_caller]
    pub fn step<'a>(
        &mut self,
        parameters: impl IntoIterator<Item = &'a mut Tensor<F>>,
        gradients: &[Tensor<F>],
        lr: f64,
    ) {
        assert!(
            self.decays.is_empty() || self.decays.len() == gradients.len(),
            "step: weight decay for {} parameters, the gradients are of {}",
            self.decays.len(),
            gradients.len()
        );
        if self.steps == 0 {
            let zeros = || {
                gradients
                    .iter()
                    .map(|g| vec![F::zero(); g.len()])
                    .collect::<Vec<_>>()
            };
            let slots = self.algorithm.slots();
            self.first = if slots > 0 { zeros() } else { Vec::new() };
            self.second = if slots > 1 { zeros() } else { Vec::new() };
        }
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
            self.update(k, p, g, lr);
            count = k + 1;
        }
        assert!(
            count == gradients.len(),
            "step: {count} parameters, {} gradients",
            gradients.len()
        );
    }

    /// The update of parameter `k`.
    #[track_caller]
    #[inline(never)]
    fn update(&mut self, k: usize, p: &mut Tensor<F>, g: &Tensor<F>, lr: f64) {
        if !p.is_standard_layout() {
            *p = contiguous(p);
        }
        let g = contiguous(g);
        let g = g.as_slice().expect("contiguous");
        let p = p.as_slice_mut().expect("contiguous");
        let decay = self.decays.get(k).copied().unwrap_or(self.weight_decay);
        let (algorithm, t) = (self.algorithm, self.steps);
        match algorithm {
            Algorithm::Sgd { momentum: 0.0, .. } => {
                update::descend(p, g, F::of(lr), F::of(decay));
            }
            Algorithm::Sgd { momentum, nesterov } => {
                let c = update::Momentum {
                    lr: F::of(lr),
                    decay: F::of(decay),
                    momentum: F::of(momentum),
                    nesterov,
                };
                update::momentum(p, state(&mut self.first, k), g, c);
            }
            Algorithm::Adam { beta1, beta2, eps } | Algorithm::AdamW { beta1, beta2, eps } => {
                let apart = matches!(algorithm, Algorithm::AdamW { .. });
                let power = |beta: f64| beta.powf(t as f64);
                let c = update::Adam {
                    lr: F::of(lr / (1.0 - power(beta1))),
                    decay: F::of(if apart { 0.0 } else { decay }),
                    shrink: F::of(if apart { 1.0 - lr * decay } else { 1.0 }),
                    one_minus_beta1: F::of(1.0 - beta1),
                    beta2: F::of(beta2),
                    one_minus_beta2: F::of(1.0 - beta2),
                    root: F::of((1.0 - power(beta2)).sqrt()),
                    eps: F::of(eps),
                };
                let (m, v) = (state(&mut self.first, k), state(&mut self.second, k));
                update::adam(p, m, v, g, c);
            }
        }
    }
}

/// The state of parameter `k`.
#[track_caller]
fn state<F>(states: &mut [Vec<F>], k: usize) -> &mut [F] {
    let count = states.len();
    // A panic in a closure would name this line, not the caller's.
    let Some(state) = states.get_mut(k) else {
        panic!("step: parameter {k}, the first step had {count} parameters");
    };
    state
}
