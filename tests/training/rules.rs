//! Which model is best, when to stop, and how the learning rate moves.

use super::*;

#[test]
fn the_best_model_is_that_of_the_best_epoch() {
    for best_by in [BestBy::ACCURACY, BestBy::LOSS] {
        let setting = setting(0.3);
        let config = TrainConfig {
            epochs: 40,
            lr: 0.05,
            best_by: best_by.clone(),
            ..TrainConfig::default()
        };
        let trainer = setting.fit(config.clone());
        let best = trainer.history().best().unwrap().clone();
        let again = setting.fit(TrainConfig {
            epochs: best.epoch,
            ..config
        });
        assert_eq!(parameters(&trainer.best_model()), parameters(again.model()));
        let records = &trainer.history().records;
        for r in records {
            let of = |record: &Record| record.metrics[best_by.metric()];
            let (found, largest) = match best_by {
                BestBy::Largest(_) => (of(r), of(&best)),
                BestBy::Smallest(_) => (-of(r), -of(&best)),
            };
            assert!(
                found < largest || (found == largest && r.epoch >= best.epoch),
                "{best_by:?}: epoch {} against {}",
                r.epoch,
                best.epoch
            );
        }
    }
}

#[test]
fn rules_that_stop() {
    let setting = setting(0.0);
    let long = TrainConfig {
        epochs: 1000,
        lr: 0.05,
        ..TrainConfig::default()
    };
    let patient = setting.fit(TrainConfig {
        patience: Some(12),
        ..long.clone()
    });
    let history = patient.history();
    assert!(history.epochs() < 1000);
    assert_eq!(history.epochs(), history.best().unwrap().epoch + 12);

    let sated = setting.fit(TrainConfig {
        loss_threshold: Some(0.05),
        ..long.clone()
    });
    let (last, before) = sated.history().steps.split_last().unwrap();
    assert!(last.loss < 0.05 && before.iter().all(|r| r.loss >= 0.05));

    let impatient = TrainConfig {
        patience: Some(0),
        ..long.clone()
    };
    let message = impatient.validate().unwrap_err().to_string();
    assert!(message.contains("patience"), "{message}");

    let none = setting.fit(TrainConfig { epochs: 0, ..long });
    assert_eq!(none.history().epochs(), 0);
    assert_eq!(parameters(&none.best_model()), parameters(&setting.net()));
}

#[test]
fn learning_rates_follow_schedule_and_plateau() {
    let setting = setting(0.0);
    let trainer = setting.fit(TrainConfig {
        epochs: 8,
        lr: 0.8,
        algorithm: Algorithm::SGD,
        schedule: Schedule {
            warm_up: 2,
            then: Decay::Step {
                every: 3,
                gamma: 0.5,
            },
            ..Schedule::default()
        },
        ..TrainConfig::default()
    });
    let rates: Vec<f64> = trainer.history().steps.iter().map(|s| s.lr).collect();
    assert_eq!(rates, [0.4, 0.8, 0.8, 0.8, 0.8, 0.4, 0.4, 0.4]);

    let mut plateau = Plateau {
        patience: 1,
        threshold: 0.5,
        gamma: 0.25,
        ..Plateau::default()
    };
    let trainer = setting.fit(TrainConfig {
        epochs: 12,
        lr: 0.01,
        plateau: Some(plateau),
        ..TrainConfig::default()
    });
    let history = trainer.history();
    for (step, record) in history.steps.iter().zip(&history.records) {
        assert_eq!(step.lr, 0.01 * plateau.factor());
        plateau.observe(record.metrics["val_loss"], 0.01);
    }
    assert!(history.steps[11].lr < 0.01);
}

#[test]
fn the_plateau_watches_the_validation_loss() {
    let setting = setting(0.0);
    let split = &setting.set.splits[0];
    // The learnt function is wrong on the validation nodes: one loss falls, the other rises.
    let mut labels = setting.set.labels.clone();
    for (label, _) in labels.iter_mut().zip(&split.val).filter(|(_, v)| **v) {
        *label = 1 - *label;
    }
    let task =
        NodeClassification::new(&labels, split, |net: &Net, pass| setting.forward(net, pass))
            .unwrap();
    let config = TrainConfig {
        epochs: 20,
        plateau: Some(Plateau {
            patience: 3,
            threshold: 0.0,
            ..Plateau::default()
        }),
        ..TrainConfig::default()
    };
    let mut trainer = setting.trainer(config.clone());
    trainer.fit(&task, |_, _| Ok(())).unwrap();
    let history = trainer.history();
    assert!(history.steps.is_sorted_by(|a, b| a.loss > b.loss));
    let [first, .., last] = &history.records[..] else {
        panic!()
    };
    assert!(last.metrics["val_loss"] > first.metrics["val_loss"]);
    assert!(last.metrics["val_acc"] < 0.5 && last.metrics["train_acc"] > 0.5);
    assert!(history.steps[19].lr < config.lr);
}
