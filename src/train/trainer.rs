//! The training loop.

use super::{
    History, Metrics, Observer, Point, Record, StepRecord, Task, TrainConfig, TrainState,
    each_epoch, state::restore,
};
use crate::autodiff::{Tape, grad_and_free};
use crate::error::{Error, Result, Rules, printable};
use crate::kernels::update::sum_of_squares;
use crate::nn::{Module, Pass, Updates, entries, mix};
use crate::optim::{Clip, Optimizer, Plateau};
use crate::real::Real;
use crate::store::{self, Place};
use crate::tensor::{Tensor, contiguous, memory};
use std::iter::Peekable;
use std::path::PathBuf;
use std::time::Instant;

/// A model in training.
///
/// Each epoch has one step per batch of the task (the loss of the batch, its gradient, an update), and then
/// an evaluation. The [module](super) has an example with a graph, [`Classify`](super::Classify) one with
/// arrays.
#[derive(Debug, Clone)]
pub struct Trainer<F: Real, M> {
    model: M,
    config: TrainConfig,
    description: String,
    optimizer: Optimizer<F>,
    plateau: Option<Plateau>,
    history: History,
    best: Vec<Tensor<F>>,
}

/// The results of a training pass at the present parameters.
struct PassResults<F: Real> {
    loss: f64,
    metrics: Metrics,
    /// The evaluation of the same point, if the pass gave it for free.
    evaluation: Option<Metrics>,
    gradients: Vec<Tensor<F>>,
    updates: Updates<F>,
}

impl<F: Real, M: Module<F>> Trainer<F, M> {
    /// A model before its first epoch.
    ///
    /// # Errors
    /// If the configuration is not valid or names a path that the model does not have, or if the learning
    /// rate, a weight decay or the bound of clipping is not 0 but would be rounded to 0 in `F`.
    pub fn new(model: M, config: TrainConfig) -> Result<Self> {
        config.validate()?;
        config.validate_for(&model)?;
        let decays = config.decay_paths.iter().map(|&(_, lambda)| lambda);
        let decays = std::iter::once(config.weight_decay).chain(decays);
        let clip = config.clip.map(|clip| match clip {
            Clip::GlobalNorm(c) | Clip::Value(c) => ("clip", c),
        });
        let constants = std::iter::once(("learning rate", config.lr))
            .chain(clip)
            .chain(decays.map(|lambda| ("weight decay", lambda)));
        for (name, value) in constants {
            if value != 0.0 && F::of(value) == F::zero() {
                let rule = format!("0, or a number that is not 0 in {}", F::NAME);
                return Err(Error::invalid(name, rule, format!("{value:e}")));
            }
        }
        let names = model.parameters().into_iter().map(|p| p.name);
        Ok(Self {
            history: History::new(names.collect()),
            optimizer: config.optimizer(&model),
            plateau: config.plateau,
            description: String::new(),
            best: Vec::new(),
            model,
            config,
        })
    }

    /// The same with a description of the model and the data; [`resume`](Self::resume) then refuses a state
    /// with another description.
    pub fn described(self, description: impl Into<String>) -> Self {
        Self {
            description: description.into(),
            ..self
        }
    }

    /// Continues from `state`. Learning rate, schedule, clipping and the rules that stop are those of this
    /// trainer.
    ///
    /// ```
    /// use emmy::nn::{GraphNet, GraphNetConfig, Module};
    /// use emmy::train::{NodeClassification, TrainConfig, TrainState, Trainer};
    /// use emmy::{data, store};
    /// let club = data::karate();
    /// let config = GraphNetConfig::gcn(club.feature_count(), club.classes);
    /// let (x, neighbours) = (club.raw_features(), config.neighbourhood(&club.graph));
    /// let task = NodeClassification::new(&club.labels, club.split(0)?, |net: &GraphNet<f32>, pass| {
    ///     net.forward(pass, pass.tape().sparse(&x), &neighbours)
    /// })?;
    /// let of = |epochs| {
    ///     let config_of = TrainConfig { epochs, ..TrainConfig::default() };
    ///     Trainer::new(GraphNet::new(config, 0)?, config_of)
    /// };
    /// let mut first = of(5)?;
    /// first.fit(&task, |_, _| Ok(()))?;
    /// let folder = std::path::Path::new("target/listings/trainer");
    /// std::fs::create_dir_all(folder).unwrap();
    /// let path = folder.join("run.ckpt");
    /// store::save::<f32>(&path, &first.state())?;
    ///
    /// // Five epochs and five are ten, bit for bit.
    /// let (mut second, mut whole) = (of(10)?, of(10)?);
    /// second.resume(store::load::<f32, TrainState<f32>>(&path)?)?;
    /// second.fit(&task, |_, _| Ok(()))?;
    /// whole.fit(&task, |_, _| Ok(()))?;
    /// assert_eq!(second.model().tensors(), whole.model().tensors());
    /// # Ok::<(), emmy::Error>(())
    /// ```
    ///
    /// # Errors
    /// If it is the state of another model, another description, another seed or another rule of updates, or
    /// its best epoch is another than that which this trainer's rule chooses. The trainer is then unchanged.
    pub fn resume(&mut self, state: TrainState<F>) -> Result<()> {
        state.check_run(&self.state(), &self.model)?;
        let rule = format!("the best by {}", self.config.best_by.metric());
        let is_same = state.history.is_best_by(&self.config.best_by);
        Rules("checkpoint of another run").hold(is_same, "best epoch", rule, "another")?;
        let tensors = state.parameters.into_iter().chain(state.states);
        restore(&mut self.model, tensors.map(|(_, tensor)| tensor));
        self.best = state.best;
        self.optimizer = state.optimizer;
        let eps = self.config.plateau.unwrap_or_default().eps;
        self.plateau = state.plateau.map(|plateau| Plateau { eps, ..plateau });
        self.history = state.history;
        Ok(())
    }

    /// The state of the run. This is cheap: the parameters are shared until the next step.
    pub fn state(&self) -> TrainState<F> {
        let (mut parameters, mut states) = (Vec::new(), Vec::new());
        for entry in entries(&self.model) {
            let list = match entry.is_trained() {
                true => &mut parameters,
                false => &mut states,
            };
            list.push((entry.name, entry.tensor.clone()));
        }
        TrainState {
            description: self.description.clone(),
            seed: self.config.seed,
            parameters,
            states,
            best: self.best.clone(),
            optimizer: self.optimizer.clone(),
            plateau: self.plateau,
            history: self.history.clone(),
            worst: None,
        }
    }

    /// The place where this run saves its state from now on. A checkpoint of the same run may be there, and is
    /// replaced by the first save.
    ///
    /// # Errors
    /// As [`Place::take`]. If the file there is a checkpoint of another run, with another description or seed, or
    /// one that cannot be read: it stays as it is.
    pub fn place(&self, path: impl Into<PathBuf>) -> Result<Place> {
        let path = path.into();
        let place = Place::take(&path)?;
        if std::fs::metadata(&path).is_ok_and(|found| found.len() > 0) {
            let there = store::load::<F, TrainState<F>>(&path)?;
            (there.check_identity(&self.description, self.config.seed)).map_err(|error| {
                Error::invalid(
                    format!(
                        "{}: the file is there, and saving would replace it",
                        printable(&path)
                    ),
                    "a checkpoint of this run, or no file",
                    error.to_string(),
                )
            })?;
        }
        Ok(place)
    }

    /// The model after the last step.
    pub fn model(&self) -> &M {
        &self.model
    }

    /// The model of the best epoch; the present model if there was none.
    pub fn best_model(&self) -> M
    where
        M: Clone,
    {
        let mut model = self.model.clone();
        restore(&mut model, self.best.iter().cloned());
        model
    }

    /// Every step and every epoch so far.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// The configuration of the training.
    pub fn config(&self) -> &TrainConfig {
        &self.config
    }

    /// Trains until the configured number of epochs is reached or a rule stops the training. `observe` sees
    /// every finished epoch, for progress bars and checkpoints, and may end the training with an error.
    ///
    /// Unlike in [`step()`](super::step()), gradients are not checked: one that is not finite shows in the
    /// loss of the next step. A last epoch whose evaluation is not finite is no error, since no step follows
    /// it: look at [`History::last`]. It is never the best ([`History::best`]).
    ///
    /// # Errors
    /// If an epoch has no batch, the loss is not a finite number (the model is then as it was before that
    /// step), or the evaluation does not have the metrics that the configuration names; and the errors of
    /// `observe`.
    pub fn fit<T, O>(&mut self, task: &T, observe: O) -> Result<()>
    where
        T: Task<F, M>,
        O: FnMut(&Self, &Record) -> Result<()>,
    {
        self.fit_observed(task, each_epoch(observe))
    }

    /// [`fit`](Self::fit) with an [`Observer`], which also sees every point before its step. The observer can
    /// end the training with an error; otherwise it has no effect on the training.
    ///
    /// # Errors
    /// As [`fit`](Self::fit); and the errors of the observer.
    pub fn fit_observed<T, O>(&mut self, task: &T, mut observer: O) -> Result<()>
    where
        T: Task<F, M>,
        O: Observer<F, M>,
    {
        let mut clock = Instant::now();
        let mut batches = batches_of(task, self.config.seed, self.history.epochs())?;
        // A training that was ended within an epoch continues there.
        let done = self.history.unfinished_steps();
        batches.by_ref().take(done).for_each(drop);
        let mut ahead = None;
        while !self.is_done() {
            let mut is_evaluation = false;
            for batch in batches.by_ref() {
                let found = ahead.take();
                let found = found.unwrap_or_else(|| self.look(task, &batch));
                is_evaluation = found.evaluation.is_some();
                self.step(found, &mut observer)?;
            }
            let epoch = self.history.epochs() + 1;
            if epoch < self.config.epochs {
                batches = batches_of(task, self.config.seed, epoch)?;
                // If passes are evaluations too, the first pass of the next epoch is the evaluation of this
                // epoch.
                let first = batches.peek().filter(|_| is_evaluation);
                ahead = first.map(|first| self.look(task, first));
            }
            let evaluation = ahead.as_ref().and_then(|found| found.evaluation.clone());
            let metrics = evaluation.unwrap_or_else(|| task.evaluate(&self.model));
            self.finish_epoch(metrics, &mut clock)?;
            observer.after_epoch(self, self.history.last().expect("just finished"))?;
        }
        Ok(())
    }

    /// Whether a rule stops the training.
    pub fn is_done(&self) -> bool {
        let Some(last) = self.history.last() else {
            return self.config.epochs == 0;
        };
        let since_best = last.epoch - self.history.best().map_or(0, |best| best.epoch);
        let below = |least| self.history.training_loss(last.epoch) < least;
        last.epoch >= self.config.epochs
            || self.config.patience.is_some_and(|most| since_best >= most)
            || self.config.loss_threshold.is_some_and(below)
    }

    /// A training pass over a batch.
    fn look<T: Task<F, M>>(&self, task: &T, batch: &T::Batch) -> PassResults<F> {
        let tape = Tape::new();
        let seed = mix(self.config.seed, self.history.steps.len() as u64);
        let pass = Pass::train(&tape, &self.model, seed);
        let loss = task.loss(&self.model, &pass, batch);
        let value = loss.value.item().as_f64();
        let gradients = match value.is_finite() {
            true => grad_and_free(loss.value, pass.vars()),
            false => Vec::new(),
        };
        PassResults {
            loss: value,
            metrics: loss.metrics,
            evaluation: loss.evaluation,
            // Some gradients are transposed views; norms, updates and observers read them in the order of the
            // entries.
            gradients: gradients.iter().map(contiguous).collect(),
            updates: pass.into_updates(),
        }
    }

    /// The step that follows from a training pass.
    fn step(&mut self, found: PassResults<F>, observer: &mut impl Observer<F, M>) -> Result<()> {
        let (epochs, steps) = (self.history.epochs(), self.history.steps.len());
        if !found.loss.is_finite() {
            let what = match epochs == steps {
                true => format!("training loss of epoch {}", epochs + 1),
                false => format!("training loss of epoch {}, step {}", epochs + 1, steps + 1),
            };
            let found = found.loss.to_string();
            return Err(Error::invalid(what, "a finite number", found));
        }
        let mut gradients = found.gradients;
        let factor = self.plateau.map_or(1.0, |plateau| plateau.factor());
        let lr = self.config.lr * self.config.schedule.at(epochs, steps) * factor;
        observer.before_step(&Point {
            epoch: epochs + 1,
            step: steps + 1,
            loss: found.loss,
            lr,
            parameters: &self.model.tensors(),
            gradients: &gradients,
        })?;
        let norm = |g: &Tensor<F>| sum_of_squares(g.as_slice().expect("contiguous")).sqrt();
        self.history.steps.push(StepRecord {
            step: steps + 1,
            epoch: epochs + 1,
            loss: found.loss,
            metrics: found.metrics,
            lr,
            gradient_norms: gradients.iter().map(norm).collect(),
        });
        if let Some(clip) = self.config.clip {
            clip.apply(&mut gradients);
        }
        self.optimizer.step_model(&mut self.model, &gradients, lr);
        gradients.into_iter().for_each(memory::recycle);
        found.updates.apply(&mut self.model);
        Ok(())
    }

    /// Records the evaluation after the last step of an epoch.
    fn finish_epoch(&mut self, metrics: Metrics, clock: &mut Instant) -> Result<()> {
        let watched = self.plateau.map(|_| "val_loss");
        for name in [Some(self.config.best_by.metric()), watched] {
            if let Some(missing) = name.filter(|name| metrics.get(name).is_none()) {
                let found = metrics.listed();
                return Err(Error::invalid("metrics of the evaluation", missing, found));
            }
        }
        // The epochs before may come from a file.
        if let Some(last) = self.history.last()
            && !metrics.names().eq(last.metrics.names())
        {
            let what = "metrics of the evaluation";
            let expected = format!("those of epoch {}: {}", last.epoch, last.metrics.listed());
            return Err(Error::invalid(what, expected, metrics.listed()));
        }
        if let Some(plateau) = &mut self.plateau {
            let (epochs, steps) = (self.history.epochs(), self.history.steps.len());
            let lr = self.config.lr * self.config.schedule.at(epochs, steps);
            plateau.observe(metrics["val_loss"], lr);
        }
        let record = Record {
            epoch: self.history.epochs() + 1,
            steps: self.history.steps.len(),
            metrics,
            ms: clock.elapsed().as_secs_f64() * 1e3,
        };
        *clock = Instant::now();
        if self.history.push(record, &self.config.best_by) {
            let entries = entries(&self.model).into_iter();
            self.best = entries.map(|e| e.tensor.clone()).collect();
        }
        Ok(())
    }
}

/// The batches of the epoch that follows `epochs` finished epochs.
fn batches_of<'a, F: Real, M, T: Task<F, M>>(
    task: &'a T,
    seed: u64,
    epochs: usize,
) -> Result<Peekable<impl Iterator<Item = T::Batch> + use<'a, F, M, T>>> {
    // The complement of the seed: the passes use the seed itself.
    let mut batches = task.batches(mix(!seed, epochs as u64)).peekable();
    match batches.peek() {
        Some(_) => Ok(batches),
        None => {
            let what = format!("batches of epoch {}", epochs + 1);
            Err(Error::invalid(what, "at least 1", "0"))
        }
    }
}
