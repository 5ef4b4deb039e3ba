//! Optimisers as rules: formulas, a rule of a user's own from its first step to a resumed checkpoint, and
//! the laws under Muon.

use super::*;
use emmy::error::Rules;
use emmy::kernels::par;
use emmy::kernels::update::blocks;
use emmy::nn::Role;
use emmy::optim::{Adam, AdamW, Muon, Parameter, Rates, Rule};
use emmy::store;
use emmy::symmetry::Law;
use emmy::train::{self, LawMonitor, TrainState};
use emmy::{Error, Real, init, tensor::tensor};
use std::cell::RefCell;

/// p ← p − η g / √(v + ε) with v ← β v + (1 − β) |g|² / n for the gradient of a whole parameter (a normalised
/// descent with memory), and a running mean of matrices alone, so that states have different forms.
#[derive(Debug, Clone)]
struct Normalised {
    beta: f64,
}

impl Rule for Normalised {
    fn validate(&self) -> emmy::Result<()> {
        Rules("normalised").hold((0.0..1.0).contains(&self.beta), "β", "0 ≤ β < 1", self.beta)
    }

    fn start<F: Real>(&self, of: Parameter<'_>, p: &[F]) -> Vec<Vec<F>> {
        match of.role {
            Role::Weight => vec![vec![F::zero()], p.to_vec()],
            _ => vec![vec![F::one()]],
        }
    }

    fn update<F: Real>(
        &self,
        of: Parameter<'_>,
        p: &mut [F],
        g: &[F],
        state: &mut [Vec<F>],
        at: Rates,
    ) {
        let beta = F::of(self.beta);
        let mean = g.iter().map(|&g| g * g).sum::<F>() / F::of(g.len() as f64);
        state[0][0] = beta * state[0][0] + (F::one() - beta) * mean;
        let lr = F::of(at.lr) / (state[0][0] + F::of(1e-12)).sqrt();
        blocks([p], g, |[p], g| {
            for (p, &g) in p.iter_mut().zip(g) {
                *p -= lr * g;
            }
        });
        if of.role == Role::Weight {
            for (mean, &p) in state[1].iter_mut().zip(&*p) {
                *mean = beta * *mean + (F::one() - beta) * p;
            }
        }
    }
}

fn normalised(name: &str) -> Algorithm {
    Algorithm::register(name, Normalised { beta: 0.8 }).unwrap()
}

fn how(algorithm: Algorithm, epochs: usize) -> TrainConfig {
    TrainConfig {
        algorithm,
        lr: 0.02,
        epochs,
        ..TrainConfig::default()
    }
}

#[test]
fn a_rule_of_ones_own_trains_and_its_checkpoint_is_resumed_bit_for_bit() {
    let own = normalised("normalised");
    let setting = setting(0.3);
    let whole = setting.fit(how(own, 20));
    let losses = &whole.history().steps;
    assert!(losses[19].loss < 0.7 * losses[0].loss);

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.ckpt");
    store::save::<f64>(&path, &setting.fit(how(own, 8)).state()).unwrap();
    let state: TrainState<f64> = store::load::<f64, _>(&path).unwrap();
    assert_eq!(state.optimizer.algorithm(), own);
    let mut resumed = setting.trainer(how(own, 20));
    resumed.resume(state.clone()).unwrap();
    resumed.fit(&setting.task(), |_, _| Ok(())).unwrap();
    assert_eq!(parameters(resumed.model()), parameters(whole.model()));
    assert_eq!(resumed.state().optimizer, whole.state().optimizer);

    // The state is none of another rule, and another rule refuses it.
    let mut other = setting.trainer(how(Algorithm::ADAM, 20));
    let message = other.resume(state).unwrap_err().to_string();
    assert!(message.contains("rule of updates"), "{message}");
}

#[test]
fn a_name_is_that_of_one_rule_and_an_unknown_name_is_no_rule() {
    let own = normalised("taken");
    assert_eq!(Algorithm::registered("taken").unwrap(), own);
    let again = Algorithm::register("taken", Normalised { beta: 0.1 });
    assert!(again.unwrap_err().to_string().contains("optimisers: name"));
    let wrong = Algorithm::register("wrong", Normalised { beta: 1.0 });
    assert!(wrong.unwrap_err().to_string().contains("0 ≤ β < 1"));

    // A configuration and a checkpoint hold the name.
    let text = serde_json::to_string(&how(own, 1)).unwrap();
    assert!(
        text.contains(r#""algorithm":{"Registered":"taken"}"#),
        "{text}"
    );
    let back: TrainConfig = serde_json::from_str(&text).unwrap();
    assert_eq!(back, how(own, 1));
    let unknown = text.replace("taken", "nobody's");
    let message = serde_json::from_str::<TrainConfig>(&unknown)
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("a name given to Algorithm::register before"),
        "{message}"
    );
    assert!(message.contains("taken"), "{message}");
}

#[test]
fn a_step_by_hand_knows_the_roles_of_the_model() {
    let own = normalised("by hand");
    let mut layer = Linear::<f64>::new(3, 2, true, &mut init::rng(0));
    let mut optimizer = Optimizer::new(own);
    let x = init::normal::<f64>(&[5, 3], 1.0, &mut init::rng(1));
    let mut losses = Vec::new();
    for seed in 0..40 {
        let loss = train::step(&mut layer, &mut optimizer, 0.02, seed, |layer, pass| {
            let y = layer.forward(pass, pass.tape().constant(x.clone()));
            (y - 1.0).square().mean_all()
        });
        losses.push(loss.unwrap());
    }
    assert!(losses[39] < 0.5 * losses[0], "{losses:?}");
    optimizer.check_state(&layer).unwrap();
    // The bias has one number of state, as its role says; a matrix has more.
    let without = Linear::<f64>::new(3, 2, false, &mut init::rng(0));
    assert!(optimizer.check_state(&without).is_err());
}

#[test]
fn adam_is_its_formula() {
    let (n, lr, decay) = (37, 0.01, 0.1);
    let (beta1, beta2, eps) = (0.9, 0.99, 1e-8);
    let numbers = |seed| init::normal::<f64>(&[n], 1.0, &mut init::rng(seed));
    for apart in [false, true] {
        let algorithm = match apart {
            true => Algorithm::AdamW(AdamW { beta1, beta2, eps }),
            false => Algorithm::Adam(Adam { beta1, beta2, eps }),
        };
        let mut optimizer = Optimizer::new(algorithm).weight_decay(decay);
        let (mut p, mut naive) = (numbers(0), numbers(0).iter().copied().collect::<Vec<_>>());
        let (mut m, mut v) = (vec![0.0; n], vec![0.0; n]);
        for t in 1..5 {
            let g = numbers(t);
            optimizer.step([&mut p], std::slice::from_ref(&g), lr);
            let bias = |beta: f64| 1.0 - beta.powf(t as f64);
            for k in 0..n {
                let x = naive[k] * if apart { 1.0 - lr * decay } else { 1.0 };
                let d = g[k] + if apart { 0.0 } else { decay } * x;
                m[k] += (1.0 - beta1) * (d - m[k]);
                v[k] = beta2 * v[k] + (1.0 - beta2) * d * d;
                let root = v[k].sqrt() / bias(beta2).sqrt() + eps;
                naive[k] = x - lr / bias(beta1) * m[k] / root;
            }
            assert_eq!(p, tensor(&[n], naive.clone()), "{algorithm:?}, step {t}");
        }
    }
}

/// After Newton–Schulz all singular values are about 1, so a step without memory moves every direction of a
/// matrix by about η.
#[test]
fn a_step_of_muon_moves_all_directions_alike() {
    let plain = Algorithm::Muon(Muon {
        momentum: 0.0,
        nesterov: false,
        ..Muon::DEFAULT
    });
    for (rows, columns) in [(6, 6), (12, 3), (3, 12), (1, 5), (5, 1)] {
        let g = init::normal::<f64>(&[rows, columns], 3.0, &mut init::rng(7));
        let mut p = Tensor::zeros(vec![rows, columns]);
        Optimizer::new(plain).step([&mut p], std::slice::from_ref(&g), 1.0);
        let step = p
            .into_dimensionality::<ndarray::Ix2>()
            .unwrap()
            .mapv(|x| -x);
        let (_, sizes, _) = emmy::linalg::svd(step.view());
        let scale = (rows as f64 / columns as f64).max(1.0).sqrt();
        for size in &sizes {
            assert!(
                (0.6..1.3).contains(&(size / scale)),
                "[{rows}, {columns}]: {sizes}"
            );
        }
        let along: f64 = step.iter().zip(&g).map(|(s, g)| s * g).sum();
        assert!(along > 0.0);
    }
    // Without a gradient nothing moves but what decays.
    let mut p = tensor(&[2, 2], vec![1.0_f64, 2.0, 3.0, 4.0]);
    let zero = Tensor::zeros(vec![2, 2]);
    Optimizer::new(plain)
        .weight_decay(0.5)
        .step([&mut p], &[zero], 0.1);
    assert_eq!(p, tensor(&[2, 2], vec![0.95, 1.9, 0.95 * 3.0, 3.8]));
}

/// By their roles, and not by their shapes.
#[test]
fn muon_leaves_tables_and_vectors_to_adamw() {
    let start = |seed| init::normal::<f64>(&[4, 3], 1.0, &mut init::rng(seed));
    let run = |algorithm, role, lr| {
        let mut p = start(0);
        let mut optimizer = Optimizer::new(algorithm).of_roles([role]).weight_decay(0.1);
        for seed in 1..4 {
            optimizer.step([&mut p], &[start(seed)], lr);
        }
        p
    };
    let rest = Algorithm::AdamW(Muon::DEFAULT.adamw);
    for role in [
        Role::Table,
        Role::Attention,
        Role::Skip,
        Role::Gain,
        Role::Bias,
    ] {
        let expected = run(rest, role, 0.5 * Muon::DEFAULT.rest);
        assert_eq!(run(Algorithm::MUON, role, 0.5), expected, "{role:?}");
    }
    let expected = run(rest, Role::Weight, 0.5 * Muon::DEFAULT.rest);
    assert_ne!(run(Algorithm::MUON, Role::Weight, 0.5), expected);
}

#[test]
fn options_of_muon_that_break_a_rule_are_refused() {
    let refused = |muon: Muon, reason: &str| {
        let config = how(Algorithm::Muon(muon), 1);
        let message = config.validate().unwrap_err().to_string();
        assert!(message.contains(reason), "{message}");
    };
    let good = Muon::DEFAULT;
    assert!(how(Algorithm::MUON, 1).validate().is_ok());
    for momentum in [-0.1, 1.0, f64::NAN] {
        refused(
            Muon { momentum, ..good },
            "Muon: momentum: expected 0 ≤ μ < 1",
        );
    }
    refused(
        Muon {
            momentum: 0.0,
            ..good
        },
        "Nesterov's look-ahead",
    );
    refused(Muon { steps: 0, ..good }, "1 to 99 steps of Newton–Schulz");
    refused(
        Muon { steps: 100, ..good },
        "1 to 99 steps of Newton–Schulz",
    );
    refused(Muon { rest: -1.0, ..good }, "Muon: rest");
    let adamw = AdamW {
        eps: f64::INFINITY,
        ..good.adamw
    };
    refused(Muon { adamw, ..good }, "ε");
}

#[test]
#[should_panic(expected = "step: roles of 1 parameters, the gradients are of 2")]
fn roles_are_those_of_the_parameters() {
    let mut optimizer = Optimizer::<f64>::new(Algorithm::MUON).of_roles([Role::Weight]);
    let (mut a, mut b) = (Tensor::zeros(vec![2]), Tensor::zeros(vec![3]));
    let gradients = [a.clone(), b.clone()];
    optimizer.step([&mut a, &mut b], &gradients, 0.1);
}

#[test]
fn steps_of_all_rules_are_the_same_on_any_number_of_threads() {
    let own = normalised("threads");
    let momentum = Algorithm::Sgd(Sgd {
        momentum: 0.9,
        nesterov: true,
    });
    for algorithm in [
        Algorithm::SGD,
        momentum,
        Algorithm::ADAM,
        Algorithm::ADAMW,
        Algorithm::MUON,
        own,
    ] {
        let run = |threads| {
            par::with_threads(threads, || {
                let shapes: [&[usize]; 2] = [&[300, 517], &[90_001]];
                let numbers =
                    |seed| shapes.map(|s| init::normal::<f32>(s, 1.0, &mut init::rng(seed)));
                let mut p = numbers(0);
                let mut optimizer = Optimizer::new(algorithm).weight_decay(0.01);
                for seed in 1..3 {
                    optimizer.step(&mut p, &numbers(seed), 0.1);
                }
                p
            })
        };
        let one = run(1);
        for threads in [2, 4] {
            assert!(run(threads) == one, "{algorithm:?}, {threads} threads");
        }
    }
}

/// The largest change of a conserved quantity since the first step.
struct Drift {
    laws: Vec<Law>,
    seen: RefCell<Vec<Vec<f64>>>,
}

impl Observer<f64, Net> for &Drift {
    fn before_step(&mut self, at: &Point<'_, f64>) -> emmy::Result<()> {
        let balance = |law: &Law| law.balance(at.parameters).expect("no rotation");
        (self.seen.borrow_mut()).push(self.laws.iter().flat_map(balance).collect());
        Ok(())
    }
}

/// δ is a statement about every point, whatever steps lead from one to the next: it is 0 under Muon. c is
/// conserved by the flow; steps of Muon are no small steps along the gradient, and c moves by a multiple of
/// its size.
#[test]
fn laws_hold_at_every_step_of_muon_while_c_drifts() {
    let mut setting = setting(0.0);
    setting.config.activation = emmy::nn::Activation::Relu;
    let laws = setting.net().laws();
    assert!(!laws.is_empty());
    let (monitor, drift) = (
        LawMonitor::new(laws.clone()),
        Drift {
            laws,
            seen: RefCell::default(),
        },
    );
    let mut trainer = setting.trainer(how(Algorithm::MUON, 100));
    setting.observe(&mut trainer, (&monitor, &drift)).unwrap();
    let losses = &trainer.history().steps;
    assert!(
        losses[99].loss < 0.5 * losses[0].loss,
        "{}",
        losses[99].loss
    );
    assert!(monitor.max_delta() < 1e-10, "{:?}", monitor.worst());
    let seen = drift.seen.borrow();
    let apart = |c: &Vec<f64>| {
        c.iter()
            .zip(&seen[0])
            .fold(0.0, |m: f64, (a, b)| m.max((a - b).abs()))
    };
    let moved = seen.iter().map(apart).fold(0.0, f64::max);
    assert!(moved > 0.1, "{moved}");
}

#[test]
fn states_that_a_rule_does_not_have_are_refused() {
    let setting = setting(0.0);
    let state = setting.fit(how(Algorithm::MUON, 3)).state();
    let refused = |state: TrainState<f64>| {
        let error = setting
            .trainer(how(Algorithm::MUON, 5))
            .resume(state)
            .unwrap_err();
        assert!(matches!(error, Error::Invalid { .. }), "{error}");
        assert!(
            error.to_string().contains("state of the optimiser"),
            "{error}"
        );
    };
    // Adam's state has two vectors of each matrix, and Muon told other roles has them too.
    let config = TrainConfig {
        algorithm: Algorithm::ADAM,
        ..how(Algorithm::MUON, 3)
    };
    let adam = setting.fit(config).state().optimizer;
    adam.check_state(&setting.net()).unwrap();
    let text = serde_json::to_string(&adam).unwrap();
    let muon = serde_json::to_string(&Algorithm::MUON).unwrap();
    let text = text.replace(&serde_json::to_string(&Algorithm::ADAM).unwrap(), &muon);
    refused(TrainState {
        optimizer: serde_json::from_str(&text).unwrap(),
        ..state.clone()
    });
    let roles = emmy::nn::roles(&setting.net());
    let text = serde_json::to_string(&state.optimizer).unwrap();
    let (from, to) = (
        serde_json::to_string(&roles).unwrap(),
        serde_json::to_string(&vec![Role::Bias; roles.len()]).unwrap(),
    );
    assert!(text.contains(&from));
    // The vectors of Adam's state have the same lengths, whatever the roles.
    let told = serde_json::to_string(&adam).unwrap().replace(&from, &to);
    let told: Optimizer<f64> = serde_json::from_str(&told).unwrap();
    assert!(told.check_state(&setting.net()).is_err());
    let other = serde_json::from_str(&text.replace(&from, &to)).unwrap();
    refused(TrainState {
        optimizer: other,
        ..state
    });
}
