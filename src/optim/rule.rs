//! What an optimiser is: a rule, which makes the state of a parameter and updates both.

use crate::error::Result;
use crate::nn::Role;
use crate::real::Real;
use std::fmt;

/// A rule of updates: two functions, as in optax, and options. [`start`](Self::start) makes the state of a
/// parameter, [`update`](Self::update) changes parameter and state by the gradient. The rule itself never
/// changes.
///
/// A rule treats one parameter at a time. What concerns all gradients at once, such as
/// [`Clip`](super::Clip), comes before the step. The learning rate with its [`Schedule`](super::Schedule),
/// the weight decay of each parameter and the number of steps come from the
/// [`Optimizer`](super::Optimizer), which also holds the state.
///
/// # A rule of your own
/// Lion (Chen et al., "Symbolic Discovery of Optimization Algorithms", NeurIPS 2023): p ← (1 − η λ) p − η
/// sign(β₁ m + (1 − β₁) g), then m ← β₂ m + (1 − β₂) g. [`blocks`](super::blocks) is the
/// loop over the numbers, with threads and vector units; a plain loop gives the same numbers.
///
/// ```
/// use emmy::optim::{Algorithm, Optimizer, Parameter, Rates, Rule, blocks};
/// use emmy::tensor::tensor;
/// use emmy::{Real, Result, error::Rules};
///
/// #[derive(Debug, Clone)]
/// struct Lion {
///     beta1: f64,
///     beta2: f64,
/// }
///
/// impl Rule for Lion {
///     fn validate(&self) -> Result<()> {
///         let rules = Rules("Lion");
///         rules.hold((0.0..1.0).contains(&self.beta1), "β₁", "0 ≤ β < 1", self.beta1)?;
///         rules.hold((0.0..1.0).contains(&self.beta2), "β₂", "0 ≤ β < 1", self.beta2)
///     }
///
///     fn start<F: Real>(&self, _: Parameter<'_>, p: &[F]) -> Vec<Vec<F>> {
///         vec![vec![F::zero(); p.len()]]
///     }
///
///     fn update<F: Real>(
///         &self, _: Parameter<'_>, p: &mut [F], g: &[F], state: &mut [Vec<F>], at: Rates,
///     ) {
///         let (shrink, lr) = (F::of(1.0 - at.lr * at.decay), F::of(at.lr));
///         let (beta1, beta2) = (F::of(self.beta1), F::of(self.beta2));
///         blocks([p, &mut state[0]], g, |[p, m], g| {
///             for i in 0..g.len() {
///                 let u = beta1 * m[i] + (F::one() - beta1) * g[i];
///                 p[i] = p[i] * shrink - lr * if u == F::zero() { u } else { u.signum() };
///                 m[i] = beta2 * m[i] + (F::one() - beta2) * g[i];
///             }
///         });
///     }
/// }
///
/// let lion = Algorithm::register("lion", Lion { beta1: 0.9, beta2: 0.99 })?;
/// let mut optimizer = Optimizer::new(lion);
/// let mut p = tensor(&[2], vec![1.0_f64, -2.0]);
/// optimizer.step([&mut p], &[tensor(&[2], vec![0.3, -7.0])], 0.25);
/// assert_eq!(p, tensor(&[2], vec![0.75, -1.75]));
/// # Ok::<(), emmy::Error>(())
/// ```
///
/// The result of [`Algorithm::register`](super::Algorithm::register) is an algorithm like any other: it
/// goes into a [`TrainConfig`](crate::train::TrainConfig), and a checkpoint of its run is saved and resumed
/// bit for bit.
pub trait Rule: fmt::Debug + Clone + Send + Sync + 'static {
    /// Checks the options.
    ///
    /// # Errors
    /// If one breaks its rule; the message names it.
    fn validate(&self) -> Result<()> {
        Ok(())
    }

    /// The state of a parameter with the values `p`, before its first step: vectors of any number and
    /// lengths, which the parameter alone determines.
    fn start<F: Real>(&self, of: Parameter<'_>, p: &[F]) -> Vec<Vec<F>>;

    /// One update of a parameter and its state by the gradient. Both are in row-major order, and as long as
    /// each other.
    fn update<F: Real>(
        &self,
        of: Parameter<'_>,
        p: &mut [F],
        g: &[F],
        state: &mut [Vec<F>],
        at: Rates,
    );
}

/// What a rule knows of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameter<'a> {
    /// Its role in the model; [`Role::Weight`] if the optimiser was not told.
    pub role: Role,
    /// Its shape.
    pub shape: &'a [usize],
}

/// The numbers of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// η, the learning rate.
    pub lr: f64,
    /// λ, the weight decay of the parameter.
    pub decay: f64,
    /// t, the number of the step, from 1.
    pub step: u64,
}

/// A [`Rule`] for one type of numbers. A trait object cannot have generic functions.
pub(super) trait RuleOf<F> {
    fn start(&self, of: Parameter<'_>, p: &[F]) -> Vec<Vec<F>>;
    fn update(&self, of: Parameter<'_>, p: &mut [F], g: &[F], state: &mut [Vec<F>], at: Rates);
}

impl<F: Real, R: Rule> RuleOf<F> for R {
    fn start(&self, of: Parameter<'_>, p: &[F]) -> Vec<Vec<F>> {
        Rule::start(self, of, p)
    }

    fn update(&self, of: Parameter<'_>, p: &mut [F], g: &[F], state: &mut [Vec<F>], at: Rates) {
        Rule::update(self, of, p, g, state, at);
    }
}

/// A [`Rule`] of any type.
pub(super) trait AnyRule: fmt::Debug + Send + Sync {
    fn validate(&self) -> Result<()>;
    fn of_f32(&self) -> Box<dyn RuleOf<f32>>;
    fn of_f64(&self) -> Box<dyn RuleOf<f64>>;
}

impl<R: Rule> AnyRule for R {
    fn validate(&self) -> Result<()> {
        Rule::validate(self)
    }

    fn of_f32(&self) -> Box<dyn RuleOf<f32>> {
        Box::new(self.clone())
    }

    fn of_f64(&self) -> Box<dyn RuleOf<f64>> {
        Box::new(self.clone())
    }
}
