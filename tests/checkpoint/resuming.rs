//! A run continues from its own checkpoint, and from no other.

use super::*;
use emmy::train::BestBy;

fn resumed_in_the_same_bits<F: Real>(train: TrainConfig) {
    let set = data::karate();
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("run.ckpt");

    let mut whole = trainer::<F>(&set, train.clone());
    fit(&set, &mut whole);

    let half = TrainConfig {
        epochs: 7,
        ..train.clone()
    };
    let mut half = trainer::<F>(&set, half);
    fit(&set, &mut half);
    store::save::<F>(&path, &half.state()).unwrap();
    drop(half);

    let mut resumed = trainer::<F>(&set, train.clone());
    resumed
        .resume(store::load::<F, TrainState<F>>(&path).unwrap())
        .unwrap();
    assert_eq!(resumed.history().epochs(), 7);
    fit(&set, &mut resumed);
    assert_eq!(bits(&resumed), bits(&whole), "{train:?}");
    if train.plateau.is_some() {
        let lr = |step: usize| whole.history().steps[step].lr;
        assert!(lr(0) > lr(6) && lr(6) > lr(14));
    }
    let numbers = |t: &Run<F>| {
        let history = t.history();
        let metrics: Vec<_> = (history.records.iter())
            .map(|r| (r.epoch, r.steps, r.metrics.clone()))
            .collect();
        (metrics, history.steps.clone())
    };
    assert_eq!(numbers(&resumed), numbers(&whole));
}

#[test]
fn a_run_stopped_and_resumed_ends_in_the_same_bits() {
    for algorithm in [
        Algorithm::SGD,
        Algorithm::Sgd(Sgd {
            momentum: 0.9,
            nesterov: true,
        }),
        Algorithm::ADAM,
        Algorithm::ADAMW,
        Algorithm::MUON,
    ] {
        let train = TrainConfig {
            algorithm,
            weight_decay: 1e-3,
            epochs: 15,
            // The learning rate falls before and after the place where the run is stopped.
            plateau: Some(Plateau {
                gamma: 0.5,
                patience: 1,
                threshold: 0.9,
                cooldown: 1,
                ..Plateau::default()
            }),
            seed: 5,
            ..TrainConfig::default()
        };
        resumed_in_the_same_bits::<f32>(train.clone());
        resumed_in_the_same_bits::<f64>(train);
    }
}

#[test]
fn the_largest_delta_of_a_resumed_run_is_that_of_all_its_steps() {
    let set = data::karate();
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("run.ckpt");
    // A network that has laws.
    let net = GraphNetConfig {
        activation: Activation::Relu,
        ..config(&set)
    };
    let (x, neighbours) = (set.raw_features(), net.neighbourhood(&set.graph));
    let task = NodeClassification::new(&set.labels, &set.splits[0], |net: &GraphNet<f32>, pass| {
        net.forward(pass, pass.tape().sparse(&x), &neighbours)
    });
    let task = task.unwrap();
    let of = |epochs| {
        let how = TrainConfig {
            epochs,
            ..TrainConfig::default()
        };
        Trainer::new(GraphNet::new(net, 0).unwrap(), how).unwrap()
    };
    let watched = |trainer: &mut Run<f32>, monitor: &LawMonitor| {
        trainer.fit_observed(&task, monitor).unwrap();
        monitor.worst().unwrap()
    };
    let mut whole = of(12);
    let laws = whole.model().laws();
    let worst = watched(&mut whole, &LawMonitor::new(laws.clone()));
    let mut later = Vec::new();
    for epochs in [1, 6, 11] {
        let (mut half, monitor) = (of(epochs), LawMonitor::new(laws.clone()));
        watched(&mut half, &monitor);
        let state = TrainState {
            worst: monitor.worst(),
            ..half.state()
        };
        store::save::<f32>(&path, &state).unwrap();
        let state = load(&path).unwrap();
        let (mut rest, resumed) = (
            of(12),
            LawMonitor::resumed(laws.clone(), state.worst.clone()),
        );
        rest.resume(state.clone()).unwrap();
        assert_eq!(watched(&mut rest, &resumed), worst);
        // Without what was saved, only the later steps count.
        let mut rest = of(12);
        rest.resume(state).unwrap();
        later.push(watched(&mut rest, &LawMonitor::new(laws.clone())));
    }
    assert!(later.iter().any(|found| *found != worst));
}

#[test]
fn history_parameters_and_state_that_do_not_fit_are_refused() {
    let folder = TempDir::new().unwrap();
    let state = checkpoint(&folder.path().join("run.ckpt"));
    let set = data::karate();
    let refused = |change: &dyn Fn(&mut TrainState<f32>), reason: &str| {
        let mut state = state.clone();
        change(&mut state);
        let mut trainer = trainer(&set, TrainConfig::default());
        let message = trainer.resume(state).unwrap_err().to_string();
        assert!(message.contains(reason), "{message}");
        assert_eq!(trainer.history().epochs(), 0);
    };
    refused(&|p| p.history.records[2].epoch = 0, "epoch");
    refused(
        &|p| {
            p.history.steps[1].gradient_norms.pop();
        },
        "gradient norms",
    );
    refused(&|p| p.history.steps[1].epoch = 1, "step");
    refused(
        &|p| {
            p.history.steps.pop();
        },
        "steps until epoch 3",
    );
    refused(
        &|p| p.states.push(("mean".into(), emmy::Tensor::zeros(vec![2]))),
        "another model: state 0: expected none, found mean of shape [2]",
    );
    refused(&|p| p.history.names[0] = "scale".into(), "names");
    refused(&|p| p.history.records.truncate(0), "step");
    refused(
        &|p| {
            p.parameters.pop();
            p.best.pop();
        },
        "another model: parameter 7: expected layers.1.bias",
    );
    refused(
        &|p| {
            p.best.pop();
        },
        "best parameters",
    );
    refused(
        &|p| {
            let mut other = emmy::Tensor::zeros(vec![2]);
            let gradient = other.clone();
            p.optimizer = Optimizer::new(Algorithm::ADAM);
            p.optimizer.step([&mut other], &[gradient], 0.1);
        },
        "state of the optimiser",
    );
    // An optimiser before its first step fits every model, but no run that has begun.
    refused(
        &|p| p.optimizer = Optimizer::new(Algorithm::ADAM),
        "state of the optimiser: expected that after 3 steps, found that after 0",
    );
    refused(
        &|p| {
            p.history = trainer::<f32>(&set, TrainConfig::default())
                .history()
                .clone();
            p.best.clear();
        },
        "expected that after 0 steps, found that after 3",
    );
}

#[test]
fn another_run_is_refused_with_what_differs() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("run.ckpt");
    let state = checkpoint(&path);
    let set = data::karate();
    let same = TrainConfig::default();
    let refused = |mut other: Run<f32>, reason: &str| {
        let before = bits(&other);
        let message = other.resume(state.clone()).unwrap_err().to_string();
        assert!(message.contains(reason), "{message}");
        assert_eq!(bits(&other), before);
    };
    let mut wider = config(&set);
    wider.hidden = 5;
    let net = GraphNet::new(wider, 0).unwrap();
    refused(
        Trainer::new(net, same.clone())
            .unwrap()
            .described("gat on karate"),
        "parameter 0: expected layers.0.weight of shape [10, 34], found layers.0.weight of shape [6, 34]",
    );
    let deeper = GraphNetConfig {
        layers: 3,
        ..config(&set)
    };
    let net = GraphNet::new(deeper, 0).unwrap();
    refused(
        Trainer::new(net, same.clone())
            .unwrap()
            .described("gat on karate"),
        "another model",
    );
    refused(
        trainer(&set, same.clone()).described("gcn on cora"),
        "description: expected gcn on cora, found gat on karate",
    );
    refused(
        trainer(
            &set,
            TrainConfig {
                seed: 1,
                ..same.clone()
            },
        ),
        "seed: expected 1, found 0",
    );
    refused(
        trainer(
            &set,
            TrainConfig {
                algorithm: Algorithm::SGD,
                ..same.clone()
            },
        ),
        "rule of updates",
    );
    refused(
        trainer(
            &set,
            TrainConfig {
                weight_decay: 0.1,
                ..same.clone()
            },
        ),
        "rule of updates",
    );
    refused(
        trainer(
            &set,
            TrainConfig {
                plateau: Some(Plateau::default()),
                ..same.clone()
            },
        ),
        "rule of updates",
    );

    let with = |patience: usize| TrainConfig {
        plateau: Some(Plateau {
            patience,
            ..Plateau::default()
        }),
        ..same.clone()
    };
    let state = trainer::<f32>(&set, with(3)).state();
    let message = trainer::<f32>(&set, with(4)).resume(state).unwrap_err();
    assert!(message.to_string().contains("rule of updates"), "{message}");
}

/// The best weights of the file are those that the other rule chose.
#[test]
fn another_rule_of_the_best_epoch_is_refused() {
    let set = data::karate();
    let by = |best_by| TrainConfig {
        best_by,
        epochs: 12,
        ..TrainConfig::default()
    };
    let mut run = trainer::<f64>(&set, by(BestBy::LOSS));
    fit(&set, &mut run);
    let state = run.state();
    let best = |by: BestBy| {
        let value = |r: &emmy::train::Record| r.metrics[by.metric()];
        let records = &run.history().records;
        let first = |best: usize, k: usize| {
            let better = by.is_better(value(&records[k]), value(&records[best]));
            if better { k } else { best }
        };
        (0..records.len()).fold(0, first)
    };
    assert_ne!(
        best(BestBy::LOSS),
        best(BestBy::ACCURACY),
        "another seed is needed"
    );
    let mut same = trainer::<f64>(&set, by(BestBy::LOSS));
    same.resume(state.clone()).unwrap();
    let mut other = trainer::<f64>(&set, by(BestBy::ACCURACY));
    let error = other.resume(state).unwrap_err().to_string();
    assert!(error.contains("best epoch"), "{error}");
    assert_eq!(other.history().epochs(), 0);
}
