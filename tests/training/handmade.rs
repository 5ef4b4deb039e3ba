//! Training loops written by hand, one line per step.

use super::*;
use emmy::init;
use emmy::train;
use std::panic::{AssertUnwindSafe, catch_unwind};

#[test]
fn a_loop_of_single_steps_is_the_trainer() {
    for dropout in [0.0, 0.4] {
        let setting = setting(dropout);
        let config = TrainConfig {
            epochs: 12,
            weight_decay: 0.01,
            ..TrainConfig::default()
        };
        // The seeds that the trainer gives its passes.
        let seeds = std::cell::RefCell::new(Vec::new());
        let whole = setting.fit_with(config.clone(), |net, pass| {
            let logits = setting.forward(net, pass);
            if pass.is_training() {
                seeds.borrow_mut().push(pass.draw().unwrap());
            }
            logits
        });
        let mut net = setting.net();
        let mut optimizer = config.optimizer(&net);
        for (k, record) in whole.history().steps.iter().enumerate() {
            let seed = trainers_seed(config.seed, k as u64);
            let loss = train::step(&mut net, &mut optimizer, config.lr, seed, |net, pass| {
                let loss = setting
                    .forward(net, pass)
                    .cross_entropy(&setting.set.labels, Some(&setting.set.splits[0].train));
                assert_eq!(pass.draw(), Some(seeds.borrow()[k]));
                loss
            });
            assert_eq!(loss.unwrap(), record.loss);
        }
        assert_eq!(bits(&net), bits(whole.model()));
    }
}

/// The finaliser of SplitMix64: the seed of step k, as runs of earlier versions had it.
fn trainers_seed(seed: u64, k: u64) -> u64 {
    let mut z = seed.wrapping_add(k.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A layer that counts its training passes.
struct Counting {
    layer: Linear<f64>,
    passes: Tensor<f64>,
}
emmy::module!(Counting for f64: layer; state passes);

#[test]
fn a_step_writes_the_state_of_the_model() {
    let mut net = Counting {
        layer: Linear::new(2, 1, true, &mut init::rng(0)),
        passes: Tensor::zeros(vec![1]),
    };
    let x = init::normal(&[5, 2], 1.0, &mut init::rng(1));
    let mut optimizer = Optimizer::new(Algorithm::SGD);
    for _ in 0..3 {
        train::step(&mut net, &mut optimizer, 0.1, 0, |net, pass| {
            pass.update(&net.passes, (&net.passes + 1.0).into_shared());
            let y = net.layer.forward(pass, pass.tape().constant(x.clone()));
            y.square().mean_all()
        })
        .unwrap();
    }
    assert_eq!(net.passes[0], 3.0);
}

#[test]
fn a_step_that_diverges_is_refused_and_changes_nothing() {
    let mut layer = Linear::<f64>::new(2, 1, true, &mut init::rng(0));
    let x = init::normal(&[5, 2], 1.0, &mut init::rng(1));
    let mut optimizer = Optimizer::new(Algorithm::SGD);
    // A rate far too large: the loss grows until it is infinite, and the last step says so.
    let (mut seed, mut before) = (0, layer.clone());
    let error = loop {
        let found = train::step(&mut layer, &mut optimizer, 1e60, seed, |layer, pass| {
            let y = layer.forward(pass, pass.tape().constant(x.clone()));
            y.square().mean_all()
        });
        match found {
            Ok(_) => (seed, before) = (seed + 1, layer.clone()),
            Err(error) => break error.to_string(),
        }
    };
    assert!((1..5).contains(&seed), "{seed}");
    let expected =
        format!("training step with seed {seed}: loss: expected a finite number, found inf");
    assert_eq!(error, expected);
    assert_eq!((&layer.weight, &layer.bias), (&before.weight, &before.bias));
    assert_eq!(optimizer.steps(), seed);
    // A finite loss whose gradient is not: √x at 0.
    layer.weight = Tensor::zeros(vec![1, 2]);
    layer.bias = Some(Tensor::zeros(vec![1]));
    let found = train::step(&mut layer, &mut optimizer, 0.1, 7, |layer, pass| {
        let y = layer.forward(pass, pass.tape().constant(x.clone()));
        y.sqrt().sum_all()
    });
    let error = found.unwrap_err().to_string();
    assert!(
        error.contains("seed 7: gradient of weight: expected a finite number"),
        "{error}"
    );
    assert!(layer.weight.iter().all(|&w| w == 0.0));
    for lr in [-0.1, f64::NAN] {
        let found = train::step(&mut layer, &mut optimizer, lr, 8, |layer, pass| {
            let y = layer.forward(pass, pass.tape().constant(x.clone()));
            y.sum_all()
        });
        let error = found.unwrap_err().to_string();
        assert!(error.contains("lr: expected at least 0"), "{error}");
    }
    assert!(layer.weight.iter().all(|&w| w == 0.0));
}

/// The line of this file where a panic says it happened.
fn line_of_panic(f: impl FnOnce()) -> Option<u32> {
    use std::sync::{Arc, Mutex};
    static ONE_HOOK: Mutex<()> = Mutex::new(());
    let _one_at_a_time = ONE_HOOK.lock().unwrap();
    let place = Arc::new(Mutex::new(None));
    let (seen, thread) = (place.clone(), std::thread::current().id());
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if std::thread::current().id() == thread {
            let at = info.location().unwrap();
            *seen.lock().unwrap() = at.file().ends_with("handmade.rs").then(|| at.line());
        }
    }));
    let result = catch_unwind(AssertUnwindSafe(f));
    std::panic::set_hook(before);
    assert!(result.is_err());
    place.lock().unwrap().take()
}

#[test]
fn messages_of_a_step_point_at_the_line_that_asked_for_it() {
    let tensors = |sizes: &[usize]| -> Vec<Tensor<f64>> {
        let zeros = |&n: &usize| Tensor::zeros(vec![n]);
        sizes.iter().map(zeros).collect()
    };
    let (two, three) = (tensors(&[2, 2]), tensors(&[2, 2, 2]));
    for (parameters, gradients, begun) in [
        // More parameters than gradients, fewer, another shape.
        (&three, &two, None),
        (&two, &three, None),
        (&tensors(&[2, 3]), &two, None),
        // More of both than in the first step.
        (&three, &three, Some(&two)),
    ] {
        for algorithm in [Algorithm::ADAM, Algorithm::SGD] {
            if begun.is_some() && algorithm == Algorithm::SGD {
                continue; // It has no state that would not fit.
            }
            let mut optimizer = Optimizer::new(algorithm);
            if let Some(first) = begun {
                optimizer.step(&mut first.clone(), first, 0.1);
            }
            let here = line!() + 2;
            let found = line_of_panic(|| {
                optimizer.step(&mut parameters.clone(), gradients, 0.1);
            });
            assert_eq!(found, Some(here));
        }
    }
    let mut layer = Linear::<f64>::new(2, 1, true, &mut init::rng(0));
    let mut optimizer = Optimizer::new(Algorithm::ADAM);
    let here = line!() + 2;
    let found = line_of_panic(|| {
        let _ = train::step(&mut layer, &mut optimizer, 0.1, 0, |layer, pass| {
            pass.param(&layer.weight)
        });
    });
    assert_eq!(found, Some(here), "a loss of two elements");
}
