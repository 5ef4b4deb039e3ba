//! Trainings with errors, and trainings ended from outside.

use super::*;

#[test]
fn a_loss_that_is_not_finite_ends_with_an_error_before_its_step() {
    let setting = setting(0.0);
    let config = TrainConfig {
        algorithm: Algorithm::SGD,
        lr: 1e200,
        ..TrainConfig::default()
    };
    let mut trainer = setting.trainer(config.clone());
    let error = setting.observe(&mut trainer, ()).unwrap_err();
    let message = error.to_string();
    assert!(
        message.starts_with("training loss of epoch ") && message.contains("a finite number"),
        "{message}"
    );
    // The earlier epochs are kept.
    let epochs = trainer.history().epochs();
    assert!(
        message.contains(&format!("epoch {}", epochs + 1)),
        "{message}"
    );
    let mut again = setting.trainer(TrainConfig { epochs, ..config });
    let _ = setting.observe(&mut again, ());
    assert_eq!(bits(trainer.model()), bits(again.model()));
}

#[test]
fn an_epoch_that_is_not_finite_is_never_the_best() {
    let setting = setting(0.0);
    let config = TrainConfig {
        algorithm: Algorithm::SGD,
        lr: 1e200,
        epochs: 1,
        ..TrainConfig::default()
    };
    let mut trainer = setting.trainer(config.clone());
    // No step follows the last epoch, so there is no training loss at its end.
    setting.observe(&mut trainer, ()).unwrap();
    let last = trainer.history().last().unwrap();
    assert!(!last.metrics["val_loss"].is_finite(), "{last:?}");
    assert!(trainer.history().best().is_none());
    // Its state is valid, and a training that continues from it ends with an error.
    let mut longer = setting.trainer(TrainConfig {
        epochs: 2,
        ..config
    });
    longer.resume(trainer.state()).unwrap();
    let message = setting.observe(&mut longer, ()).unwrap_err().to_string();
    assert!(message.starts_with("training loss of epoch 2"), "{message}");
}

#[test]
fn constants_that_round_to_zero_are_refused() {
    let tiny = TrainConfig {
        lr: 1e-50,
        ..TrainConfig::default()
    };
    let decay = TrainConfig {
        weight_decay: 1e-50,
        ..TrainConfig::default()
    };
    let zero = TrainConfig {
        lr: 0.0,
        ..TrainConfig::default()
    };
    let rng = &mut emmy::init::rng(0);
    let (single, double) = (
        Linear::<f32>::new(2, 1, true, rng),
        Linear::<f64>::new(2, 1, true, rng),
    );
    for (config, name) in [(&tiny, "learning rate"), (&decay, "weight decay")] {
        let error = Trainer::new(single.clone(), config.clone()).unwrap_err();
        let expected = format!("{name}: expected 0, or a number that is not 0 in f32, found 1e-50");
        assert_eq!(error.to_string(), expected);
        Trainer::new(double.clone(), config.clone()).unwrap();
    }
    Trainer::new(single, zero).unwrap();
}

#[test]
fn an_observer_can_end_the_training_and_it_can_go_on() {
    for dropout in [0.0, 0.4] {
        let setting = setting(dropout);
        let config = TrainConfig {
            epochs: 20,
            ..TrainConfig::default()
        };
        let mut trainer = setting.trainer(config.clone());
        let stop = |_: &Trainer<_, _>, r: &Record| match r.epoch {
            8 => Err(emmy::Error::invalid("patience", "more", "none")),
            _ => Ok(()),
        };
        trainer.fit(&setting.task(), stop).unwrap_err();
        assert_eq!(trainer.history().epochs(), 8);
        setting.observe(&mut trainer, ()).unwrap();
        let whole = setting.fit(config);
        assert_eq!(untimed(&trainer), untimed(&whole));
        assert_eq!(parameters(trainer.model()), parameters(whole.model()));
    }
}

#[test]
fn senseless_requests_are_refused() {
    let setting = setting(0.0);
    let good = TrainConfig::default();
    for bad in [
        TrainConfig {
            loss_threshold: Some(f64::NAN),
            ..good.clone()
        },
        TrainConfig {
            lr: f64::NAN,
            ..good.clone()
        },
        TrainConfig {
            weight_decay: -1.0,
            ..good.clone()
        },
        TrainConfig {
            algorithm: Algorithm::Sgd(Sgd {
                momentum: 0.0,
                nesterov: true,
            }),
            ..good.clone()
        },
        TrainConfig {
            clip: Some(Clip::GlobalNorm(-1.0)),
            ..good.clone()
        },
        TrainConfig {
            plateau: Some(Plateau {
                gamma: 2.0,
                ..Plateau::default()
            }),
            ..good.clone()
        },
        TrainConfig {
            schedule: Decay::Step {
                every: 0,
                gamma: 0.1,
            }
            .into(),
            ..good.clone()
        },
    ] {
        assert!(Trainer::new(setting.net(), bad.clone()).is_err(), "{bad:?}");
    }
    let n = setting.set.nodes();
    let whole = &setting.set.splits[0];
    for (split, message) in [
        (
            Split {
                val: vec![false; n],
                ..whole.clone()
            },
            "split: val: expected at least one node",
        ),
        (
            Split {
                train: vec![false; n],
                ..whole.clone()
            },
            "split: train: expected at least one node",
        ),
        (
            Split {
                test: vec![true; 3],
                ..whole.clone()
            },
            "split: test: expected one flag per label, found 3 for 34",
        ),
    ] {
        let task = NodeClassification::new(&setting.set.labels, &split, |net: &Net, pass| {
            setting.forward(net, pass)
        });
        let error = task.err().unwrap();
        assert!(error.to_string().contains(message), "{error}");
    }
}

#[test]
fn a_metric_that_the_evaluation_does_not_have_is_named() {
    let setting = setting(0.0);
    let mut trainer = setting.trainer(TrainConfig {
        best_by: BestBy::Largest("roc_auc".into()),
        ..TrainConfig::default()
    });
    let error = setting.observe(&mut trainer, ()).unwrap_err().to_string();
    assert!(
        error
            .contains("expected roc_auc, found test_acc, train_acc, train_loss, val_acc, val_loss"),
        "{error}"
    );
    // It is the first evaluation that is refused.
    let history = trainer.history();
    assert_eq!((history.epochs(), history.unfinished_steps()), (0, 1));
}
