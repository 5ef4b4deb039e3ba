//! Classes of rows.

use emmy::nn::{Linear, Pass};
use emmy::train::{BestBy, Classify, TrainConfig, Trainer};
use emmy::{Tensor, Var, init};

/// Two clouds of points, apart along the first axis.
fn clouds(n: usize, seed: u64) -> (Tensor<f64>, Vec<usize>) {
    let mut x = init::normal(&[n, 2], 0.3, &mut init::rng(seed));
    let classes: Vec<usize> = (0..n).map(|k| k % 2).collect();
    for (k, c) in classes.iter().enumerate() {
        x[[k, 0]] += 2.0 * *c as f64 - 1.0;
    }
    (x, classes)
}

fn forward<'t>(net: &Linear<f64>, pass: &Pass<'t, '_, f64>, x: Var<'t, f64>) -> Var<'t, f64> {
    net.forward(pass, x)
}

#[test]
fn clouds_that_are_apart_are_told_apart() {
    let task = Classify::new(clouds(60, 0), clouds(601, 1), 16, forward).unwrap();
    let config = TrainConfig {
        lr: 0.1,
        epochs: 20,
        best_by: BestBy::LOSS,
        ..TrainConfig::default()
    };
    let mut trainer = Trainer::new(Linear::new(2, 2, true, &mut init::rng(2)), config).unwrap();
    trainer.fit(&task, |_, _| Ok(())).unwrap();
    let (loss, accuracy) = task.measure(&trainer.best_model());
    assert!(accuracy > 0.98 && loss < 0.2, "{accuracy}, {loss}");
    assert_eq!(trainer.history().steps.len(), 20 * 4);
}

#[test]
fn what_cannot_be_learnt_is_refused() {
    let refused = |train, held_out, batch| {
        let task = Classify::new(train, held_out, batch, forward);
        task.err().unwrap().to_string()
    };
    let short = (clouds(4, 0).0, vec![0; 3]);
    assert!(refused(short, clouds(4, 0), 1).contains("training examples: expected at least one"));
    let empty = (Tensor::zeros(vec![0, 2]), Vec::new());
    assert!(refused(clouds(4, 0), empty, 1).contains("held-out examples"));
    assert!(refused(clouds(4, 0), clouds(4, 0), 0).contains("batch: expected at least 1"));
}
