//! Forward passes: against a loop written out, shared between training and evaluation, and what is random in them.

use super::*;

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
        let trainer = setting.fit_with(config, |net, pass| {
            passes.set(passes.get() + 1);
            if draws {
                // A seed asked for and not used: the pass counts as random, and is evaluated apart.
                pass.draw();
            }
            setting.forward(net, pass)
        });
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
        setting.fit_with(config, |net, pass| {
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
    setting.fit_with(config, |net, pass| {
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

#[test]
fn a_variable_can_stand_for_a_parameter() {
    let layer = Linear::<f64>::new(2, 3, true, &mut emmy::init::rng(1));
    let tape = Tape::new();
    let pass = Pass::train(&tape, 0);
    let weight = tape.var(layer.weight.mapv(|w| 2.0 * w).into_shared());
    pass.bind(&layer.weight, weight);
    let x = tape.constant(emmy::init::normal(&[4, 2], 1.0, &mut emmy::init::rng(2)));
    let y = layer.forward(&pass, x);
    assert_eq!(y.value(), x.linear(weight).value());
    let [bound, own] = [weight, pass.param(&layer.weight)].map(|w| grad(y.sum_all(), &[w]));
    assert_eq!(bound, own);
    // What is not bound is still the layer's own.
    assert_eq!(
        pass.gradients(y.sum_all(), &layer)[1],
        Tensor::from_elem(vec![3], 4.0)
    );
}

#[test]
#[should_panic(expected = "bind: a variable of shape [2] for a parameter of shape [3]")]
fn what_stands_for_a_parameter_has_its_shape() {
    let bias = Tensor::<f64>::zeros(vec![3]);
    let tape = Tape::new();
    Pass::train(&tape, 0).bind(&bias, tape.var(Tensor::zeros(vec![2])));
}

#[test]
#[should_panic(expected = "bind: something stands for this parameter already")]
fn nothing_else_stands_for_it_after_it_was_asked_for() {
    let bias = Tensor::<f64>::zeros(vec![3]);
    let tape = Tape::new();
    let pass = Pass::train(&tape, 0);
    pass.param(&bias);
    pass.bind(&bias, tape.var(bias.clone()));
}
