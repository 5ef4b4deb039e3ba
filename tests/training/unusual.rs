//! What is unusual in a training: configurations as JSON, huge gradients, logits that are not numbers, a task
//! that has no more batches than it needs.

use emmy::init;
use emmy::nn::{Linear, Pass};
use emmy::optim::{Clip, Plateau};
use emmy::tensor::tensor;
use emmy::train::{BestBy, Classify, Loss, Metrics, Task, TrainConfig, Trainer, metrics::accuracy};
use std::cell::Cell;

/// What a plateau has seen is infinite at first, which JSON cannot say.
#[test]
fn a_configuration_with_a_plateau_is_written_and_read() {
    let plateau = Plateau {
        eps: 1e-3,
        ..Plateau::default()
    };
    let config = TrainConfig {
        plateau: Some(plateau),
        ..TrainConfig::default()
    };
    let text = serde_json::to_string(&config).unwrap();
    assert_eq!(serde_json::from_str::<TrainConfig>(&text).unwrap(), config);
}

/// Their squares are infinite, their norm is not.
#[test]
fn a_huge_gradient_is_clipped_and_keeps_its_direction() {
    let mut gradients = [
        tensor(&[2], vec![3e200_f64, 4e200]),
        tensor(&[1], vec![0.0]),
    ];
    let norm = Clip::GlobalNorm(1.0).apply(&mut gradients);
    assert!((norm / 5e200 - 1.0).abs() < 1e-12, "{norm}");
    for (found, expected) in gradients.iter().flatten().zip([0.6, 0.8, 0.0]) {
        assert!((found - expected).abs() < 1e-12, "{gradients:?}");
    }
    let mut infinite = [tensor(&[2], vec![f64::INFINITY, 1.0])];
    assert!(!Clip::GlobalNorm(1.0).apply(&mut infinite).is_finite());
    assert!(infinite[0].iter().any(|g| g.is_nan()));
}

/// A row of logits with a NaN predicts nothing, as in [`accuracy`].
#[test]
fn logits_that_are_not_numbers_are_no_prediction() {
    let x = tensor(&[2, 2], vec![1.0, 0.0, 0.0, 1.0]);
    let logits = tensor(&[2, 2], vec![f64::NAN, 1.0, 0.0, 2.0]);
    assert_eq!(accuracy(&logits, &[0, 1], &[true, true]), 0.5);
    let task = Classify::new(
        (x.clone(), vec![0, 1]),
        (x, vec![0, 1]),
        2,
        |net: &Linear<f64>, pass, x| net.forward(pass, x),
    )
    .unwrap();
    let mut net = Linear::new(2, 2, false, &mut init::rng(0));
    // Both rows have NaN for class 0, so that neither is predicted; 0 is the class of the first.
    net.weight = tensor(&[2, 2], vec![f64::NAN, 0.0, 1.0, 2.0]);
    let metrics = task.evaluate(&net);
    assert_eq!(metrics["val_acc"], 0.0, "{metrics:?}");
}

/// The square of one weight, with batches for a number of epochs.
struct Square(Cell<usize>);

impl Task<f64, Linear<f64>> for Square {
    type Batch = ();

    fn batches(&self, _: u64) -> impl Iterator<Item = ()> {
        let left = self.0.get();
        self.0.set(left.saturating_sub(1));
        (left > 0).then_some(()).into_iter()
    }

    fn loss<'t>(&self, net: &Linear<f64>, pass: &Pass<'t, '_, f64>, (): &()) -> Loss<'t, f64> {
        Loss::from(pass.param(&net.weight).square().sum_all())
    }

    fn evaluate(&self, net: &Linear<f64>) -> Metrics {
        [("val_loss", net.weight[[0, 0]].powi(2))].into()
    }
}

#[test]
fn no_batch_is_asked_for_after_the_last_epoch() {
    let config = TrainConfig {
        epochs: 3,
        best_by: BestBy::LOSS,
        ..TrainConfig::default()
    };
    let net = Linear::new(1, 1, false, &mut init::rng(0));
    let mut trainer = Trainer::new(net, config).unwrap();
    trainer.fit(&Square(Cell::new(3)), |_, _| Ok(())).unwrap();
    assert_eq!(trainer.history().epochs(), 3);
}
