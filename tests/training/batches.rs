//! A task without a graph: regression on batches, with dropout, running statistics and metrics of
//! its own.

use super::*;
use emmy::init;
use emmy::train::{Batches, Loss, Metrics, TrainState};
use std::cell::RefCell;

/// Two layers, dropout between them, and the running mean of the inputs, which is state.
#[derive(Debug, Clone)]
pub struct Regressor {
    hidden: Linear<f64>,
    out: Linear<f64>,
    mean: Tensor<f64>,
}
emmy::module!(Regressor for f64: hidden, out; state mean);

impl Regressor {
    pub fn new() -> Self {
        let rng = &mut init::rng(3);
        Self {
            hidden: Linear::new(2, 8, true, rng),
            out: Linear::new(8, 1, true, rng),
            mean: Tensor::zeros(vec![2]),
        }
    }

    fn forward<'t>(&self, pass: &Pass<'t, '_, f64>, x: &Tensor<f64>, p: f64) -> Var<'t, f64> {
        if pass.is_training() {
            let batch = x.mean_axis(ndarray::Axis(0)).unwrap();
            let mean = &self.mean * 0.9 + batch * 0.1;
            pass.update(&self.mean, mean.into_shared());
        }
        let x = pass.tape().constant(x.clone()) - pass.state(&self.mean);
        let mut h = self.hidden.forward(pass, x).tanh();
        if p > 0.0
            && let Some(seed) = pass.draw()
        {
            h = h.dropout(p, seed);
        }
        self.out.forward(pass, h)
    }
}

/// y = x₀ x₁ at 22 points, of which 20 train in batches of 8, 8 and 4.
pub struct Product {
    x: Tensor<f64>,
    y: Tensor<f64>,
    dropout: f64,
    seen: RefCell<Vec<Vec<usize>>>,
}

impl Product {
    pub fn new(dropout: f64) -> Self {
        let x = init::normal(&[22, 2], 1.0, &mut init::rng(1));
        let y = x.outer_iter().map(|x| x[0] * x[1]).collect();
        Self {
            x,
            y: emmy::tensor::tensor(&[22, 1], y),
            dropout,
            seen: RefCell::default(),
        }
    }

    fn error<'t>(&self, net: &Regressor, pass: &Pass<'t, '_, f64>, rows: &[usize]) -> Var<'t, f64> {
        let of = |all: &Tensor<f64>| all.select(ndarray::Axis(0), rows).into_shared();
        let y = pass.tape().constant(of(&self.y));
        (net.forward(pass, &of(&self.x), self.dropout) - y)
            .square()
            .mean_all()
    }
}

impl Task<f64, Regressor> for Product {
    type Batch = Vec<usize>;

    fn batches(&self, seed: u64) -> impl Iterator<Item = Vec<usize>> {
        Batches::new(20, 8).shuffled().of(seed).into_iter()
    }

    fn loss<'t>(
        &self,
        net: &Regressor,
        pass: &Pass<'t, '_, f64>,
        rows: &Vec<usize>,
    ) -> Loss<'t, f64> {
        self.seen.borrow_mut().push(rows.clone());
        // The shared pass is not used: a model with state is evaluated separately, even if nothing
        // is random.
        Loss::from(self.error(net, pass, rows))
            .with("examples", rows.len() as f64)
            .evaluated(pass, || panic!("taken for an evaluation"))
    }

    fn evaluate(&self, net: &Regressor) -> Metrics {
        let tape = Tape::new();
        let pass = Pass::eval(&tape, net);
        [("val_loss", self.error(net, &pass, &[20, 21]).item())].into()
    }
}

fn config() -> TrainConfig {
    TrainConfig {
        lr: 0.05,
        epochs: 6,
        best_by: BestBy::LOSS,
        seed: 11,
        ..TrainConfig::default()
    }
}

fn trainer(config: TrainConfig) -> Trainer<f64, Regressor> {
    Trainer::new(Regressor::new(), config).unwrap()
}

fn fitted(task: &Product, config: TrainConfig) -> Trainer<f64, Regressor> {
    let mut trainer = trainer(config);
    trainer.fit(task, |_, _| Ok(())).unwrap();
    trainer
}

/// Parameters and state, the current ones and those of the best epoch.
fn all_bits(trainer: &Trainer<f64, Regressor>) -> Vec<u64> {
    let TrainState {
        parameters,
        states,
        best,
        ..
    } = trainer.state();
    let now = parameters.into_iter().chain(states).map(|(_, p)| p);
    let all: Vec<Tensor<f64>> = now.chain(best).collect();
    all.iter().flatten().map(|x| x.to_bits()).collect()
}

#[test]
fn an_epoch_is_a_step_per_batch() {
    let task = Product::new(0.3);
    let trainer = fitted(&task, config());
    let history = trainer.history();
    assert_eq!((history.epochs(), history.steps.len()), (6, 18));
    let seen = task.seen.into_inner();
    for (k, step) in history.steps.iter().enumerate() {
        assert_eq!((step.step, step.epoch), (k + 1, k / 3 + 1));
        assert_eq!(step.metrics["examples"], seen[k].len() as f64);
        assert_eq!(seen[k].len(), [8, 8, 4][k % 3]);
    }
    for record in &history.records {
        assert_eq!(record.steps, 3 * record.epoch);
        let steps = &history.steps[record.steps - 3..record.steps];
        assert_eq!(history.steps_of(record.epoch), steps);
        let mean = steps.iter().map(|s| s.loss).sum::<f64>() / 3.0;
        assert_eq!(history.training_loss(record.epoch), mean);
    }
    // Every epoch uses every example once, in a new order.
    let orders: Vec<Vec<usize>> = seen.chunks(3).map(<[_]>::concat).collect();
    for order in &orders {
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..20));
    }
    for (k, order) in orders.iter().enumerate() {
        assert!(orders[..k].iter().all(|other| other != order));
    }
    assert!(history.training_loss(6) < history.training_loss(1));
}

#[test]
fn training_is_the_loop_written_out() {
    // With running statistics, and without anything random but the order of the batches.
    let task = Product::new(0.0);
    let mut net = Regressor::new();
    let trainer = fitted(&task, config());
    let seen = task.seen.borrow().clone();
    let mut optimizer = Optimizer::new(Algorithm::ADAM);
    for (rows, step) in seen.iter().zip(&trainer.history().steps) {
        let tape = Tape::new();
        let pass = Pass::train(&tape, &net, 0);
        let loss = task.error(&net, &pass, rows);
        assert_eq!(step.loss, loss.item());
        let gradients = pass.gradients(loss);
        let updates = pass.into_updates();
        optimizer.step(net.tensors_mut(), &gradients, 0.05);
        updates.apply(&mut net);
        if let Some(record) = (trainer.history().records.iter()).find(|r| r.steps == step.step) {
            assert_eq!(record.metrics, task.evaluate(&net));
        }
    }
    assert_eq!(bits(trainer.model()), bits(&net));
    assert_eq!(trainer.model().mean, net.mean);
    assert!(net.mean.iter().all(|m| *m != 0.0));
}

#[test]
fn the_best_model_has_the_state_of_its_epoch() {
    let task = Product::new(0.3);
    let long = TrainConfig {
        lr: 0.3,
        epochs: 20,
        ..config()
    };
    let trainer = fitted(&task, long.clone());
    let best = trainer.history().best().unwrap();
    assert!(best.epoch < 20);
    let epochs = best.epoch;
    let until = fitted(&task, TrainConfig { epochs, ..long });
    let (found, expected) = (trainer.best_model(), until.model());
    assert_eq!(bits(&found), bits(expected));
    assert_eq!(found.mean, expected.mean);
    assert_ne!(trainer.model().mean, expected.mean);
    assert_eq!(task.evaluate(&found), best.metrics);
}

#[test]
fn a_training_that_ends_within_an_epoch_goes_on_there() {
    /// Ends the training before a step.
    struct Stop(usize);

    impl Observer<f64, Regressor> for Stop {
        fn before_step(&mut self, point: &Point<'_, f64>) -> emmy::Result<()> {
            match point.step == self.0 {
                true => Err(emmy::Error::invalid("time", "more", "none")),
                false => Ok(()),
            }
        }
    }

    let task = Product::new(0.3);
    let whole = fitted(&task, config());
    for stop in [1, 7, 8, 9] {
        let mut first = trainer(config());
        first.fit_observed(&task, Stop(stop)).unwrap_err();
        let history = first.history();
        assert_eq!(history.steps.len(), stop - 1);
        assert_eq!(
            (history.epochs(), history.unfinished_steps()),
            ((stop - 1) / 3, (stop - 1) % 3)
        );
        // In another trainer, from a checkpoint.
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("run.ckpt");
        emmy::store::save::<f64>(&path, &first.state()).unwrap();
        let mut second = trainer(config());
        let state: TrainState<f64> = emmy::store::load::<f64, _>(&path).unwrap();
        assert_eq!((state.epochs(), state.steps()), ((stop - 1) / 3, stop - 1));
        second.resume(state).unwrap();
        second.fit(&task, |_, _| Ok(())).unwrap();
        assert_eq!(all_bits(&second), all_bits(&whole), "before step {stop}");
        assert_eq!(untimed(&second), untimed(&whole));
    }
}

#[test]
fn a_schedule_counts_epochs_or_steps() {
    let task = Product::new(0.0);
    let rates = |unit| {
        let schedule = Schedule {
            then: Decay::Step {
                every: 2,
                gamma: 0.5,
            },
            unit,
            ..Schedule::default()
        };
        let trainer = fitted(
            &task,
            TrainConfig {
                schedule,
                lr: 0.8,
                epochs: 3,
                ..config()
            },
        );
        let steps = trainer.history().steps.iter();
        steps.map(|s| s.lr).collect::<Vec<f64>>()
    };
    let by_epochs = [0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 0.4, 0.4, 0.4];
    let by_steps = [0.8, 0.8, 0.4, 0.4, 0.2, 0.2, 0.1, 0.1, 0.05];
    assert_eq!(rates(Unit::Epochs), by_epochs);
    assert_eq!(rates(Unit::Steps), by_steps);
}

#[test]
fn every_step_draws_masks_of_its_own() {
    struct Draws<'a>(&'a Product, RefCell<Vec<u64>>);

    impl Task<f64, Regressor> for Draws<'_> {
        type Batch = Vec<usize>;

        fn batches(&self, seed: u64) -> impl Iterator<Item = Vec<usize>> {
            self.1.borrow_mut().push(seed);
            Task::batches(self.0, seed)
        }

        fn loss<'t>(
            &self,
            net: &Regressor,
            pass: &Pass<'t, '_, f64>,
            rows: &Vec<usize>,
        ) -> Loss<'t, f64> {
            self.1.borrow_mut().extend(pass.draw());
            self.0.loss(net, pass, rows)
        }

        fn evaluate(&self, net: &Regressor) -> Metrics {
            self.0.evaluate(net)
        }
    }

    let product = Product::new(0.0);
    let draws = Draws(&product, RefCell::default());
    trainer(config()).fit(&draws, |_, _| Ok(())).unwrap();
    let mut seeds = draws.1.into_inner();
    let count = seeds.len();
    assert!(count >= 18 + 6);
    seeds.sort_unstable();
    seeds.dedup();
    assert_eq!(seeds.len(), count);
}

#[test]
fn a_recorder_samples_an_epoch_once_or_every_kth_step() {
    let task = Product::new(0.0);
    let samples = |unit| {
        let net = Regressor::new();
        let recorder = emmy::train::Recorder::new(&net, Vec::new(), 4);
        let mut recorder = recorder.counting(unit);
        let mut trainer = trainer(config());
        trainer.fit_observed(&task, &mut recorder).unwrap();
        let samples = recorder.recording().clone().samples;
        let places = samples.iter().map(|s| (s.epoch, s.step));
        places.collect::<Vec<_>>()
    };
    assert_eq!(samples(Unit::Epochs), [(1, 1), (4, 10)]);
    let by_steps = [(1, 1), (2, 4), (3, 8), (4, 12), (6, 16)];
    assert_eq!(samples(Unit::Steps), by_steps);
}

#[test]
fn an_epoch_without_batches_is_refused() {
    struct Nothing;

    impl Task<f64, Regressor> for Nothing {
        type Batch = ();

        fn batches(&self, _: u64) -> impl Iterator<Item = ()> {
            std::iter::empty()
        }

        fn loss<'t>(&self, _: &Regressor, _: &Pass<'t, '_, f64>, (): &()) -> Loss<'t, f64> {
            unreachable!()
        }

        fn evaluate(&self, _: &Regressor) -> Metrics {
            unreachable!()
        }
    }

    let error = trainer(config()).fit(&Nothing, |_, _| Ok(())).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("batches of epoch 1: expected at least 1, found 0"),
        "{error}"
    );
}

#[test]
fn a_loss_that_is_not_finite_is_reported_with_its_step() {
    let task = Product::new(0.0);
    let mut trainer = trainer(TrainConfig {
        algorithm: Algorithm::SGD,
        lr: 1e200,
        ..config()
    });
    let message = trainer.fit(&task, |_, _| Ok(())).unwrap_err().to_string();
    let steps = trainer.history().steps.len();
    let expected = format!("training loss of epoch 1, step {}", steps + 1);
    assert!(message.starts_with(&expected), "{message}");
    assert_eq!(trainer.history().unfinished_steps(), steps);
}
