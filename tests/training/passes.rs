//! Forward passes: comparison with a plain loop, passes shared between training and evaluation, and
//! random passes.

use super::*;

#[test]
fn plain_descent_is_the_loop_written_out() {
    let setting = setting(0.0);
    let config = TrainConfig {
        algorithm: Algorithm::SGD,
        lr: 0.5,
        weight_decay: 0.01,
        epochs: 7,
        ..TrainConfig::default()
    };
    let trainer = setting.fit(config);

    let mut net = setting.net();
    let (labels, split) = (&setting.set.labels, &setting.set.splits[0]);
    let history = trainer.history();
    assert_eq!((history.records.len(), history.steps.len()), (7, 7));
    for (k, (record, step)) in history.records.iter().zip(&history.steps).enumerate() {
        // A step is recorded where it begins.
        let tape = Tape::new();
        let pass = Pass::train(&tape, &net, 99);
        let loss = setting
            .forward(&net, &pass)
            .cross_entropy(labels, Some(&split.train));
        let gradients = grad(loss, pass.vars());
        assert_eq!((step.step, step.epoch), (k + 1, k + 1));
        assert_eq!((step.loss, step.lr), (loss.item(), 0.5));
        drop(pass);
        for (p, g) in net.tensors_mut().into_iter().zip(&gradients) {
            *p = (&*p - (g + &*p * 0.01) * 0.5).into_shared();
        }
        for (norm, g) in step.gradient_norms.iter().zip(&gradients) {
            let expected = g.mapv(|x| x * x).sum().sqrt();
            approx::assert_relative_eq!(*norm, expected, epsilon = 1e-12);
        }
        // An epoch is recorded where it ends.
        assert_eq!((record.epoch, record.steps), (k + 1, k + 1));
        let tape = Tape::new();
        let logits = setting.forward(&net, &Pass::eval(&tape, &net)).value();
        for (name, mask) in [
            ("train", &split.train),
            ("val", &split.val),
            ("test", &split.test),
        ] {
            let accuracy = metrics::accuracy(&logits, labels, mask);
            assert_eq!(record.metrics[&*format!("{name}_acc")], accuracy);
        }
        for (name, mask) in [("train_loss", &split.train), ("val_loss", &split.val)] {
            let loss = metrics::cross_entropy(&logits, labels, mask);
            approx::assert_relative_eq!(record.metrics[name], loss, epsilon = 1e-12);
        }
        // The next step begins at the same point.
        match history.steps.get(record.steps) {
            None => assert_eq!(record.epoch, 7),
            Some(next) => {
                let loss = record.metrics["train_loss"];
                approx::assert_relative_eq!(next.loss, loss, epsilon = 1e-12);
            }
        }
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
        let trainer = setting.fit_with(config.clone(), |net, pass| {
            passes.set(passes.get() + 1);
            if draws {
                // A seed is drawn but not used: the pass counts as random, and the evaluation has
                // its own pass.
                pass.draw();
            }
            setting.forward(net, pass)
        });
        (passes.get(), trainer)
    };
    let ((once, shared), (twice, apart)) = (run(false), run(true));
    assert_eq!((once, twice), (31, 60));
    assert_eq!(untimed(&shared), untimed(&apart));
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
    // Random from the 6th epoch on. Before that, either a seed is drawn and not used, or no seed is drawn and
    // passes are shared.
    let run = |always_draws: bool| {
        let trained = std::cell::Cell::new(0);
        setting.fit_with(config.clone(), |net, pass| {
            trained.set(trained.get() + usize::from(pass.is_training()));
            let late = trained.get() > 5;
            let seed = (late || always_draws).then(|| pass.draw()).flatten();
            let logits = setting.forward(net, pass);
            match seed {
                Some(seed) if late => logits.dropout(0.5, seed),
                _ => logits,
            }
        })
    };
    let (shared, apart) = (run(false), run(true));
    assert_eq!(untimed(&shared), untimed(&apart));
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
    setting.fit_with(config.clone(), |net, pass| {
        seeds.borrow_mut().extend([pass.draw(), pass.draw()]);
        setting.forward(net, pass)
    });
    let mut seeds: Vec<u64> = seeds.into_inner().into_iter().flatten().collect();
    assert_eq!(seeds.len(), 2 * 9);
    seeds.sort_unstable();
    seeds.dedup();
    assert_eq!(seeds.len(), 2 * 9);
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
