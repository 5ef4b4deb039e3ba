//! The training loop: against a loop written out, with and without shared forward passes, and when things go wrong.

use emmy::autodiff::grad;
use emmy::data::{self, Dataset, Split};
use emmy::nn::{Conv, GraphNet, GraphNetConfig, Module, Pass};
use emmy::optim::{Decay, Method, Optimizer, Plateau, Schedule};
use emmy::sparse::Csr;
use emmy::train::{Record, Select, Task, TrainConfig, Trainer, metrics};
use emmy::{Tape, Tensor, Var};

struct Setting {
    set: Dataset,
    config: GraphNetConfig,
    x: Csr<f64>,
    adjacency: Csr<f64>,
}

fn setting(dropout: f64) -> Setting {
    let set = data::karate();
    let config = GraphNetConfig {
        conv: Conv::Gatv2 { shared: true },
        dropout,
        attention_dropout: dropout,
        heads: 2,
        hidden: 4,
        ..GraphNetConfig::gcn(set.feature_count(), set.classes)
    };
    Setting {
        x: set.raw_features(),
        adjacency: config.adjacency(&set.graph),
        config,
        set,
    }
}

impl Setting {
    fn net(&self) -> GraphNet<f64> {
        GraphNet::new(self.config, 1).unwrap()
    }

    fn task(&self) -> Task<'_> {
        Task {
            labels: &self.set.labels,
            split: &self.set.splits[0],
        }
    }

    fn forward<'t>(&self, net: &GraphNet<f64>, pass: &Pass<'t, f64>) -> Var<'t, f64> {
        net.forward(pass, pass.tape().sparse(&self.x), &self.adjacency)
    }

    fn fit(&self, config: TrainConfig) -> Trainer<f64, GraphNet<f64>> {
        let mut trainer = Trainer::new(self.net(), config).unwrap();
        trainer
            .fit(
                &self.task(),
                |net, pass| self.forward(net, pass),
                |_, _| Ok(()),
            )
            .unwrap();
        trainer
    }
}

fn parameters(model: &impl Module<f64>) -> Vec<Tensor<f64>> {
    model
        .parameters()
        .into_iter()
        .map(|(_, p)| p.clone())
        .collect()
}

/// NaN is not equal to itself; its bits are.
fn bits(model: &impl Module<f64>) -> Vec<u64> {
    parameters(model)
        .iter()
        .flatten()
        .map(|x| x.to_bits())
        .collect()
}

fn untimed(records: &[Record]) -> Vec<Record> {
    let timeless = |r: &Record| Record {
        ms: 0.0,
        ..r.clone()
    };
    records.iter().map(timeless).collect()
}

#[test]
fn plain_descent_is_the_loop_written_out() {
    let setting = setting(0.0);
    let config = TrainConfig {
        method: Method::SGD,
        lr: 0.5,
        weight_decay: 0.01,
        epochs: 7,
        ..TrainConfig::default()
    };
    let trainer = setting.fit(config);

    let mut net = setting.net();
    let split = &setting.set.splits[0];
    for (epoch, record) in trainer.history().records.iter().enumerate() {
        let tape = Tape::new();
        let pass = Pass::train(&tape, 99);
        let loss = setting
            .forward(&net, &pass)
            .cross_entropy(&setting.set.labels, Some(&split.train));
        let vars: Vec<_> = net
            .parameters()
            .iter()
            .map(|(_, p)| pass.param(p))
            .collect();
        let gradients = grad(loss, &vars);
        assert_eq!(record.epoch, epoch + 1);
        assert_eq!(record.loss, loss.item());
        for ((_, p), g) in net.parameters_mut().into_iter().zip(&gradients) {
            *p = (&*p - (g + &*p * 0.01) * 0.5).into_shared();
        }
        for (norm, g) in record.gradient_norms.iter().zip(&gradients) {
            let expected = g.mapv(|x| x * x).sum().sqrt();
            approx::assert_relative_eq!(*norm, expected, epsilon = 1e-12);
        }
        let tape = Tape::new();
        let logits = setting.forward(&net, &Pass::evaluate(&tape)).value();
        let accuracy = |mask: &[bool]| metrics::accuracy(&logits, &setting.set.labels, mask);
        assert_eq!(record.train_acc, accuracy(&split.train));
        assert_eq!(record.val_acc, accuracy(&split.val));
        assert_eq!(record.test_acc, accuracy(&split.test));
        let val_loss = metrics::cross_entropy(&logits, &setting.set.labels, &split.val);
        approx::assert_relative_eq!(record.val_loss, val_loss, epsilon = 1e-12);
    }
    for (a, b) in parameters(trainer.model()).iter().zip(parameters(&net)) {
        approx::assert_abs_diff_eq!(*a, b, epsilon = 1e-13);
    }
}

#[test]
fn a_shared_forward_pass_changes_no_bit_and_is_done_once() {
    let setting = setting(0.0);
    let config = TrainConfig {
        epochs: 30,
        ..TrainConfig::default()
    };
    let passes = std::cell::Cell::new(0);
    let run = |draws: bool| {
        passes.set(0);
        let mut trainer = Trainer::new(setting.net(), config).unwrap();
        trainer
            .fit(
                &setting.task(),
                |net, pass| {
                    passes.set(passes.get() + 1);
                    if draws {
                        // A seed asked for and not used: the pass counts as random, and is evaluated apart.
                        pass.draw();
                    }
                    setting.forward(net, pass)
                },
                |_, _| Ok(()),
            )
            .unwrap();
        (passes.get(), trainer)
    };
    let ((once, shared), (twice, apart)) = (run(false), run(true));
    assert_eq!((once, twice), (31, 60));
    assert_eq!(
        untimed(&shared.history().records),
        untimed(&apart.history().records)
    );
    assert_eq!(parameters(shared.model()), parameters(apart.model()));
    assert_eq!(
        parameters(&shared.best_model()),
        parameters(&apart.best_model())
    );
}

#[test]
fn dropout_that_sets_in_late_does_not_reach_the_evaluation() {
    let setting = setting(0.0);
    let config = TrainConfig {
        epochs: 12,
        ..TrainConfig::default()
    };
    // Random from the 6th epoch on; before that a seed is drawn, and not used, or none is drawn and passes are shared.
    let run = |always_draws: bool| {
        let trained = std::cell::Cell::new(0);
        let mut trainer = Trainer::new(setting.net(), config).unwrap();
        trainer
            .fit(
                &setting.task(),
                |net, pass| {
                    trained.set(trained.get() + usize::from(pass.is_training()));
                    let late = trained.get() > 5;
                    let seed = (late || always_draws).then(|| pass.draw()).flatten();
                    let logits = setting.forward(net, pass);
                    match seed {
                        Some(seed) if late => logits.dropout(0.5, seed),
                        _ => logits,
                    }
                },
                |_, _| Ok(()),
            )
            .unwrap();
        trainer
    };
    let (shared, apart) = (run(false), run(true));
    assert_eq!(
        untimed(&shared.history().records),
        untimed(&apart.history().records)
    );
    assert_eq!(parameters(shared.model()), parameters(apart.model()));
}

#[test]
fn every_epoch_draws_masks_of_its_own() {
    let setting = setting(0.0);
    let config = TrainConfig {
        epochs: 9,
        ..TrainConfig::default()
    };
    let seeds = std::cell::RefCell::new(Vec::new());
    let mut trainer = Trainer::new(setting.net(), config).unwrap();
    trainer
        .fit(
            &setting.task(),
            |net, pass| {
                seeds.borrow_mut().extend([pass.draw(), pass.draw()]);
                setting.forward(net, pass)
            },
            |_, _| Ok(()),
        )
        .unwrap();
    let mut seeds: Vec<u64> = seeds.into_inner().into_iter().flatten().collect();
    assert_eq!(seeds.len(), 2 * 9);
    seeds.sort_unstable();
    seeds.dedup();
    assert_eq!(seeds.len(), 2 * 9);
}

#[test]
fn chosen_parameters_decay_as_if_all_did_and_the_others_as_if_none() {
    let momentum = Method::Sgd {
        momentum: 0.9,
        nesterov: false,
    };
    for method in [Method::SGD, momentum, Method::ADAM, Method::ADAMW] {
        let all = Optimizer::<f64>::new(method).weight_decay(0.3);
        let run = |mut optimizer: Optimizer<f64>| {
            let start = [vec![1.0, -2.0], vec![0.5], vec![3.0, 0.25]];
            let mut parameters = start.map(|p| emmy::tensor::tensor(&[p.len()], p));
            for step in 1..4 {
                let gradients = parameters
                    .clone()
                    .map(|p| p.mapv(|x| (x * f64::from(step)).sin()));
                let gradients = gradients.map(|g| g.into_shared());
                optimizer.step(&mut parameters, &gradients, 0.1);
            }
            parameters
        };
        let chosen = (all.clone()).decay_only(["a", "b", "c"], |name| name == "b");
        assert!(!chosen.same_rule(&all));
        let (with, without) = (run(all), run(Optimizer::new(method)));
        assert!((0..3).all(|k| with[k] != without[k]));
        let [a, _, c] = without;
        let [_, b, _] = with;
        assert_eq!(run(chosen), [a, b, c], "{method:?}");
    }
}

#[test]
#[should_panic(expected = "decay_only: 1 names, 2 parameters")]
fn names_chosen_for_decay_must_be_those_of_the_parameters() {
    let mut optimizer = Optimizer::<f64>::new(Method::SGD)
        .weight_decay(0.1)
        .decay_only(["weight"], |_| true);
    let (mut a, mut b) = (Tensor::zeros(vec![2]), Tensor::zeros(vec![3]));
    let gradients = [a.clone(), b.clone()];
    optimizer.step([&mut a, &mut b], &gradients, 0.1);
}

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
    let mut trainer = Trainer::new(setting.net(), config).unwrap();
    trainer
        .fit(&task, |net, pass| setting.forward(net, pass), |_, _| Ok(()))
        .unwrap();
    let records = &trainer.history().records;
    assert!(records.is_sorted_by(|a, b| a.loss > b.loss));
    assert!(records[19].val_loss > records[0].val_loss);
    assert!(records[19].val_acc < 0.5 && records[19].train_acc > 0.5);
    assert!(records[19].lr < config.lr);
}

#[test]
fn a_loss_that_is_not_finite_ends_with_an_error_before_its_step() {
    let setting = setting(0.0);
    let config = TrainConfig {
        method: Method::SGD,
        lr: 1e200,
        ..TrainConfig::default()
    };
    let mut trainer = Trainer::new(setting.net(), config).unwrap();
    let error = trainer
        .fit(
            &setting.task(),
            |net, pass| setting.forward(net, pass),
            |_, _| Ok(()),
        )
        .unwrap_err();
    let message = error.to_string();
    assert!(
        message.starts_with("training loss of epoch ") && message.contains("a finite number"),
        "{message}"
    );
    // What came before is still there.
    let epochs = trainer.history().epochs();
    assert!(
        message.contains(&format!("epoch {}", epochs + 1)),
        "{message}"
    );
    let mut again = Trainer::new(setting.net(), TrainConfig { epochs, ..config }).unwrap();
    let _ = again.fit(
        &setting.task(),
        |net, pass| setting.forward(net, pass),
        |_, _| Ok(()),
    );
    assert_eq!(bits(trainer.model()), bits(again.model()));
}

#[test]
fn an_observer_can_end_the_training_and_it_can_go_on() {
    for dropout in [0.0, 0.4] {
        let setting = setting(dropout);
        let config = TrainConfig {
            epochs: 20,
            ..TrainConfig::default()
        };
        let mut trainer = Trainer::new(setting.net(), config).unwrap();
        let stop = |_: &Trainer<_, _>, r: &Record| match r.epoch {
            8 => Err(emmy::Error::invalid("patience", "more", "none")),
            _ => Ok(()),
        };
        trainer
            .fit(
                &setting.task(),
                |net, pass| setting.forward(net, pass),
                stop,
            )
            .unwrap_err();
        assert_eq!(trainer.history().epochs(), 8);
        trainer
            .fit(
                &setting.task(),
                |net, pass| setting.forward(net, pass),
                |_, _| Ok(()),
            )
            .unwrap();
        let whole = setting.fit(config);
        assert_eq!(
            untimed(&trainer.history().records),
            untimed(&whole.history().records)
        );
        assert_eq!(parameters(trainer.model()), parameters(whole.model()));
    }
}

#[test]
fn seeds_decide_all_that_is_random() {
    let setting = setting(0.5);
    let run = |seed| {
        let trainer = setting.fit(TrainConfig {
            epochs: 10,
            seed,
            ..TrainConfig::default()
        });
        parameters(trainer.model())
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn senseless_requests_are_refused() {
    let setting = setting(0.0);
    let good = TrainConfig::default();
    for bad in [
        TrainConfig {
            lr: f64::NAN,
            ..good
        },
        TrainConfig {
            weight_decay: -1.0,
            ..good
        },
        TrainConfig {
            method: Method::Sgd {
                momentum: 0.0,
                nesterov: true,
            },
            ..good
        },
        TrainConfig {
            plateau: Some(Plateau {
                gamma: 2.0,
                ..Plateau::default()
            }),
            ..good
        },
        TrainConfig {
            schedule: Decay::Step {
                every: 0,
                gamma: 0.1,
            }
            .into(),
            ..good
        },
    ] {
        assert!(Trainer::new(setting.net(), bad).is_err(), "{bad:?}");
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
            "split: test: expected one flag a label, found 3 for 34",
        ),
    ] {
        let task = Task {
            split: &split,
            ..setting.task()
        };
        let mut trainer = Trainer::new(setting.net(), good).unwrap();
        let error = trainer
            .fit(&task, |net, pass| setting.forward(net, pass), |_, _| Ok(()))
            .unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
    }
}
