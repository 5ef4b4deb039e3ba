//! What a history says of its epochs and steps, and which histories are refused.

use emmy::nn::{Linear, Pass};
use emmy::train::{
    BestBy, History, Loss, Metrics, Record, StepRecord, Task, TrainConfig, TrainState, Trainer,
};
use emmy::{Tensor, init};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A task with given evaluations, accuracy and loss, one per epoch of two steps.
struct Given {
    evaluations: Vec<(f64, f64)>,
    epoch: AtomicUsize,
}

impl Task<f64, Linear<f64>> for Given {
    type Batch = ();

    fn batches(&self, _: u64) -> impl Iterator<Item = ()> {
        [(); 2].into_iter()
    }

    fn loss<'t>(&self, net: &Linear<f64>, pass: &Pass<'t, '_, f64>, _: &()) -> Loss<'t, f64> {
        let x = pass.tape().constant(Tensor::ones(vec![1, 1]));
        net.forward(pass, x).square().sum_all().into()
    }

    fn evaluate(&self, _: &Linear<f64>) -> Metrics {
        let (accuracy, loss) = self.evaluations[self.epoch.fetch_add(1, Ordering::Relaxed)];
        [("val_acc", accuracy), ("val_loss", loss)].into()
    }
}

fn trained(best_by: BestBy, evaluations: &[(f64, f64)]) -> Trainer<f64, Linear<f64>> {
    let config = TrainConfig {
        epochs: evaluations.len(),
        best_by,
        ..TrainConfig::default()
    };
    let net = Linear::new(1, 1, true, &mut init::rng(0));
    let mut trainer = Trainer::new(net, config).unwrap();
    let task = Given {
        evaluations: evaluations.to_vec(),
        epoch: AtomicUsize::new(0),
    };
    trainer.fit(&task, |_, _| Ok(())).unwrap();
    trainer
}

fn best_epoch(best_by: BestBy, evaluations: &[(f64, f64)]) -> Option<usize> {
    let trainer = trained(best_by, evaluations);
    let history = trainer.history();
    assert_eq!(history.last().unwrap().epoch, evaluations.len());
    Some(history.best()?.epoch)
}

const NAN: f64 = f64::NAN;

#[test]
fn the_first_of_equals_is_best() {
    let evaluations = [(0.2, 1.0), (0.5, 2.0), (0.5, 1.0), (NAN, NAN)];
    assert_eq!(best_epoch(BestBy::ACCURACY, &evaluations), Some(2));
    assert_eq!(best_epoch(BestBy::LOSS, &evaluations), Some(1));
}

#[test]
fn what_is_not_a_number_is_no_best_one() {
    let evaluations = [(NAN, NAN), (0.5, 3.0), (NAN, NAN), (0.6, 2.0)];
    assert_eq!(best_epoch(BestBy::ACCURACY, &evaluations), Some(4));
    assert_eq!(best_epoch(BestBy::LOSS, &evaluations), Some(4));
    // A good accuracy does not count if the loss is not finite.
    let infinity = f64::INFINITY;
    let evaluations = [(0.9, NAN), (0.5, 3.0), (0.9, infinity), (0.4, -infinity)];
    assert_eq!(best_epoch(BestBy::ACCURACY, &evaluations), Some(2));
    assert_eq!(best_epoch(BestBy::LOSS, &evaluations), Some(2));
    let none = [(0.5, NAN), (0.5, NAN)];
    assert_eq!(best_epoch(BestBy::ACCURACY, &none), None);
}

fn step(step: usize, loss: f64) -> StepRecord {
    StepRecord {
        step,
        epoch: step.div_ceil(2),
        loss,
        metrics: Metrics::default(),
        lr: 0.1,
        gradient_norms: vec![3.0, 4.0, 5.0, 6.0],
    }
}

#[test]
fn steps_and_epochs_are_found_from_each_other() {
    let mut history = History::default();
    for (k, loss) in [4.0, 3.0, 2.0, 1.0, 0.5].into_iter().enumerate() {
        history.steps.push(step(k + 1, loss));
        if k % 2 == 1 {
            history.records.push(Record {
                epoch: k / 2 + 1,
                steps: k + 1,
                metrics: Metrics::default(),
                ms: 2.0,
            });
        }
    }
    assert_eq!((history.epochs(), history.unfinished_steps()), (2, 1));
    assert_eq!(history.ms_per_epoch(), 2.0);
    let losses = |epoch| -> Vec<f64> {
        let steps = history.steps_of(epoch).iter();
        steps.map(|step| step.loss).collect()
    };
    assert_eq!(losses(2), [2.0, 1.0]);
    assert_eq!(losses(3), [0.5]);
    assert_eq!(history.training_loss(1), 3.5);
    assert!(history.training_loss(4).is_nan());
    let next = history.steps.get(history.records[0].steps).unwrap();
    assert_eq!((next.step, next.loss), (3, 2.0));
}

/// If an epoch lacks a metric, or a file has a wrong name for it, the metric would be missing when epochs are
/// compared. A history with another count of steps, or with steps of other epochs, is of another run.
#[test]
fn a_history_that_contradicts_itself_is_not_resumed() {
    let evaluations = [(0.5, 1.0), (0.6, 0.9)];
    let state = trained(BestBy::LOSS, &evaluations).state();
    let resume = |state: TrainState<f64>| trained(BestBy::LOSS, &evaluations).resume(state);
    resume(state.clone()).unwrap();
    let refused = |change: fn(&mut History), expected: &str| {
        let mut changed = state.clone();
        change(&mut changed.history);
        let message = resume(changed).unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
    };
    refused(
        |history| history.records[1].metrics = [("val_acc", 0.6), ("val_los", 0.9)].into(),
        "metrics of epoch 2: expected val_acc, val_loss, found val_acc, val_los",
    );
    refused(
        |history| history.records[0].steps = 3,
        "expected 3 of epoch 1, found 3 of epoch 2",
    );
    refused(
        |history| drop(history.steps.pop()),
        "steps until epoch 2: expected 2..=3, found 4",
    );
}
