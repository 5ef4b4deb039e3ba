//! Which model is best, when to stop, and how the learning rate moves.

use super::*;

#[test]
fn the_best_model_is_that_of_the_best_epoch() {
    for select in [Select::Accuracy, Select::Loss] {
        let setting = setting(0.3);
        let config = TrainConfig {
            epochs: 40,
            lr: 0.05,
            select,
            ..TrainConfig::default()
        };
        let trainer = setting.fit(config);
        let best = trainer.history().best().unwrap().clone();
        let again = setting.fit(TrainConfig {
            epochs: best.epoch,
            ..config
        });
        assert_eq!(parameters(&trainer.best_model()), parameters(again.model()));
        let records = &trainer.history().records;
        for r in records {
            let (found, largest) = match select {
                Select::Accuracy => (r.val_acc, best.val_acc),
                Select::Loss => (-r.val_loss, -best.val_loss),
            };
            assert!(
                found < largest || (found == largest && r.epoch >= best.epoch),
                "{select:?}: epoch {} against {}",
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
        ..long
    });
    let history = patient.history();
    assert!(history.epochs() < 1000);
    assert_eq!(history.epochs(), history.best().unwrap().epoch + 12);

    let sated = setting.fit(TrainConfig {
        loss_threshold: Some(0.05),
        ..long
    });
    let records = &sated.history().records;
    let (last, before) = records.split_last().unwrap();
    assert!(last.loss < 0.05 && before.iter().all(|r| r.loss >= 0.05));

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
        method: Method::SGD,
        schedule: Schedule {
            warm_up: 2,
            then: Decay::Step {
                every: 3,
                gamma: 0.5,
            },
        },
        ..TrainConfig::default()
    });
    let rates: Vec<f64> = trainer.history().records.iter().map(|r| r.lr).collect();
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
    for record in &trainer.history().records {
        assert_eq!(record.lr, 0.01 * plateau.factor());
        plateau.observe(record.val_loss);
    }
    assert!(trainer.history().last().unwrap().lr < 0.01);
}

#[test]
fn the_plateau_watches_the_validation_loss() {
    let setting = setting(0.0);
    let split = &setting.set.splits[0];
    // What is learnt is wrong where it is validated: one loss falls, the other rises.
    let mut labels = setting.set.labels.clone();
    for (label, _) in labels.iter_mut().zip(&split.val).filter(|(_, v)| **v) {
        *label = 1 - *label;
    }
    let task = Task {
        labels: &labels,
        split,
    };
    let config = TrainConfig {
        epochs: 20,
        plateau: Some(Plateau {
            patience: 3,
            threshold: 0.0,
            ..Plateau::default()
        }),
        ..TrainConfig::default()
    };
    let mut trainer = setting.trainer(config);
    trainer
        .fit(&task, |net, pass| setting.forward(net, pass), |_, _| Ok(()))
        .unwrap();
    let records = &trainer.history().records;
    assert!(records.is_sorted_by(|a, b| a.loss > b.loss));
    assert!(records[19].val_loss > records[0].val_loss);
    assert!(records[19].val_acc < 0.5 && records[19].train_acc > 0.5);
    assert!(records[19].lr < config.lr);
}
