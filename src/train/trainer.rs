//! The training loop.

use super::{History, Observer, Point, Progress, Record, Task, TrainConfig, each_epoch, metrics};
use crate::autodiff::{Tape, Var};
use crate::error::{Error, Result};
use crate::kernels::update::sum_of_squares;
use crate::nn::{Module, Pass, mix};
use crate::optim::{Optimizer, Plateau};
use crate::real::Real;
use crate::tensor::{Tensor, contiguous};
use std::time::Instant;

/// A model in training.
///
/// Each epoch is one step on the whole graph: the mean cross-entropy over the training nodes, its gradient, an update; then an evaluation
/// without dropout. Where nothing random separates the two, the evaluation is the forward pass of the next epoch and costs nothing.
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

/// An epoch whose step is taken and whose evaluation is not.
struct Step {
    loss: f64,
    lr: f64,
    gradient_norms: Vec<f64>,
}

impl<F: Real, M: Module<F>> Trainer<F, M> {
    /// A model before its first epoch.
    ///
    /// # Errors
    /// If the configuration is not valid.
    pub fn new(model: M, config: TrainConfig) -> Result<Self> {
        config.validate()?;
        let names = model.parameters().into_iter().map(|(name, _)| name);
        Ok(Self {
            history: History::new(names.collect()),
            optimizer: config.optimizer(),
            plateau: config.plateau,
            description: String::new(),
            best: Vec::new(),
            model,
            config,
        })
    }

    /// The same with a description of what is trained on what; progress with another description is then refused.
    pub fn described(self, description: impl Into<String>) -> Self {
        Self {
            description: description.into(),
            ..self
        }
    }

    /// Goes on where `progress` stands.
    ///
    /// # Errors
    /// If it is the progress of another model, another description, another seed or another rule of updates. The trainer is then
    /// unchanged.
    pub fn resume(&mut self, progress: Progress<F>) -> Result<()> {
        progress.check_run(&self.progress())?;
        let parameters = progress.parameters.into_iter().map(|(_, p)| p);
        for (to, from) in self.model.tensors_mut().into_iter().zip(parameters) {
            *to = from;
        }
        self.best = progress.best;
        self.optimizer = progress.optimizer;
        self.plateau = progress.plateau;
        self.history = progress.history;
        Ok(())
    }

    /// Where the run stands; cheap, the parameters are shared until the next step.
    pub fn progress(&self) -> Progress<F> {
        let parameters = self.model.parameters();
        Progress {
            description: self.description.clone(),
            seed: self.config.seed,
            parameters: (parameters.into_iter())
                .map(|(name, p)| (name, p.clone()))
                .collect(),
            best: self.best.clone(),
            optimizer: self.optimizer.clone(),
            plateau: self.plateau,
            history: self.history.clone(),
        }
    }

    /// The model after the last epoch.
    pub fn model(&self) -> &M {
        &self.model
    }

    /// The model of the best epoch; as it is now if there was none.
    pub fn best_model(&self) -> M
    where
        M: Clone,
    {
        let mut model = self.model.clone();
        for ((_, to), from) in model.parameters_mut().into_iter().zip(&self.best) {
            *to = from.clone();
        }
        model
    }

    /// Every epoch so far.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// How it trains.
    pub fn config(&self) -> &TrainConfig {
        &self.config
    }

    /// Trains until the configured number of epochs is done or a rule says stop. `forward` gives the logits `[n, classes]`; `observe`
    /// sees every finished epoch, for progress bars and checkpoints, and may end the training with an error.
    ///
    /// # Errors
    /// If the split does not fit the labels, the loss is not a finite number (the model then is as it was before that step), or what
    /// `observe` says.
    pub fn fit<L, O>(&mut self, task: &Task<'_>, forward: L, observe: O) -> Result<()>
    where
        L: for<'t> Fn(&M, &Pass<'t, '_, F>) -> Var<'t, F>,
        O: FnMut(&Self, &Record) -> Result<()>,
    {
        self.fit_observed(task, forward, each_epoch(observe))
    }

    /// [`fit`](Self::fit) under the eyes of an [`Observer`], which sees every point before its step too. Nothing of the training depends on
    /// it, but that it may end it.
    ///
    /// # Errors
    /// As [`fit`](Self::fit), or what the observer says.
    pub fn fit_observed<L, O>(&mut self, task: &Task<'_>, forward: L, mut observer: O) -> Result<()>
    where
        L: for<'t> Fn(&M, &Pass<'t, '_, F>) -> Var<'t, F>,
        O: Observer<F, M>,
    {
        task.check()?;
        let mut started = Instant::now();
        let mut waiting: Option<Step> = None;
        while waiting.is_some() || !self.is_done() {
            let tape = Tape::new();
            let epoch = self.history.epochs() + usize::from(waiting.is_some());
            let last = epoch >= self.config.epochs;
            let pass = if last {
                Pass::eval(&tape, &self.model)
            } else {
                Pass::train(&tape, &self.model, mix(self.config.seed, epoch as u64))
            };
            let logits = forward(&self.model, &pass);
            let random = pass.was_random();
            let loss = logits.cross_entropy(task.labels, Some(&task.split.train));
            let value = loss.item().as_f64();
            let gradients = if last || !value.is_finite() {
                Vec::new()
            } else {
                pass.gradients(loss)
            };
            let logits = logits.value();
            // The tape shares the parameters; without it they are updated in place.
            drop(pass);
            drop(tape);
            if let Some(step) = waiting.take() {
                // The pass before was not random; this one may be, with dropout that sets in late.
                let evaluated = if random {
                    self.evaluate(&forward)
                } else {
                    logits
                };
                self.finish(step, evaluated, task, &mut started);
                observer.after_epoch(self, self.history.last().expect("just finished"))?;
                if self.is_done() {
                    break;
                }
            }
            if !value.is_finite() {
                return Err(Error::invalid(
                    format!("training loss of epoch {}", epoch + 1),
                    "a finite number",
                    value.to_string(),
                ));
            }
            // Some come transposed; norm, update and observers read them in order.
            let gradients: Vec<Tensor<F>> = gradients.into_iter().map(|g| contiguous(&g)).collect();
            let step = self.step(value, &gradients, &mut observer)?;
            if random {
                self.finish(step, self.evaluate(&forward), task, &mut started);
                observer.after_epoch(self, self.history.last().expect("just finished"))?;
            } else {
                waiting = Some(step);
            }
        }
        Ok(())
    }

    /// Whether a rule says stop.
    pub fn is_done(&self) -> bool {
        let Some(last) = self.history.last() else {
            return self.config.epochs == 0;
        };
        let since_best = last.epoch - self.history.best().map_or(0, |best| best.epoch);
        last.epoch >= self.config.epochs
            || self
                .config
                .patience
                .is_some_and(|patience| since_best >= patience)
            || self
                .config
                .loss_threshold
                .is_some_and(|least| last.loss < least)
    }

    /// The logits without anything random.
    fn evaluate<L>(&self, forward: &L) -> Tensor<F>
    where
        L: for<'t> Fn(&M, &Pass<'t, '_, F>) -> Var<'t, F>,
    {
        let tape = Tape::new();
        forward(&self.model, &Pass::eval(&tape, &self.model)).value()
    }

    fn step(
        &mut self,
        loss: f64,
        gradients: &[Tensor<F>],
        observer: &mut impl Observer<F, M>,
    ) -> Result<Step> {
        let factor = self.plateau.map_or(1.0, |plateau| plateau.factor());
        let lr = self.config.lr * self.config.schedule.factor(self.history.epochs()) * factor;
        observer.before_step(&Point {
            epoch: self.history.epochs() + 1,
            loss,
            lr,
            parameters: &self.model.tensors(),
            gradients,
        })?;
        let norm = |g: &Tensor<F>| sum_of_squares(g.as_slice().expect("contiguous")).sqrt();
        let gradient_norms = gradients.iter().map(norm).collect();
        self.optimizer.step(self.model.tensors_mut(), gradients, lr);
        Ok(Step {
            loss,
            lr,
            gradient_norms,
        })
    }

    fn finish(&mut self, step: Step, logits: Tensor<F>, task: &Task<'_>, started: &mut Instant) {
        let Task { labels, split } = task;
        let predictions = metrics::predictions(&logits);
        let accuracy = |mask: &[bool]| metrics::accuracy_of(&predictions, labels, mask);
        let val_loss = metrics::cross_entropy(&logits, labels, &split.val);
        if let Some(plateau) = &mut self.plateau {
            plateau.observe(val_loss);
        }
        let record = Record {
            epoch: self.history.epochs() + 1,
            loss: step.loss,
            lr: step.lr,
            gradient_norms: step.gradient_norms,
            train_acc: accuracy(&split.train),
            val_loss,
            val_acc: accuracy(&split.val),
            test_acc: accuracy(&split.test),
            ms: started.elapsed().as_secs_f64() * 1e3,
        };
        *started = Instant::now();
        if self.history.push(record, self.config.select) {
            self.best = self
                .model
                .parameters()
                .into_iter()
                .map(|(_, p)| p.clone())
                .collect();
        }
    }
}
