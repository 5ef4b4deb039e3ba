//! A task for the trainer: batches, a loss, an evaluation.

use crate::autodiff::Var;
use crate::nn::Pass;
use crate::real::Real;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// A task: batches, a loss and an evaluation. The trainer knows nothing else about it: graphs, images and
/// characters are tasks.
///
/// ```
/// use emmy::nn::{Linear, Pass};
/// use emmy::train::{Batches, BestBy, Loss, Metrics, Task, TrainConfig, Trainer};
/// use emmy::{Tape, Tensor, init};
///
/// /// y ≈ a x: a line through points, four at a time.
/// struct Line {
///     x: Tensor<f64>,
///     y: Tensor<f64>,
/// }
///
/// impl Line {
///     fn error<'t>(&self, net: &Linear<f64>, pass: &Pass<'t, '_, f64>, rows: &[usize]) -> emmy::Var<'t, f64> {
///         let [x, y] = [&self.x, &self.y].map(|all| pass.tape().constant(all.clone()).index_select(0, rows));
///         (net.forward(pass, x) - y).square().mean_all()
///     }
/// }
///
/// impl Task<f64, Linear<f64>> for Line {
///     type Batch = Vec<usize>;
///
///     fn batches(&self, seed: u64) -> impl Iterator<Item = Vec<usize>> {
///         Batches::new(10, 4).shuffled().of(seed).into_iter()
///     }
///
///     fn loss<'t>(&self, net: &Linear<f64>, pass: &Pass<'t, '_, f64>, rows: &Vec<usize>) -> Loss<'t, f64> {
///         self.error(net, pass, rows).into()
///     }
///
///     fn evaluate(&self, net: &Linear<f64>) -> Metrics {
///         let tape = Tape::new();
///         let rows: Vec<usize> = (0..10).collect();
///         [("val_loss", self.error(net, &Pass::eval(&tape, net), &rows).item())].into()
///     }
/// }
///
/// let x = init::normal(&[10, 1], 1.0, &mut init::rng(0));
/// let line = Line { y: x.mapv(|x| 3.0 * x).into_shared(), x };
/// let config = TrainConfig { lr: 0.1, epochs: 100, best_by: BestBy::LOSS, ..TrainConfig::default() };
/// let mut trainer = Trainer::new(Linear::new(1, 1, false, &mut init::rng(1)), config)?;
/// trainer.fit(&line, |_, _| Ok(()))?;
/// assert_eq!(trainer.history().steps.len(), 300);
/// assert!((trainer.best_model().weight[[0, 0]] - 3.0).abs() < 1e-3);
/// # Ok::<(), emmy::Error>(())
/// ```
pub trait Task<F: Real, M> {
    /// The data of one step: for example a list of examples, or `()` if every step uses all data.
    type Batch;

    /// The batches of one epoch, in order: one step each. They depend only on `seed`, which is different in
    /// every epoch, and are made as the trainer asks for them.
    fn batches(&self, seed: u64) -> impl Iterator<Item = Self::Batch>;

    /// The loss of a batch, in a training pass.
    fn loss<'t>(&self, model: &M, pass: &Pass<'t, '_, F>, batch: &Self::Batch) -> Loss<'t, F>;

    /// The metrics of a model, in evaluations ([`Pass::eval`]). The names are the same each time.
    ///
    /// The trainer looks for the metric that [`BestBy`](super::BestBy) names, and with a plateau for
    /// `val_loss`.
    fn evaluate(&self, model: &M) -> Metrics;
}

/// The loss of a batch, with named metrics of the same pass.
#[derive(Debug, Clone)]
pub struct Loss<'t, F: Real> {
    /// The loss, one element.
    pub value: Var<'t, F>,
    /// Metrics of the batch from the same pass; the trainer records them.
    pub metrics: Metrics,
    pub(super) evaluation: Option<Metrics>,
}

impl<'t, F: Real> From<Var<'t, F>> for Loss<'t, F> {
    /// Without metrics.
    fn from(value: Var<'t, F>) -> Self {
        Self {
            value,
            metrics: Metrics::default(),
            evaluation: None,
        }
    }
}

impl<'t, F: Real> Loss<'t, F> {
    /// The same with a metric of the batch.
    pub fn with(mut self, name: impl Into<Cow<'static, str>>, value: f64) -> Self {
        self.metrics.insert(name, value);
        self
    }

    /// The same with the metrics that [`Task::evaluate`] would give for the model of `pass`, for tasks whose
    /// training pass computes them. This saves the evaluation of an epoch: the first pass of the next epoch
    /// has the same parameters.
    ///
    /// `metrics` is called only if the training pass was equal to an evaluation: it drew no random numbers,
    /// and the model has no state (layers may use state differently in evaluations). Do not use this method
    /// if the forward function treats training passes differently from evaluations in another way.
    pub fn evaluated(mut self, pass: &Pass<'t, '_, F>, metrics: impl FnOnce() -> Metrics) -> Self {
        let as_in_evaluation = !pass.was_random() && pass.params().states().is_empty();
        self.evaluation = as_in_evaluation.then(metrics);
        self
    }
}

/// Numbers with names.
///
/// ```
/// use emmy::train::Metrics;
/// let metrics = Metrics::from([("val_acc", 0.8), ("val_loss", 0.6)]);
/// assert_eq!(metrics["val_acc"], 0.8);
/// assert_eq!(metrics.get("test_acc"), None);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Metrics(BTreeMap<Cow<'static, str>, f64>);

impl Metrics {
    /// The number with this name.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.0.get(name).copied()
    }

    /// Adds a number, or replaces the one with this name.
    pub fn insert(&mut self, name: impl Into<Cow<'static, str>>, value: f64) {
        self.0.insert(name.into(), value);
    }

    /// All of them, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.0.iter().map(|(name, value)| (&**name, *value))
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.iter().map(|(name, _)| name)
    }

    pub(super) fn listed(&self) -> String {
        let names: Vec<&str> = self.names().collect();
        match &names[..] {
            [] => "no metric".to_owned(),
            names => names.join(", "),
        }
    }
}

impl<N: Into<Cow<'static, str>>, const K: usize> From<[(N, f64); K]> for Metrics {
    fn from(all: [(N, f64); K]) -> Self {
        all.into_iter().collect()
    }
}

impl<N: Into<Cow<'static, str>>> FromIterator<(N, f64)> for Metrics {
    fn from_iter<I: IntoIterator<Item = (N, f64)>>(all: I) -> Self {
        let named = all.into_iter().map(|(name, value)| (name.into(), value));
        Self(named.collect())
    }
}

impl std::ops::Index<&str> for Metrics {
    type Output = f64;

    /// # Panics
    /// If there is no number with this name.
    #[track_caller]
    fn index(&self, name: &str) -> &f64 {
        let Some(value) = self.0.get(name) else {
            panic!("metrics: no {name} among {}", self.listed());
        };
        value
    }
}
